#include "model/wire.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/files.h"
#include "model/descriptor.h"

namespace portwright::wire {
namespace {

Error malformed(std::string message) {
  return {
      Fault::input, "load", "not_onnx", std::move(message), "", "export the model again, or name an .onnx file", ""};
}

Error truncated(const std::string& message) {
  return {
      Fault::input, "load", "truncated", message, "", "the file is cut off or damaged: copy or export it again", ""};
}

}  // namespace

struct Source::File {
  Descriptor fd;
  std::filesystem::path path;
  std::uint64_t begin = 0;  // of the window
  std::size_t filled = 0;
  std::array<char, kWindow> window;
  Status fill(std::uint64_t offset);
};

Status Source::File::fill(std::uint64_t offset) {
  begin = offset;
  filled = 0;
  while (filled < kWindow) {
    const ssize_t n = ::pread(fd.get(), window.data() + filled, kWindow - filled, static_cast<off_t>(offset + filled));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(file_error("load", "cannot_read", path, errno));
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
  }
  return {};
}

Source::Source(std::string_view memory) : memory_(memory), size_(memory.size()) {}
Source::Source(std::shared_ptr<File> file) : file_(std::move(file)) {}

Result<Source> Source::open(const std::filesystem::path& path) {
  auto file = std::make_shared<File>();
  file->path = path;
  file->fd = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file->fd.get() < 0) return fail(file_error("load", "cannot_read", path, errno));
  struct stat info {};
  if (::fstat(file->fd.get(), &info) != 0) return fail(file_error("load", "cannot_read", path, errno));
  if (S_ISDIR(info.st_mode)) return fail(file_error("load", "cannot_read", path, EISDIR));
  if (!S_ISREG(info.st_mode)) return fail(file_error("load", "cannot_read", path, EINVAL));
  Source source(std::move(file));
  source.size_ = static_cast<std::uint64_t>(info.st_size);
  return source;
}

Result<std::string_view> Source::peek(std::uint64_t offset, std::size_t count) const {
  if (offset >= size_) return std::string_view();
  const std::uint64_t left = std::min<std::uint64_t>({count, size_ - offset, kWindow});
  if (!file_) return memory_.substr(offset, left);
  if (offset < file_->begin || offset + left > file_->begin + file_->filled) PW_CHECK(file_->fill(offset));
  return std::string_view(file_->window.data() + (offset - file_->begin), file_->filled).substr(0, left);
}

Status Source::copy(std::uint64_t offset, std::uint64_t count, std::string& out) const {
  while (count > 0) {
    PW_TRY(bytes, peek(offset, count));
    if (bytes.empty()) return fail(truncated("the file ends too early"));
    out.append(bytes);
    offset += bytes.size();
    count -= bytes.size();
  }
  return {};
}

Result<std::uint64_t> Reader::varint() {
  PW_TRY(bytes, source_.peek(at_, std::min<std::uint64_t>(10, end_ - at_)));
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      at_ += i + 1;
      return value;
    }
  }
  if (at_ + bytes.size() >= source_.size()) return fail(truncated("the file ends inside a number"));
  return fail(malformed("this is not an ONNX model: a number does not end"));
}

Result<std::optional<Field>> Reader::next() {
  if (at_ >= end_) return std::optional<Field>();
  Field field;
  field.begin = at_;
  PW_TRY(tag, varint());
  field.number = static_cast<std::uint32_t>(tag >> 3);
  const auto type = static_cast<unsigned>(tag & 7);
  if (tag >> 32 != 0 || field.number == 0 || type == 3 || type == 4 || type > 5)
    return fail(malformed("this is not an ONNX model: no protobuf message at byte " + std::to_string(field.begin)));
  field.type = static_cast<Type>(type);
  field.payload = at_;
  if (field.type == Type::varint) {
    PW_TRY(value, varint());
    field.varint = value;
    field.size = at_ - field.payload;
    return std::optional(field);
  }
  if (field.type == Type::bytes) {
    PW_TRY(length, varint());
    field.size = length;
    field.payload = at_;
  } else {
    field.size = field.type == Type::fixed32 ? 4 : 8;
  }
  if (field.size > source_.size() - field.payload)
    return fail(truncated("the file ends before what it announces: " + std::to_string(field.size) + " bytes at byte " +
                          std::to_string(field.payload) + " of " + std::to_string(source_.size())));
  if (field.size > end_ - field.payload)
    return fail(
        malformed("this is not an ONNX model: a field leaves its message at byte " + std::to_string(field.begin)));
  at_ = field.end();
  return std::optional(field);
}

std::string& Rope::tail() {
  if (pieces_.empty() || !std::holds_alternative<std::string>(pieces_.back())) pieces_.emplace_back(std::string());
  return std::get<std::string>(pieces_.back());
}

void Rope::add(std::string_view text) {
  tail().append(text);
  size_ += text.size();
}

void Rope::add(FileRange range) {
  size_ += range.size;
  pieces_.emplace_back(std::move(range));
}

void Rope::add(Rope&& other) {
  if (pieces_.empty()) {
    *this = std::move(other);
    return;
  }
  for (auto& piece : other.pieces_) {
    if (auto* text = std::get_if<std::string>(&piece)) {
      add(*text);
    } else {
      add(std::move(std::get<FileRange>(piece)));
    }
  }
}

void Rope::add_varint(std::uint64_t value) {
  std::array<char, 10> bytes{};
  std::size_t count = 0;
  do {
    const auto low = static_cast<unsigned char>(value & 0x7F);
    value >>= 7;
    bytes[count++] = static_cast<char>(value != 0 ? low | 0x80 : low);
  } while (value != 0);
  add(std::string_view(bytes.data(), count));
}

void Rope::add_tag(std::uint32_t number, Type type) { add_varint(number << 3 | static_cast<std::uint32_t>(type)); }

void Rope::add_field(std::uint32_t number, std::string_view text) {
  add_tag(number, Type::bytes);
  add_varint(text.size());
  add(text);
}

void Rope::add_field(std::uint32_t number, Rope&& message) {
  add_tag(number, Type::bytes);
  add_varint(message.size());
  add(std::move(message));
}

Status Rope::add_copy(const Source& source, const Field& field) {
  const std::uint64_t count = field.end() - field.begin;
  PW_CHECK(source.copy(field.begin, count, tail()));
  size_ += count;
  return {};
}

std::string Rope::text() && {
  return pieces_.empty() ? std::string() : std::move(std::get<std::string>(pieces_.front()));
}

namespace {

// The messages that can hold tensors, by what a field of them holds. `types` and `other` are not entered.
enum class Message { model, training, function, graph, node, attribute, sparse_tensor, tensor, types, other };

Message content_of(Message parent, std::uint32_t field) {
  struct Row {
    Message parent;
    std::uint32_t field;
    Message content;
  };
  static constexpr Row kRows[] = {
      {Message::model, 7, Message::graph},
      {Message::model, 20, Message::training},
      {Message::model, 25, Message::function},
      {Message::training, 1, Message::graph},
      {Message::training, 2, Message::graph},
      {Message::function, 7, Message::node},
      {Message::function, 11, Message::attribute},
      {Message::function, 12, Message::types},
      {Message::graph, 1, Message::node},
      {Message::graph, 5, Message::tensor},
      {Message::graph, 15, Message::sparse_tensor},
      {Message::graph, 11, Message::types},
      {Message::graph, 12, Message::types},
      {Message::graph, 13, Message::types},
      {Message::node, 5, Message::attribute},
      {Message::attribute, 5, Message::tensor},
      {Message::attribute, 6, Message::graph},
      {Message::attribute, 10, Message::tensor},
      {Message::attribute, 11, Message::graph},
      {Message::attribute, 22, Message::sparse_tensor},
      {Message::attribute, 23, Message::sparse_tensor},
      {Message::attribute, 14, Message::types},
      {Message::attribute, 15, Message::types},
      {Message::sparse_tensor, 1, Message::tensor},
      {Message::sparse_tensor, 2, Message::tensor},
  };
  for (const Row& row : kRows)
    if (row.parent == parent && row.field == field) return row.content;
  return Message::other;
}

class Rewriter {
 public:
  Rewriter(const Source& source, const TensorRewrite& rewrite) : source_(source), rewrite_(rewrite) {}

  Result<Rope> message(Message kind, std::uint64_t begin, std::uint64_t end, int level) {
    if (level > kMostLevels)
      return fail({Fault::input, "load", "too_deep",
                   "the model nests more than " + std::to_string(kMostLevels) + " messages", "", "no sound model does",
                   ""});
    if (kind == Message::tensor) return tensor(begin, end);
    Rope out;
    Reader reader(source_, begin, end);
    for (;;) {
      PW_TRY(field, reader.next());
      if (!field) return out;
      PW_CHECK(add_field(kind, *field, level, out));
    }
  }

 private:
  Status add_field(Message kind, const Field& field, int level, Rope& out) {
    const Message content = field.type == Type::bytes ? content_of(kind, field.number) : Message::other;
    if (content == Message::other || content == Message::types) {
      PW_CHECK(spend(field.type != Type::bytes
                         ? kPerNumber
                         : kPerField + field.size * (content == Message::types ? kTypesGrowth : 1)));
      return out.add_copy(source_, field);
    }
    PW_CHECK(spend(kPerMessage));
    PW_TRY(rewritten, message(content, field.payload, field.end(), level + 1));
    out.add_field(field.number, std::move(rewritten));
    return {};
  }

  Result<Rope> tensor(std::uint64_t begin, std::uint64_t end) {
    PW_TRY(rewritten, rewrite_(source_, begin, end));
    std::uint64_t inline_bytes = 0;
    for (const auto& piece : rewritten.pieces())
      if (const auto* text = std::get_if<std::string>(&piece)) inline_bytes += text->size();
    PW_CHECK(spend(inline_bytes * kTensorGrowth));
    return std::move(rewritten);
  }

  // A parsed message is larger than its bytes: an empty NodeProto takes 2 bytes in the file and some 200 in memory. The
  // estimate keeps a small hostile file from taking all memory.
  Status spend(std::uint64_t bytes) {
    memory_ += bytes;
    if (memory_ <= kMostMemory) return {};
    return fail(
        {Fault::input, "load", "structure_too_large",
         "what is not large tensors would take more than " + std::to_string(kMostMemory >> 30) + " GiB in memory", "",
         "store weights as raw_data or external data", ""});
  }

  static constexpr std::uint64_t kPerNumber = 8, kPerField = 128, kPerMessage = 256, kTypesGrowth = 32,
                                 kTensorGrowth = 8;
  const Source& source_;
  const TensorRewrite& rewrite_;
  std::uint64_t memory_ = 0;
};

}  // namespace

Result<Rope> rewrite_model(const Source& source, const TensorRewrite& rewrite) {
  return Rewriter(source, rewrite).message(Message::model, 0, source.size(), 1);
}

}  // namespace portwright::wire
