// Any bytes as a model: an error or an answer, never a crash and never memory without bound.
#include "input.h"
#include "portwright/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto model = portwright::Model::load(portwright::fuzz::file_with(data, size));
  if (!model) return 0;
  (void)model->check();
  (void)model->summary();
  (void)model->nodes();
  (void)model->digest();
  return 0;
}
