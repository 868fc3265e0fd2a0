#include "rewrite/records.h"

namespace portwright {

Json to_json(const Proof& proof) {
  Json out{{"inputs", proof.inputs}, {"verdict", to_string(proof.verdict)}, {"max_abs", number(proof.max_abs)}};
  if (!proof.reason.empty()) out["reason"] = proof.reason;
  return out;
}

Json to_json(const Simplification& done) {
  Json out = document("simplify");
  out["nodes_before"] = done.nodes_before;
  out["nodes_after"] = done.nodes_after;
  out["bytes_before"] = done.bytes_before;
  out["bytes_after"] = done.bytes_after;
  out["passes"] = Json::array();
  for (const PassReport& pass : done.passes)
    out["passes"].push_back(
        {{"name", pass.name}, {"changes", pass.changes}, {"seconds", pass.seconds}, {"details", pass.details}});
  out["excluded_passes"] = done.excluded_passes;
  out["proof"] = done.proof ? to_json(*done.proof) : Json();
  return out;
}

}  // namespace portwright
