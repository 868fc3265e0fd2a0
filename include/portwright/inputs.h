// What a model is fed: declared inputs, dynamic axes, and the sizes at which it is proven.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "portwright/model.h"
#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

// One input at the example's size. `values` is the text form of base/random.h ("normal", "tokens(0,1000)", ...).
struct InputSpec {
  std::string name;
  Shape shape;
  Dtype dtype = Dtype::f32;
  std::string values;
};
// --input NAME:SHAPE[:DTYPE][:VALUES], for example x:1x3x224x224:float32:normal. Error (Fault::usage):
// bad_input_option.
Result<InputSpec> parse_input(const std::string& text);

// One axis that may vary. An axis of two inputs with one symbol varies together.
struct DynamicAxis {
  std::string input;
  int axis = 0;
  std::string symbol;
  std::int64_t min = 1, opt = 0, max = 0;  // opt 0: the example's size; max 0: no bound
};
// --dynamic NAME.AXIS=SYMBOL[:MIN..OPT..MAX]. Error (Fault::usage): bad_dynamic_option.
Result<DynamicAxis> parse_dynamic(const std::string& text);
std::string to_string(const DynamicAxis& axis);  // "x.0=batch:1..8..32"

// One assignment of the dynamic axes: symbol -> size. Empty for a static model.
using Size = std::map<std::string, std::int64_t>;

struct ModelInputs {
  std::vector<InputSpec> specs;
  std::vector<DynamicAxis> dynamic;
  // The example's size first; then 1, 2, an odd size and the maximum of each axis (within MIN..MAX, the others at the
  // example's), without repetitions.
  std::vector<Size> sizes() const;
  Size example() const;
  // The specs' shapes at a size.
  std::vector<InputSpec> at(const Size& size) const;
  // Arrays for a size. Case 0 is the recorded one; another case gives different values.
  Result<Tensors> generate(const Size& size, std::uint64_t seed, std::uint64_t case_index = 0) const;
};

// What an ONNX file says about its inputs; symbols are dynamic axes, of example size 2 unless told otherwise.
Result<ModelInputs> inputs_of(const Model& model, const std::vector<InputSpec>& overrides,
                              const std::vector<DynamicAxis>& dynamic);

}  // namespace portwright
