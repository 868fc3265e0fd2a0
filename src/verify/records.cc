#include "verify/records.h"

namespace portwright {
namespace {

Json output_json(const OutputMetrics& m) {
  return Json{
      {"name", m.name},
      {"verdict", to_string(m.verdict)},
      {"reason", m.reason},
      {"dtype", to_string(m.dtype)},
      {"shape", m.shape},
      {"reference_dtype", to_string(m.reference_dtype)},
      {"reference_shape", m.reference_shape},
      {"count", m.count},
      {"max_abs", number(m.max_abs)},
      {"max_rel", number(m.max_rel)},
      {"mean_abs", number(m.mean_abs)},
      {"rmse", number(m.rmse)},
      {"cosine", number(m.cosine)},
      {"snr_db", number(m.snr_db)},
      {"reference_rms", number(m.reference_rms)},
      {"out_of_tolerance", m.out_of_tolerance},
      {"top1_agreement", m.top1_agreement ? number(*m.top1_agreement) : Json()},
      {"nonfinite", {{"actual", m.nonfinite_actual}, {"reference", m.nonfinite_reference}}},
      {"worst",
       {{"index", m.worst_index}, {"actual", number(m.worst_actual)}, {"reference", number(m.worst_reference)}}},
      {"constant", m.constant}};
}

// The member `key` of an object, else null.
const Json& member(const Json& object, const char* key) {
  static const Json kNull;
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it == object.end() ? kNull : *it;
}

void read(const Json& value, std::string& to) {
  if (value.is_string()) to = value.get<std::string>();
}
void read(const Json& value, double& to) {
  if (value.is_number() || value.is_string()) to = number_from(value);
}
void read(const Json& value, std::uint64_t& to) {
  if (value.is_number_unsigned()) to = value.get<std::uint64_t>();
}
void read(const Json& value, bool& to) {
  if (value.is_boolean()) to = value.get<bool>();
}
void read(const Json& value, std::vector<std::int64_t>& to) {
  if (!value.is_array()) return;
  to.clear();
  for (const Json& item : value) to.push_back(item.is_number_integer() ? item.get<std::int64_t>() : 0);
}
void read(const Json& value, Verdict& to) {
  if (value.is_string()) to = verdict_from(value.get<std::string>()).value_or(to);
}
void read(const Json& value, Dtype& to) {
  if (value.is_string()) to = dtype_from(value.get<std::string>()).value_or(to);
}
void read(const Json& value, std::optional<double>& to) {
  to.reset();
  if (value.is_number()) to = number_from(value);
}

OutputMetrics output_from(const Json& value) {
  OutputMetrics m;
  read(member(value, "name"), m.name);
  read(member(value, "verdict"), m.verdict);
  read(member(value, "reason"), m.reason);
  read(member(value, "dtype"), m.dtype);
  read(member(value, "shape"), m.shape);
  read(member(value, "reference_dtype"), m.reference_dtype);
  read(member(value, "reference_shape"), m.reference_shape);
  read(member(value, "count"), m.count);
  read(member(value, "max_abs"), m.max_abs);
  read(member(value, "max_rel"), m.max_rel);
  read(member(value, "mean_abs"), m.mean_abs);
  read(member(value, "rmse"), m.rmse);
  read(member(value, "cosine"), m.cosine);
  read(member(value, "snr_db"), m.snr_db);
  read(member(value, "reference_rms"), m.reference_rms);
  read(member(value, "out_of_tolerance"), m.out_of_tolerance);
  read(member(value, "top1_agreement"), m.top1_agreement);
  read(member(member(value, "nonfinite"), "actual"), m.nonfinite_actual);
  read(member(member(value, "nonfinite"), "reference"), m.nonfinite_reference);
  read(member(member(value, "worst"), "index"), m.worst_index);
  read(member(member(value, "worst"), "actual"), m.worst_actual);
  read(member(member(value, "worst"), "reference"), m.worst_reference);
  read(member(value, "constant"), m.constant);
  return m;
}

}  // namespace

Json to_json(const Comparison& comparison) {
  const Policy& policy = comparison.policy;
  Json out{{"verdict", to_string(comparison.verdict)},
           {"policy", {{"rtol", number(policy.rtol)}, {"atol", number(policy.atol)}, {"precision", policy.precision}}},
           {"outputs", Json::array()}};
  for (const OutputMetrics& m : comparison.outputs) out["outputs"].push_back(output_json(m));
  return out;
}

Comparison comparison_from(const Json& value) {
  Comparison comparison;
  read(member(value, "verdict"), comparison.verdict);
  const Json& policy = member(value, "policy");
  read(member(policy, "rtol"), comparison.policy.rtol);
  read(member(policy, "atol"), comparison.policy.atol);
  read(member(policy, "precision"), comparison.policy.precision);
  const Json& outputs = member(value, "outputs");
  if (outputs.is_array())
    for (const Json& output : outputs) comparison.outputs.push_back(output_from(output));
  return comparison;
}

}  // namespace portwright
