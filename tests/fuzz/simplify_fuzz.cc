// Any model that loads can be simplified, and what comes out loads too and keeps its inputs and outputs.
#include "input.h"
#include "portwright/follow_sizes.h"
#include "portwright/simplify.h"

namespace {

bool same_names(const std::vector<portwright::ValueInfo>& a, const std::vector<portwright::ValueInfo>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name != b[i].name) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace portwright;
  const auto model = Model::load(fuzz::file_with(data, size));
  if (!model) return 0;
  (void)follow_sizes(*model, {{"n", 2}});
  const auto done = simplify(*model, {});
  if (!done) return 0;
  const auto structure = done->model.structure();
  if (!structure) return 0;
  const auto again = Model::from_structure(*structure, done->model.folder());
  if (!again && done->model.weights_beside()) std::abort();
  if (!same_names(model->outputs(), done->model.outputs())) std::abort();
  return 0;
}
