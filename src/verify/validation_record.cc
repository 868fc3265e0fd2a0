#include "verify/validation_record.h"

#include "engine/records.h"
#include "verify/records.h"

namespace portwright {
namespace {

Json size_json(const SizeResult& size) {
  Json out{{"axes", size.axes}, {"verdict", to_string(size.verdict)}, {"metrics", to_json(size.metrics)}};
  if (size.drift_ratio) out["drift_ratio"] = number(*size.drift_ratio);
  if (size.error) out["error"] = to_json(*size.error);
  return out;
}

}  // namespace

Json to_json(const Validation& validation) {
  Json out = document("validate");
  out["verdict"] = to_string(validation.verdict);
  out["criterion"] = validation.criterion;
  out["target"] = validation.target;
  out["engine"] = to_json(validation.engine);
  out["sizes"] = Json::array();
  for (const SizeResult& size : validation.sizes) out["sizes"].push_back(size_json(size));
  out["noise_floor"] = Json();
  if (validation.noise_floor) {
    const NoiseFloor& floor = *validation.noise_floor;
    out["noise_floor"] = Json{{"max_abs", number(floor.max_abs)},
                              {"rmse", number(floor.rmse)},
                              {"cosine", number(floor.cosine)},
                              {"method", floor.method}};
  }
  out["drift"] = Json();
  if (validation.drift) {
    const Drift& drift = *validation.drift;
    out["drift"] = Json{{"ratio", number(drift.ratio)},
                        {"torch_error", number(drift.torch_error)},
                        {"engine_error", number(drift.engine_error)},
                        {"output", drift.output},
                        {"verdict", drift.verdict}};
  }
  out["vacuous"] = validation.vacuous;
  out["vacuous_outputs"] = validation.vacuous_outputs;
  if (validation.error) out["error"] = to_json(*validation.error);
  return out;
}

}  // namespace portwright
