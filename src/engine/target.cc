#include <algorithm>
#include <vector>

#include "portwright/engine.h"

namespace portwright {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

Error bad_target(const std::string& text, const std::string& why) {
  std::string known;
  for (const auto& engine : engines()) known += (known.empty() ? "" : ", ") + engine->name();
  return {Fault::usage,
          "target",
          "bad_target",
          "target '" + text + "': " + why,
          text,
          "a target is ENGINE[:PRECISION][@DEVICE], for example onnxruntime:fp32, openvino:bf16 or torch:compile; "
          "engines: " +
              known + ", torch",
          ""};
}

bool known_precision(const std::string& word) {
  return word == "fp32" || word == "fp16" || word == "bf16" || word == "int8";
}

}  // namespace

std::string Target::folder() const {
  std::string name = text;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '@' || c == '/'; }, '-');
  return name;
}

Result<Target> parse_target(const std::string& text) {
  Target target{"", "fp32", "", "cpu", text};
  std::string head = text;
  if (const auto at = text.find('@'); at != std::string::npos) {
    head = text.substr(0, at);
    target.device = text.substr(at + 1);
    if (target.device.empty()) return fail(bad_target(text, "no device behind '@'"));
  }
  auto parts = split(head, ':');
  target.engine = parts[0];
  parts.erase(parts.begin());
  if (target.engine == "torch") {
    target.mode = "eager";
    if (!parts.empty() && (parts[0] == "eager" || parts[0] == "compile")) {
      target.mode = parts[0];
      parts.erase(parts.begin());
    }
  } else if (auto found = find_engine(target.engine); !found) {
    return fail(bad_target(text, "no engine is called '" + target.engine + "'"));
  }
  if (parts.size() > 1) return fail(bad_target(text, "too many parts"));
  if (parts.size() == 1) {
    if (!known_precision(parts[0]))
      return fail(bad_target(text, "'" + parts[0] + "' is not one of fp32, fp16, bf16, int8"));
    target.precision = parts[0];
  }
  if (target.precision == "int8")
    return fail(bad_target(
        text,
        "int8 needs calibration, which this version does not do; give a quantised model with Q/DQ nodes as fp32"));
  return target;
}

}  // namespace portwright
