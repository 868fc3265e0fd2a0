// The issue log: every breakage met on the way, with what is known of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "portwright/model.h"

namespace portwright {

// One line of issues.jsonl; the id is given when the record is put together.
struct Issue {
  std::string step;
  std::string target;           // empty: not of one target
  std::string kind;             // op, shape, dtype, numeric, memory, performance, export, environment
  std::string symptom;          // what was seen
  std::string cause;            // as far as known
  std::string fix;              // what was done, or what the user can do
  std::string status = "open";  // open, fixed, accepted
  Json where = Json::object();  // node, file, line, tensor, op_type
  Json evidence = Json::object();
};
Json to_json(const Issue& issue);

// The class of a failure of a step.
std::string kind_of(const Error& error, const std::string& step);
Issue issue_from(const Error& error, const std::string& step, const std::string& target);

// {node, op_type, line}: where in the graph and, when the exporter kept it, in the user's Python.
Json where_of(const NodeOrigin& node);

}  // namespace portwright
