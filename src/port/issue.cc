#include "port/issue.h"

namespace portwright {

Json to_json(const Issue& issue) {
  return Json{{"step", issue.step},        {"target", issue.target.empty() ? Json() : Json(issue.target)},
              {"class", issue.kind},       {"symptom", issue.symptom},
              {"cause", issue.cause},      {"fix", issue.fix},
              {"status", issue.status},    {"where", issue.where},
              {"evidence", issue.evidence}};
}

namespace {

// The exporter puts the name of an operator without ONNX form first in the detail.
std::string operator_in(const Error& error) {
  constexpr std::string_view kHead = "operator: ";
  if (!error.detail.starts_with(kHead)) return "";
  return error.detail.substr(kHead.size(), error.detail.find('\n') - kHead.size());
}

bool mentions(const Error& error, const char* word) {
  return error.message.find(word) != std::string::npos || error.detail.find(word) != std::string::npos;
}

bool about_shapes(const Error& error) {
  for (const char* word :
       {"shape", "Shape", "dimension", "Reshape", "broadcast", "data-dependent", "Constraints violated", "specialized"})
    if (error.message.find(word) != std::string::npos) return true;
  return false;
}

}  // namespace

std::string kind_of(const Error& error, const std::string& step) {
  if (error.code == "out_of_memory") return "memory";
  if (error.fault == Fault::environment) return "environment";
  if (step == "export") return !operator_in(error).empty() ? "op" : about_shapes(error) ? "shape" : "export";
  return mentions(error, "operator=") || error.code == "missing_operator" ? "op"
         : about_shapes(error)                                            ? "shape"
                                                                          : "export";
  if (error.code == "unsupported" && !about_shapes(error)) return "op";
  if (about_shapes(error)) return "shape";
  if (mentions(error, "type") && error.code == "invalid_model") return "dtype";
  return error.code == "crashed" || error.code == "timed_out" ? "environment" : "op";
}

Issue issue_from(const Error& error, const std::string& step, const std::string& target) {
  Issue issue{step,       target, kind_of(error, step), error.message, "",
              error.hint, "open", Json::object(),       Json::object()};
  if (!error.where.empty()) issue.where[error.where.find(".py:") != std::string::npos ? "line" : "node"] = error.where;
  if (const std::string name = operator_in(error); !name.empty()) issue.where["operator"] = name;
  issue.evidence["code"] = error.code;
  if (!error.detail.empty()) issue.evidence["detail"] = error.detail;
  return issue;
}

Json where_of(const NodeOrigin& node) {
  Json where{{"node", node.node}, {"op_type", node.op_type}};
  if (!node.python_line.empty()) where["line"] = node.python_line;
  return where;
}

}  // namespace portwright
