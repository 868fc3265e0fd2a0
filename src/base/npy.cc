#include "base/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/parallel.h"

namespace portwright {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors hold little-endian elements");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLongestHeader = 1 << 16;  // of text; NumPy itself stops at 10 000
constexpr std::size_t kAlignment = 64;           // of the elements within the file

// NumPy's type codes without the byte order. bfloat16 is what ml_dtypes leaves of it: two untyped bytes.
constexpr std::array<std::pair<std::string_view, Dtype>, 15> kCodes{{
    {"f4", Dtype::f32},
    {"f8", Dtype::f64},
    {"f2", Dtype::f16},
    {"V2", Dtype::bf16},
    {"i1", Dtype::i8},
    {"i2", Dtype::i16},
    {"i4", Dtype::i32},
    {"i8", Dtype::i64},
    {"u1", Dtype::u8},
    {"u2", Dtype::u16},
    {"u4", Dtype::u32},
    {"u8", Dtype::u64},
    {"b1", Dtype::boolean},
    {"c8", Dtype::c64},
    {"c16", Dtype::c128},
}};

tl::unexpected<Error> bad(std::string code, std::string message, std::string hint = "") {
  return fail({Fault::input, "read", std::move(code), std::move(message), "", std::move(hint), ""});
}

tl::unexpected<Error> malformed(const std::string& what) {
  return bad("lying_header", "has a malformed .npy header: " + what, "write the file again with numpy.savez");
}

tl::unexpected<Error> truncated_header() {
  return bad("truncated", "ends within its .npy header", "copy or write the file again");
}

// A reader of the few Python literals that a header consists of.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool accept(std::string_view token) {
    skip_blanks();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string> string() {
    skip_blanks();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }
  std::optional<bool> boolean() {
    if (accept("True")) return true;
    if (accept("False")) return false;
    return std::nullopt;
  }
  std::optional<Shape> shape() {
    if (!accept("(")) return std::nullopt;
    Shape dims;
    while (!accept(")")) {
      const auto dim = integer();
      if (!dim) return std::nullopt;
      dims.push_back(*dim);
      if (!accept(",") && !peek(')')) return std::nullopt;
    }
    return dims;
  }
  bool peek(char c) {
    skip_blanks();
    return !rest_.empty() && rest_[0] == c;
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  std::optional<std::int64_t> integer() {
    skip_blanks();
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (code != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // written by Python 2
    return value;
  }

  std::string_view rest_;
};

Status set_dtype(const std::string& descr, NpyHeader& header) {
  if (descr.empty()) return malformed("no dtype");
  const bool has_order = std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
  if (code.starts_with('O'))
    return bad("pickled", "holds pickled Python objects, which could run any code when loaded",
               "convert it to a numeric array before saving");
  for (const auto& [name, dtype] : kCodes)
    if (name == code) {
      header.dtype = dtype;
      header.big_endian = descr[0] == '>' && size_of(dtype) > 1;
      return {};
    }
  return bad("unsupported_dtype", "has the dtype '" + descr + "', which Portwright does not handle",
             "save it as a float, integer, boolean or complex array, or leave it out");
}

Status set_field(const std::string& key, Literal& text, NpyHeader& header) {
  if (key == "descr") {
    if (text.peek('[') || text.peek('('))
      return bad("unsupported_dtype", "has a structured dtype, which Portwright does not handle",
                 "save each field as an array of its own");
    const auto descr = text.string();
    return descr ? set_dtype(*descr, header) : malformed("'descr' is not a string");
  }
  if (key == "fortran_order") {
    const auto value = text.boolean();
    if (!value) return malformed("'fortran_order' is not True or False");
    header.fortran_order = *value;
    return {};
  }
  if (key == "shape") {
    auto value = text.shape();
    if (!value) return malformed("'shape' is not a tuple of integers");
    header.shape = std::move(*value);
    return {};
  }
  return malformed("it has the unknown field '" + key + "'");
}

Status parse_fields(std::string_view dict, NpyHeader& header) {
  Literal text(dict);
  std::vector<std::string> seen;
  if (!text.accept("{")) return malformed("it is not a dictionary");
  while (!text.accept("}")) {
    const auto key = text.string();
    if (!key || !text.accept(":")) return malformed("it is not a dictionary");
    if (std::find(seen.begin(), seen.end(), *key) != seen.end()) return malformed("it repeats '" + *key + "'");
    seen.push_back(*key);
    PW_CHECK(set_field(*key, text, header));
    if (!text.accept(",") && !text.peek('}')) return malformed("it is not a dictionary");
  }
  if (seen.size() != 3) return malformed("a field is missing");
  if (!text.at_end()) return malformed("something follows the dictionary");
  return {};
}

void swap_bytes(std::span<std::byte> data, std::size_t width) {
  for (std::size_t i = 0; i + width <= data.size(); i += width)
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(i), data.begin() + static_cast<std::ptrdiff_t>(i + width));
}

// Copies elements from column-major to row-major order, walking the target front to back.
void transpose(const std::byte* from, std::byte* to, const Shape& shape, std::size_t width, std::size_t count) {
  std::vector<std::size_t> strides(shape.size()), index(shape.size());
  std::size_t stride = width;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    strides[axis] = stride;
    stride *= static_cast<std::size_t>(shape[axis]);
  }
  std::size_t offset = 0;
  for (std::size_t i = 0; i < count; ++i, to += width) {
    std::memcpy(to, from + offset, width);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++index[axis] < static_cast<std::size_t>(shape[axis])) break;
      offset -= strides[axis] * index[axis];
      index[axis] = 0;
    }
  }
}

void copy(std::span<const std::byte> from, std::span<std::byte> to) {
  constexpr std::size_t kPiece = 4 << 20;
  in_parallel((from.size() + kPiece - 1) / kPiece, 0, [&](std::size_t i) {
    const auto piece = from.subspan(i * kPiece, std::min(kPiece, from.size() - i * kPiece));
    std::memcpy(to.data() + i * kPiece, piece.data(), piece.size());
  });
}

}  // namespace

Result<NpyHeader> read_npy_header(const ReadBytes& read) {
  std::array<unsigned char, 12> start{};
  const auto bytes = std::as_writable_bytes(std::span(start));
  if (!read(bytes.first(8))) return truncated_header();
  if (std::memcmp(start.data(), kMagic.data(), kMagic.size()) != 0)
    return bad("lying_header", "is not a .npy array: its first bytes are not NumPy's", "");
  const unsigned version = start[6];
  if (version < 1 || version > 3) return malformed("version " + std::to_string(version) + " is unknown");
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (!read(bytes.subspan(8, length_bytes))) return truncated_header();
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::size_t{start[8 + i]} << (8 * i);
  if (length > kLongestHeader) return malformed("it has " + std::to_string(length) + " bytes");

  std::string dict(length, '\0');
  if (!read(std::as_writable_bytes(std::span(dict)))) return truncated_header();
  NpyHeader header;
  header.header_bytes = 8 + length_bytes + length;
  PW_CHECK(parse_fields(dict, header));
  const auto count = element_count(header.shape);
  if (!count) return bad("lying_header", "promises an impossible shape " + to_string(header.shape), "");
  header.data_bytes = *count * size_of(header.dtype);
  return header;
}

Result<std::string> npy_header(Dtype dtype, const Shape& shape) {
  std::string dict = "{'descr': '";
  dict += size_of(dtype) == 1 ? '|' : '<';
  for (const auto& [name, known] : kCodes)
    if (known == dtype) dict += name;
  dict += "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dim : shape) dict += std::to_string(dim) + (shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) dict.resize(dict.size() - 2);
  dict += "), }";
  constexpr std::size_t kStart = 10;  // magic, version, length
  const std::size_t total = (kStart + dict.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t length = total - kStart;
  if (length > 0xFFFF)
    return fail({Fault::environment, "write", "cannot_write", "a shape has too many axes", "", "", ""});
  dict.resize(length - 1, ' ');
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(length & 0xFF), static_cast<char>(length >> 8)};
  return header + dict + '\n';
}

Tensor native_layout(const NpyHeader& header, std::span<const std::byte> data) {
  Tensor tensor = Tensor::uninitialised(header.dtype, header.shape);
  const auto out = tensor.mutable_bytes();
  const std::size_t width = size_of(header.dtype);
  if (data.empty()) return tensor;
  if (header.fortran_order && header.shape.size() > 1)
    transpose(data.data(), out.data(), header.shape, width, tensor.count());
  else
    copy(data, out);
  if (header.big_endian) swap_bytes(out, is_complex(header.dtype) ? width / 2 : width);
  return tensor;
}

}  // namespace portwright
