// The .npy format of one array, as numpy.lib.format documents it: magic, version, a Python dict literal, raw elements.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

struct NpyHeader {
  Dtype dtype = Dtype::f32;
  Shape shape;
  bool fortran_order = false;
  bool big_endian = false;
  std::size_t header_bytes = 0;  // magic to the end of the padding: where the elements begin
  std::size_t data_bytes = 0;    // elements, as the shape promises them
};

// Fills all of the span from the file's next bytes; false when there are not that many.
using ReadBytes = std::function<bool(std::span<std::byte>)>;

// Versions 1, 2 and 3. Error codes: truncated, lying_header, unsupported_dtype, pickled. Messages continue a
// sentence that begins with the name of the array.
Result<NpyHeader> read_npy_header(const ReadBytes& read);

// A version 1 header, padded so that the elements behind it begin at a multiple of 64 bytes. Error
// (Fault::environment): cannot_write, for a shape of thousands of axes.
Result<std::string> npy_header(Dtype dtype, const Shape& shape);

// The elements as Tensor holds them: row-major and little-endian. `data` has header.data_bytes; always copies.
Tensor native_layout(const NpyHeader& header, std::span<const std::byte> data);

}  // namespace portwright
