// NumPy's .npz: the file format in which inputs, outputs and references travel.
#pragma once

#include <cstddef>
#include <filesystem>

#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

struct NpzLimits {
  // Refuses an archive whose arrays would take more than this many bytes in memory. The default leaves room for real
  // data and stops zip bombs: an entry must also match what its own .npy header promises, to the byte.
  std::size_t max_bytes = std::size_t{16} << 30;
};

// Arrays in the order of the archive, Fortran order made row-major, big-endian made little-endian. bfloat16 is stored
// as NumPy stores ml_dtypes arrays ("<V2") and read back as bf16. Arrays that are stored without compression and
// aligned to their element (those of write_npz always are) are read-only views of a mapping of the file, which costs no
// copy: clone() before writing into one, and replace the file by renaming rather than by writing into it. The zip
// checksum of stored arrays is not verified, that of compressed ones is. Errors (Fault::input): no_such_file,
// cannot_read, not_npz, truncated, lying_header, too_large, unsupported_dtype, pickled, duplicate_name.
Result<Tensors> read_npz(const std::filesystem::path& file, const NpzLimits& limits = {});

// The same, except that every stored array in native byte order is a view, even one that is not aligned to its element,
// as in the files of numpy.savez. For readers that take bytes and not elements, as compare() does: Tensor::as() needs
// alignment.
Result<Tensors> map_npz(const std::filesystem::path& file, const NpzLimits& limits = {});

// Stored without compression, written to a temporary file beside `file` and renamed, so a reader never sees half of it.
// The same arrays give the same bytes. Errors: cannot_write (Fault::environment; says whether read-only or full),
// bad_name and duplicate_name (Fault::input).
Status write_npz(const std::filesystem::path& file, const Tensors& tensors);

}  // namespace portwright
