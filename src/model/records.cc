#include "model/records.h"

#include <algorithm>

namespace portwright {
namespace {

const char* word(Severity severity) {
  return severity == Severity::error ? "error" : severity == Severity::warning ? "warning" : "note";
}

Json to_json(const std::vector<ValueInfo>& values) {
  Json list = Json::array();
  for (const ValueInfo& value : values) {
    Json shape = Json::array();
    for (const Dimension& dim : value.shape)
      shape.push_back(dim.value ? Json(*dim.value) : dim.symbol.empty() ? Json() : Json(dim.symbol));
    list.push_back(Json{{"name", value.name},
                        {"dtype", value.dtype ? Json(to_string(*value.dtype)) : Json()},
                        {"shape", value.has_shape ? shape : Json()},
                        {"type", value.type_text}});
  }
  return list;
}

}  // namespace

Json to_json(const std::vector<Finding>& findings) {
  Json out = document("check");
  const bool invalid =
      std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.severity == Severity::error; });
  out["verdict"] = invalid ? "invalid_model" : "passed";
  out["findings"] = Json::array();
  for (const Finding& finding : findings)
    out["findings"].push_back(Json{{"severity", word(finding.severity)},
                                   {"code", finding.code},
                                   {"node", finding.node},
                                   {"message", finding.message},
                                   {"expected", finding.expected},
                                   {"received", finding.received},
                                   {"hint", finding.hint}});
  return out;
}

Json sarif(const std::vector<Finding>& findings, const std::string& file) {
  Json rules = Json::array(), results = Json::array();
  for (const Finding& finding : findings) {
    if (std::none_of(rules.begin(), rules.end(), [&](const Json& rule) { return rule["id"] == finding.code; }))
      rules.push_back(Json{{"id", finding.code}});
    std::string text = finding.message;
    if (!finding.expected.empty() || !finding.received.empty())
      text += " (expected " + finding.expected + ", received " + finding.received + ")";
    if (!finding.hint.empty()) text += ". " + finding.hint;
    Json location{{"physicalLocation", {{"artifactLocation", {{"uri", file}}}}}};
    if (!finding.node.empty()) location["logicalLocations"] = Json::array({Json{{"name", finding.node}}});
    results.push_back(Json{{"ruleId", finding.code},
                           {"level", word(finding.severity)},
                           {"message", {{"text", text}}},
                           {"locations", Json::array({std::move(location)})}});
  }
  const Json driver{{"name", "portwright"}, {"version", document("check")["portwright"]}, {"rules", rules}};
  return Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
              {"version", "2.1.0"},
              {"runs", Json::array({Json{{"tool", {{"driver", driver}}}, {"results", results}}})}};
}

Json to_json(const ModelSummary& summary) {
  Json out = document("inspect");
  out["inputs"] = to_json(summary.inputs);
  out["outputs"] = to_json(summary.outputs);
  out["opsets"] = Json::object();
  for (const OpsetImport& import : summary.opsets)
    out["opsets"][import.domain.empty() ? "ai.onnx" : import.domain] = import.version;
  out["ir_version"] = summary.ir_version;
  out["producer"] = summary.producer;
  out["nodes"] = summary.nodes;
  out["operators"] = summary.operators;
  out["parameters"] = summary.parameters;
  out["weight_bytes"] = summary.weight_bytes;
  out["weight_types"] = summary.weight_types;
  out["activation_bytes"] = summary.activation_bytes ? Json(*summary.activation_bytes) : Json();
  out["macs"] = summary.macs ? Json(*summary.macs) : Json();
  out["dynamic_axes"] = summary.dynamic_axes;
  out["oddities"] = summary.oddities;
  return out;
}

}  // namespace portwright
