// portwright inspect: what a model is made of.
#include <fmt/format.h>

#include <algorithm>

#include "base/glob.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "engine/worker.h"
#include "model/records.h"
#include "portwright/difference.h"
#include "portwright/engine.h"
#include "portwright/graph.h"
#include "portwright/model.h"
#include "portwright/simplify.h"
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

std::string precisions_text(const ModelSummary& summary) {
  std::string out;
  for (const auto& [type, bytes] : summary.weight_types)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", type, format_bytes(static_cast<double>(bytes)));
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
  table.add({{"activations", Tone::faint},
             summary.activation_bytes
                 ? format_bytes(static_cast<double>(*summary.activation_bytes)) + " at most at once"
                 : "unknown"});
  if (summary.weight_types.size() > 1) table.add({{"precisions", Tone::faint}, precisions_text(summary)});
  table.add({{"nodes", Tone::faint}, fmt::format("{}: {}", summary.nodes, operators_text(summary))});
  for (const std::string& oddity : summary.oddities)
    table.add({{&oddity == &summary.oddities.front() ? "oddities" : "", Tone::warn}, oddity});
  return console.paint(Tone::strong, file) + "\n" + table.text(console);
}

struct InspectOptions {
  std::string file, nodes, diff;
  bool engines = false;
};

std::string type_of(const Graph& graph, ValueId value) {
  const auto dtype = graph.dtype(value);
  const auto shape = graph.shape(value);
  std::string dims;
  for (const Dimension& dim : shape.value_or(std::vector<Dimension>()))
    dims += (dims.empty() ? "" : ", ") + (dim.value            ? std::to_string(*dim.value)
                                          : dim.symbol.empty() ? "?"
                                                               : dim.symbol);
  return (dtype ? std::string(to_string(*dtype)) : "?") + (shape ? "[" + dims + "]" : "");
}

Json values_json(const Graph& graph, std::span<const ValueId> values) {
  Json out = Json::array();
  for (const ValueId value : values)
    out.push_back(value == ValueId::none ? Json()
                                         : Json{{"name", graph.name(value)},
                                                {"type", type_of(graph, value)},
                                                {"constant", graph.is_constant(value)}});
  return out;
}

bool matches(const Graph& graph, NodeId node, const std::string& pattern) {
  if (glob_match(pattern, graph.op(node)) || glob_match(pattern, graph.name(node))) return true;
  const auto outputs = graph.outputs(node);
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](ValueId value) { return value != ValueId::none && glob_match(pattern, graph.name(value)); });
}

Json matching_nodes(const Model& model, const std::string& pattern) {
  Graph graph(model);
  graph.infer();
  Json out = Json::array();
  for (const BlockId block : graph.blocks())
    for (const NodeId node : graph.nodes(block))
      if (matches(graph, node, pattern))
        out.push_back(Json{{"name", graph.name(node)},
                           {"operator", graph.op(node)},
                           {"inputs", values_json(graph, graph.inputs(node))},
                           {"outputs", values_json(graph, graph.outputs(node))}});
  return out;
}

std::string nodes_text(const Console& console, const Json& nodes) {
  Table table({"node", "operator", "inputs", "outputs"});
  const auto list = [](const Json& values) {
    std::string out;
    for (const Json& value : values)
      out += (out.empty() ? "" : ", ") +
             (value.is_null() ? "-" : value["name"].get<std::string>() + " " + value["type"].get<std::string>());
    return out;
  };
  for (const Json& node : nodes)
    table.add({{node["name"].get<std::string>(), Tone::strong},
               node["operator"].get<std::string>(),
               list(node["inputs"]),
               list(node["outputs"])});
  return table.text(console) + plural(nodes.size(), "node") + "\n";
}

const char* word(Difference::Kind kind) {
  return kind == Difference::Kind::added ? "added" : kind == Difference::Kind::removed ? "removed" : "changed";
}

Json differences_json(const std::vector<Difference>& found) {
  Json out = Json::array();
  for (const Difference& one : found)
    out.push_back(Json{{"kind", word(one.kind)}, {"what", one.what}, {"name", one.name}, {"detail", one.detail}});
  return out;
}

std::string differences_text(const Console& console, const std::vector<Difference>& found) {
  std::string out;
  for (const Difference& one : found) {
    const bool added = one.kind == Difference::Kind::added, removed = one.kind == Difference::Kind::removed;
    out += console.paint(added     ? Tone::good
                         : removed ? Tone::bad
                                   : Tone::warn,
                         added     ? "+ "
                         : removed ? "- "
                                   : "~ ") +
           one.what + " " + console.paint(Tone::strong, one.name) + (one.detail.empty() ? "" : "  " + one.detail) +
           "\n";
  }
  return out + (found.empty() ? "no difference\n" : plural(found.size(), "difference") + "\n");
}

// What each engine here says of the nodes; asked in workers, for asking may crash.
Json support(Console& console, const Model& model) {
  Json out = Json::object();
  for (const auto& engine : engines()) {
    if (!engine->available()) continue;
    console.progress().now("asking " + engine->name());
    const auto answers = ask_support(model, {engine->name(), "fp32", "", "cpu", engine->name() + ":fp32"}, {});
    Json refused = Json::array();
    for (const NodeSupport& node : answers.value_or(std::vector<NodeSupport>()))
      if (!node.supported)
        refused.push_back(Json{{"node", node.node}, {"operator", node.op_type}, {"reason", node.reason}});
    out[engine->name()] = Json{{"error", answers ? Json() : to_json(answers.error())}, {"unsupported", refused}};
  }
  return out;
}

std::string support_text(const Console& console, const Json& engines) {
  std::string out;
  for (const auto& [name, answer] : engines.items()) {
    const Json& refused = answer["unsupported"];
    std::string text = refused.empty() ? "takes every node" : "refuses " + plural(refused.size(), "node");
    if (!answer["error"].is_null()) text = "could not be asked: " + answer["error"]["message"].get<std::string>();
    out += console.paint(Tone::strong, name) + " " + text + "\n";
    for (const Json& node : refused)
      out += fmt::format("  {} ({}): {}\n", node["node"].get<std::string>(), node["operator"].get<std::string>(),
                         node["reason"].get<std::string>());
  }
  return out;
}

Result<ExitCode> show_difference(Console& console, const Model& model, const InspectOptions& options) {
  PW_TRY(other, Model::load(options.diff));
  const auto found = differences(model, other);
  Json out = document("difference");
  out["before"] = options.file;
  out["after"] = options.diff;
  out["differences"] = differences_json(found);
  console.document(out);
  console.print(differences_text(console, found));
  return found.empty() ? ExitCode::passed : ExitCode::failed;
}

void add_decompositions(const Model& model, ModelSummary& summary) {
  for (const Decomposed& one : decompositions(model))
    summary.oddities.push_back(fmt::format("{} {} as single operators", one.count, one.op));
}

Result<ExitCode> inspect(Console& console, const InspectOptions& options) {
  PW_TRY(model, Model::load(options.file));
  if (!options.diff.empty()) return show_difference(console, model, options);
  ModelSummary summary = model.summary();
  add_decompositions(model, summary);
  Json out = to_json(summary);
  out["model"] = options.file;
  std::string text = human(console, options.file, summary);
  if (!options.nodes.empty()) {
    out["matching"] = matching_nodes(model, options.nodes);
    text = nodes_text(console, out["matching"]);
  }
  if (options.engines) {
    out["engines"] = support(console, model);
    text += support_text(console, out["engines"]);
  }
  console.document(out);
  console.print(text);
  return ExitCode::passed;
}

}  // namespace

void add_inspect(Program& program) {
  const auto options = std::make_shared<InspectOptions>();
  Verb verb = program.add(
      {"inspect",
       "Show inputs, outputs, operators, sizes and oddities of a model",
       {"portwright inspect model.onnx --nodes 'Conv*'", "portwright inspect model.onnx --diff simplified.onnx"}},
      [options](Console& console) { return inspect(console, *options); });
  verb.argument("MODEL", options->file, "An ONNX file");
  verb.option("--nodes", options->nodes, "PATTERN",
              "Show the nodes whose name, operator or output matches, with * and ?, with their types");
  verb.option("--diff", options->diff, "OTHER",
              "Show what OTHER has more, less or otherwise; exit code 1 when it differs");
  verb.flag("--engines", options->engines, "Ask each engine here about every node");
}

}  // namespace portwright
