// portwright inspect: what a model is made of.
#include <fmt/format.h>

#include <algorithm>

#include "cli/program.h"
#include "cli/table.h"
#include "model/records.h"
#include "portwright/model.h"
#include "report/format.h"

namespace portwright {
namespace {

std::string domain_name(const OpsetImport& opset) { return opset.domain.empty() ? "ai.onnx" : opset.domain; }

// "Conv 20, Relu 17, Add 8", the most frequent first.
std::string operators_text(const ModelSummary& summary) {
  std::vector<std::pair<std::string, std::size_t>> sorted(summary.operators.begin(), summary.operators.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out;
  for (const auto& [name, count] : sorted) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, count);
  return out;
}

std::string opsets_text(const ModelSummary& summary) {
  std::string out;
  for (const OpsetImport& opset : summary.opsets)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", domain_name(opset), opset.version);
  return out;
}

void add_values(Table& table, const char* title, const std::vector<ValueInfo>& values) {
  for (const ValueInfo& value : values)
    table.add({{&value == &values.front() ? title : "", Tone::faint}, value.name + "  " + value.type_text});
}

std::string human(const Console& console, const std::string& file, const ModelSummary& summary) {
  Table table({});
  table.add({{"producer", Tone::faint}, summary.producer.empty() ? "unknown" : summary.producer});
  table.add({{"opset", Tone::faint}, fmt::format("{} (IR version {})", opsets_text(summary), summary.ir_version)});
  add_values(table, "inputs", summary.inputs);
  add_values(table, "outputs", summary.outputs);
  table.add({{"dynamic axes", Tone::faint}, summary.dynamic_axes.empty() ? "none" : joined(summary.dynamic_axes)});
  table.add({{"parameters", Tone::faint},
             fmt::format("{} ({})", format_count(static_cast<double>(summary.parameters)),
                         format_bytes(static_cast<double>(summary.weight_bytes)))});
  table.add(
      {{"multiply-adds", Tone::faint},
       summary.macs ? format_count(static_cast<double>(*summary.macs)) + " (dynamic axes taken as 1)" : "unknown"});
  table.add({{"nodes", Tone::faint}, fmt::format("{}: {}", summary.nodes, operators_text(summary))});
  for (const std::string& oddity : summary.oddities)
    table.add({{&oddity == &summary.oddities.front() ? "oddities" : "", Tone::warn}, oddity});
  return console.paint(Tone::strong, file) + "\n" + table.text(console);
}

Result<ExitCode> inspect(Console& console, const std::string& file) {
  PW_TRY(model, Model::load(file));
  const ModelSummary summary = model.summary();
  Json out = to_json(summary);
  out["model"] = file;
  console.document(out);
  console.print(human(console, file, summary));
  return ExitCode::passed;
}

}  // namespace

void add_inspect(Program& program) {
  const auto file = std::make_shared<std::string>();
  Verb verb = program.add({"inspect",
                           "Show inputs, outputs, operators, sizes and oddities of a model",
                           {"portwright inspect model.onnx", "portwright inspect model.onnx --json"}},
                          [file](Console& console) { return inspect(console, *file); });
  verb.argument("MODEL", *file, "An ONNX file");
}

}  // namespace portwright
