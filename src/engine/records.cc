#include "engine/records.h"

#include <algorithm>

#include "base/machine.h"

namespace portwright {

Json to_json(const EngineInfo& info) {
  Json options = Json::object();
  for (const auto& [name, value] : info.options) options[name] = value;
  return Json{{"name", info.name},
              {"version", info.version},
              {"device_asked", info.device_asked},
              {"device", info.device},
              {"precision_asked", info.precision_asked},
              {"precision_effective", info.precision_effective},
              {"default_precision", info.default_precision},
              {"cpu_features", info.cpu_features},
              {"threads", info.threads},
              {"options", options}};
}

EngineInfo engine_info_from(const Json& value) {
  EngineInfo info;
  const auto text = [&](const char* key) { return value.value(key, std::string()); };
  info.name = text("name");
  info.version = text("version");
  info.device_asked = text("device_asked");
  info.device = text("device");
  info.precision_asked = text("precision_asked");
  info.precision_effective = text("precision_effective");
  info.default_precision = text("default_precision");
  info.cpu_features = value.value("cpu_features", std::vector<std::string>());
  info.threads = value.value("threads", 0);
  const Json options = value.value("options", Json::object());
  for (const auto& [name, option] : options.items()) info.options.emplace_back(name, option.get<std::string>());
  return info;
}

Json to_json(const std::vector<ValueInfo>& values) {
  Json list = Json::array();
  for (const ValueInfo& value : values) {
    Json shape = Json::array();
    for (const Dimension& dim : value.shape) {
      if (dim.value)
        shape.push_back(*dim.value);
      else
        shape.push_back(dim.symbol);
    }
    list.push_back(Json{{"name", value.name},
                        {"dtype", value.dtype ? Json(to_string(*value.dtype)) : Json()},
                        {"type", value.type_text},
                        {"shape", value.has_shape ? shape : Json()}});
  }
  return list;
}

std::vector<ValueInfo> value_infos_from(const Json& value) {
  std::vector<ValueInfo> list;
  for (const auto& entry : value) {
    ValueInfo info;
    info.name = entry.at("name").get<std::string>();
    if (entry.at("dtype").is_string()) info.dtype = dtype_from(entry["dtype"].get<std::string>());
    info.type_text = entry.at("type").get<std::string>();
    info.has_shape = entry.at("shape").is_array();
    if (info.has_shape)
      for (const auto& dim : entry["shape"]) {
        Dimension dimension;
        if (dim.is_number())
          dimension.value = dim.get<std::int64_t>();
        else
          dimension.symbol = dim.get<std::string>();
        info.shape.push_back(dimension);
      }
    list.push_back(std::move(info));
  }
  return list;
}

Json to_json(const CompileOptions& options) {
  const Target& target = options.target;
  return Json{{"target",
               {{"engine", target.engine},
                {"precision", target.precision},
                {"mode", target.mode},
                {"device", target.device},
                {"text", target.text}}},
              {"threads", options.threads},
              {"optimization", options.optimization},
              {"disabled", options.disabled},
              {"save_to", options.save_to.string()}};
}

CompileOptions compile_options_from(const Json& value) {
  CompileOptions options;
  const Json& target = value.at("target");
  options.target = {target.at("engine"), target.at("precision"), target.at("mode"), target.at("device"),
                    target.at("text")};
  options.threads = value.at("threads").get<int>();
  options.optimization = value.at("optimization").get<std::string>();
  options.disabled = value.at("disabled").get<std::vector<std::string>>();
  options.save_to = value.at("save_to").get<std::string>();
  return options;
}

Json engine_document(const EngineInfo& info, const std::string& model_digest, const std::string& file) {
  Json out = document("engine");
  const Json all = to_json(info);
  out["engine"] = info.name;
  out["version"] = info.version;
  for (const char* key : {"device", "device_asked", "cpu_features", "precision_asked", "precision_effective",
                          "default_precision", "threads", "options"})
    out[key] = all[key];
  out["profiles"] = Json::array();
  out["model_digest"] = model_digest;
  out["file"] = file;
  out["portable_to"] = Json{{"rule", "same engine version, CPU features at least these"},
                            {"detail", info.name + " " + info.version + " on " + info.device}};
  return out;
}

Status check_portable(const Json& saved, const std::string& version, const std::filesystem::path& folder) {
  std::vector<std::string> differences;
  if (const auto built = saved.value("version", std::string()); built != version)
    differences.push_back("built with version " + built + ", this one is " + version);
  const auto here = this_machine().cpu_features;
  for (const auto& feature : saved.value("cpu_features", std::vector<std::string>()))
    if (std::find(here.begin(), here.end(), feature) == here.end())
      differences.push_back("built for a CPU with " + feature + ", which this one lacks");
  if (differences.empty()) return {};
  std::string all;
  for (const auto& difference : differences) all += (all.empty() ? "" : "; ") + difference;
  return fail({Fault::environment, "load", "engine_mismatch",
               "the engine in " + folder.string() + " does not fit here: " + all, folder.string(),
               "compile the model again on this machine", ""});
}

}  // namespace portwright
