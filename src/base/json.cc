#include "base/json.h"

#include <cmath>
#include <limits>

#include "base/files.h"

namespace portwright {
namespace {

constexpr std::pair<Fault, const char*> kFaults[] = {{Fault::gate, "gate"},
                                                     {Fault::usage, "usage"},
                                                     {Fault::environment, "environment"},
                                                     {Fault::input, "input"},
                                                     {Fault::defect, "defect"}};

std::string text_of(const Json& value, const char* key) {
  const auto it = value.find(key);
  return it != value.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace

Json document(std::string_view kind) {
  return Json{{"schema", "portwright/" + std::string(kind) + "/1"}, {"portwright", PORTWRIGHT_VERSION}};
}

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

Json to_json(const Error& error) {
  Json out = Json::object();
  for (const auto& [fault, word] : kFaults)
    if (fault == error.fault) out["fault"] = word;
  out["stage"] = error.stage;
  out["code"] = error.code;
  out["message"] = error.message;
  out["where"] = error.where;
  out["hint"] = error.hint;
  out["detail"] = error.detail;
  return out;
}

Error error_from(const Json& value) {
  Error error;
  const std::string fault = text_of(value, "fault");
  for (const auto& [known, word] : kFaults)
    if (fault == word) error.fault = known;
  error.stage = text_of(value, "stage");
  error.code = text_of(value, "code");
  error.message = text_of(value, "message");
  error.where = text_of(value, "where");
  error.hint = text_of(value, "hint");
  error.detail = text_of(value, "detail");
  return error;
}

Result<Json> parse_json(std::string_view text, const std::filesystem::path& where) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    return fail(
        {Fault::input, "read", "not_json", where.string() + " is not JSON: " + e.what(), where.string(), "", ""});
  }
}

Result<Json> read_json(const std::filesystem::path& file) {
  PW_TRY(text, read_text(file));
  return parse_json(text, file);
}

Status write_json(const std::filesystem::path& file, const Json& value) {
  return write_atomically(file, value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace portwright
