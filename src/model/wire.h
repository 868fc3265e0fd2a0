// Protobuf's wire format, read with a hard bound on everything, and rewritten without holding large payloads.
//
// Two things need it: loading (take the large tensors out of a file) and saving (put them back). Both are one walk over
// the messages of ONNX that can hold tensors, with a function that rewrites each TensorProto.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "portwright/result.h"

namespace portwright::wire {

// Bytes that a walk reads: a file, through a small window, or memory. Not thread-safe.
class Source {
 public:
  static Result<Source> open(const std::filesystem::path& file);
  explicit Source(std::string_view memory);  // must outlive the source
  std::uint64_t size() const { return size_; }
  // At most `count` bytes from `offset` on, fewer at the end of the source or beyond kWindow. Valid until the next
  // call.
  Result<std::string_view> peek(std::uint64_t offset, std::size_t count) const;
  // Appends exactly that range; error `truncated` when the source ends before.
  Status copy(std::uint64_t offset, std::uint64_t count, std::string& out) const;

  static constexpr std::size_t kWindow = std::size_t{1} << 15;

 private:
  struct File;
  explicit Source(std::shared_ptr<File> file);
  std::shared_ptr<File> file_;  // null for memory
  std::string_view memory_;
  std::uint64_t size_ = 0;
};

enum class Type : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  std::uint32_t number = 0;
  Type type = Type::varint;
  std::uint64_t begin = 0;    // of the tag
  std::uint64_t payload = 0;  // first byte after the tag and, for bytes, the length
  std::uint64_t size = 0;     // of the payload
  std::uint64_t varint = 0;   // the value, for Type::varint
  std::uint64_t end() const { return payload + size; }
};

// The fields of one message, in order. Errors (Fault::input): truncated when the file ends inside a field, not_onnx
// when the bytes are no message.
class Reader {
 public:
  Reader(const Source& source, std::uint64_t begin, std::uint64_t end) : source_(source), at_(begin), end_(end) {}
  Result<std::optional<Field>> next();

 private:
  Result<std::uint64_t> varint();
  const Source& source_;
  std::uint64_t at_, end_;
};

// A part of a file that belongs into a message at this place.
struct FileRange {
  std::filesystem::path file;
  std::uint64_t offset = 0, size = 0;
};

// A message in pieces: text, and ranges of files that are not read until the message is written.
class Rope {
 public:
  std::uint64_t size() const { return size_; }
  const std::vector<std::variant<std::string, FileRange>>& pieces() const { return pieces_; }
  // The last piece if it is text, else a new one: append to it only through these functions.
  void add(std::string_view text);
  void add(FileRange range);
  void add(Rope&& other);
  void add_tag(std::uint32_t number, Type type);
  void add_varint(std::uint64_t value);
  // A length-delimited field.
  void add_field(std::uint32_t number, std::string_view text);
  void add_field(std::uint32_t number, Rope&& message);
  // A field of the source as it is.
  Status add_copy(const Source& source, const Field& field);
  // All text; only for ropes without file ranges.
  std::string text() &&;

 private:
  std::string& tail();
  std::vector<std::variant<std::string, FileRange>> pieces_;
  std::uint64_t size_ = 0;
};

// Rewrites the TensorProto whose fields are [begin, end) of the source.
using TensorRewrite = std::function<Result<Rope>(const Source& source, std::uint64_t begin, std::uint64_t end)>;

// Copies a ModelProto, with every TensorProto in it (initializers, attributes, subgraphs, functions, sparse tensors)
// rewritten. Errors (Fault::input): truncated, not_onnx, too_deep (more levels than protobuf parses),
// structure_too_large (what stays inline would take more than kMostMemory once parsed).
Result<Rope> rewrite_model(const Source& source, const TensorRewrite& rewrite);

inline constexpr int kMostLevels = 100;
inline constexpr std::uint64_t kMostMemory = std::uint64_t{2} << 30;

}  // namespace portwright::wire
