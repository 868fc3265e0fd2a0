// Sessions that can write their outputs where they are told: onto the heap, or into a worker's outbox.
#pragma once

#include <functional>
#include <map>

#include "portwright/engine.h"

namespace portwright {

// Gives memory for one output. All outputs of one run are placed before the next run begins.
using Placer = std::function<Result<Tensor>(const std::string& name, Dtype dtype, const Shape& shape)>;

class PlacingSession : public Session {
 public:
  virtual Result<RunResult> run_into(const Tensors& inputs, const Placer& place) = 0;
  Result<RunResult> run(const Tensors& inputs) override;
  Result<std::vector<double>> time(const Tensors& inputs, int runs) override;
  std::size_t peak_memory() const override;
};

// Checks names, dtypes and static dimensions of inputs against the session's, and puts them into its order. Those in
// `dropped` are inputs of the model that the engine has optimised away.
// Error (Fault::usage): bad_input, saying which input, what was expected and what received.
Result<std::vector<const Tensor*>> ordered_inputs(const std::vector<ValueInfo>& expected, const Tensors& given,
                                                  const std::vector<std::string>& dropped = {});

// Remembers the output shapes that each set of input shapes led to, so that a later run can be given its memory.
class ShapeMemory {
 public:
  const std::vector<Shape>* find(const std::vector<const Tensor*>& inputs) const;
  void remember(const std::vector<const Tensor*>& inputs, std::vector<Shape> outputs);
  void distrust() { trusted_ = false; }  // outputs depend on data: never predict again

 private:
  bool trusted_ = true;
  std::map<std::vector<Shape>, std::vector<Shape>> known_;
};

}  // namespace portwright
