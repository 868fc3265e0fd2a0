#include "portwright/npz.h"

#include <unistd.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/files.h"
#include "base/npy.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSuffix = ".npy";

// ---------------------------------------------------------------------------------------------------------- reading

// The mapped archive as libzip sees it. It remembers where it was last read: that is how the place of a stored entry is
// known after libzip has found and checked it, so that the entry need not be copied.
struct Tape {
  std::span<const std::byte> bytes;
  std::size_t position = 0;
  std::size_t last_read = 0;
  zip_error_t error{};
};

zip_int64_t play(void* state, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  auto& tape = *static_cast<Tape*>(state);
  switch (command) {
    case ZIP_SOURCE_OPEN:
      tape.position = 0;
      return 0;
    case ZIP_SOURCE_READ: {
      const std::size_t n = std::min<std::size_t>(length, tape.bytes.size() - tape.position);
      std::memcpy(data, tape.bytes.data() + tape.position, n);
      tape.last_read = tape.position;
      tape.position += n;
      return static_cast<zip_int64_t>(n);
    }
    case ZIP_SOURCE_SEEK: {
      const auto to = zip_source_seek_compute_offset(tape.position, tape.bytes.size(), data, length, &tape.error);
      if (to < 0) return -1;
      tape.position = static_cast<std::size_t>(to);
      return 0;
    }
    case ZIP_SOURCE_TELL:
      return static_cast<zip_int64_t>(tape.position);
    case ZIP_SOURCE_STAT: {
      auto* stat = static_cast<zip_stat_t*>(data);
      zip_stat_init(stat);
      stat->size = tape.bytes.size();
      stat->valid |= ZIP_STAT_SIZE;
      return sizeof *stat;
    }
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&tape.error, data, length);
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE:
      return 0;
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                            ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_CLOSE, ZIP_SOURCE_FREE,
                                            ZIP_SOURCE_SUPPORTS, -1);
    default:
      zip_error_set(&tape.error, ZIP_ER_OPNOTSUPP, 0);
      return -1;
  }
}

using Zip = std::unique_ptr<zip_t, decltype(&zip_discard)>;
using ZipFile = std::unique_ptr<zip_file_t, decltype(&zip_fclose)>;

class Reader {
 public:
  static Result<Tensors> read(const fs::path& file, const NpzLimits& limits, bool any_alignment) {
    PW_TRY(mapping, Mapping::open(file));
    return Reader(file, limits, any_alignment, std::move(mapping)).read_all();
  }

 private:
  Reader(const fs::path& file, const NpzLimits& limits, bool any_alignment, std::shared_ptr<const Mapping> mapping)
      : file_(file),
        budget_(limits.max_bytes),
        limit_(limits.max_bytes),
        any_alignment_(any_alignment),
        mapping_(std::move(mapping)) {
    tape_.bytes = mapping_->bytes();
  }

  tl::unexpected<Error> bad(std::string code, const std::string& message, std::string hint = "") const {
    return fail(
        {Fault::input, "read", std::move(code), file_.string() + ": " + message, file_.string(), std::move(hint), ""});
  }
  // The same for one array, from an error whose message continues its name.
  tl::unexpected<Error> bad_array(const std::string& name, Error error) const {
    return bad(error.code, "array '" + name + "' " + error.message, error.hint);
  }
  tl::unexpected<Error> truncated_array(const std::string& name) const {
    return bad("truncated", "array '" + name + "' is cut off or damaged", "copy or write the file again");
  }

  Result<Tensors> read_all() {
    PW_CHECK(open());
    Tensors tensors;
    std::unordered_set<std::string> names;
    const zip_int64_t entries = zip_get_num_entries(zip_.get(), 0);
    for (zip_int64_t i = 0; i < entries; ++i) {
      PW_TRY(entry, read_entry(static_cast<zip_uint64_t>(i)));
      if (!names.insert(entry.name).second)
        return bad("duplicate_name", "two arrays have the name '" + entry.name + "'",
                   "write the file again, each name once");
      tensors.push_back(std::move(entry));
    }
    return tensors;
  }

  Status open() {
    const auto begins_with = [&](std::string_view magic) {
      return tape_.bytes.size() >= magic.size() && std::memcmp(tape_.bytes.data(), magic.data(), magic.size()) == 0;
    };
    if (tape_.bytes.empty()) return bad("truncated", "the file is empty", "copy or write the file again");
    zip_error_t error;
    zip_error_init(&error);
    zip_source_t* source = zip_source_function_create(play, &tape_, &error);
    if (source == nullptr) throw std::bad_alloc();
    zip_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
    if (zip_) return {};
    zip_source_free(source);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    if (begins_with("\x93NUMPY"))
      return bad("not_npz", "this is a single .npy array, not an .npz",
                 "put it into an .npz: numpy.savez(file, name=array)");
    if (begins_with("PK\3\4"))
      return bad("truncated", "the zip archive is cut off or damaged (" + reason + ")", "copy or write the file again");
    return bad("not_npz", "this is not an .npz file (" + reason + ")",
               "name a file that numpy.savez or portwright wrote");
  }

  Result<NamedTensor> read_entry(zip_uint64_t index) {
    zip_stat_t stat;
    if (zip_stat_index(zip_.get(), index, 0, &stat) != 0) return bad("truncated", "the zip directory is damaged");
    std::string name = stat.name;
    if (!name.ends_with(kSuffix) || name == kSuffix)
      return bad("not_npz", "the entry '" + name + "' is not an array", "an .npz holds entries named NAME.npy only");
    name.resize(name.size() - kSuffix.size());
    if (stat.encryption_method != ZIP_EM_NONE) return bad("not_npz", "array '" + name + "' is encrypted");
    if (stat.comp_size > tape_.bytes.size()) return truncated_array(name);

    auto tensor = stat.comp_method == ZIP_CM_STORE ? read_stored(name, index, stat)
                  : stat.comp_method == ZIP_CM_DEFLATE
                      ? read_deflated(name, index, stat)
                      : bad("not_npz", "array '" + name + "' is compressed by a method that NumPy does not use",
                            "write it with numpy.savez or numpy.savez_compressed");
    if (!tensor) return fail(std::move(tensor.error()));
    return NamedTensor{std::move(name), std::move(*tensor)};
  }

  // What the array's own header promises must be what the directory says, and fit into the limit, before anything is
  // allocated for it.
  Result<NpyHeader> accepted_header(const std::string& name, const ReadBytes& read, const zip_stat_t& stat) {
    auto header = read_npy_header(read);
    if (!header) return bad_array(name, std::move(header.error()));
    if (stat.size < header->header_bytes || stat.size - header->header_bytes != header->data_bytes)
      return bad("lying_header",
                 "array '" + name + "' promises " + std::string(to_string(header->dtype)) + to_string(header->shape) +
                     ", " + std::to_string(header->data_bytes) + " bytes, but its entry has " +
                     std::to_string(stat.size - std::min<std::uint64_t>(stat.size, header->header_bytes)),
                 "write the file again with numpy.savez");
    if (header->data_bytes > budget_)
      return bad("too_large", "the arrays take more than " + std::to_string(limit_) + " bytes in memory",
                 "split the file, or raise the limit");
    budget_ -= header->data_bytes;
    return header;
  }

  Result<Tensor> read_stored(const std::string& name, zip_uint64_t index, const zip_stat_t& stat) {
    std::byte first{};
    {
      const ZipFile entry(zip_fopen_index(zip_.get(), index, 0), zip_fclose);
      if (!entry || zip_fread(entry.get(), &first, 1) != 1) return truncated_array(name);
    }
    const std::size_t offset = tape_.last_read;
    if (stat.size != stat.comp_size || stat.size > tape_.bytes.size() - offset) return truncated_array(name);
    const auto entry = tape_.bytes.subspan(offset, stat.size);

    std::size_t taken = 0;
    const auto take = [&](std::span<std::byte> out) {
      if (out.size() > entry.size() - taken) return false;
      std::memcpy(out.data(), entry.data() + taken, out.size());
      taken += out.size();
      return true;
    };
    PW_TRY(header, accepted_header(name, take, stat));
    const auto data = entry.subspan(header.header_bytes);
    const std::size_t component = size_of(header.dtype) / (is_complex(header.dtype) ? 2 : 1);
    const bool as_it_is = !header.big_endian && (!header.fortran_order || header.shape.size() < 2) &&
                          (any_alignment_ || reinterpret_cast<std::uintptr_t>(data.data()) % component == 0);
    if (!as_it_is) return allocated(name, [&] { return native_layout(header, data); });
    return Tensor::view(header.dtype, header.shape, const_cast<std::byte*>(data.data()), mapping_);
  }

  Result<Tensor> read_deflated(const std::string& name, zip_uint64_t index, const zip_stat_t& stat) {
    // Deflate cannot shrink anything below 1/1032 of its size (zlib's technical notes): more is a lie, found for free.
    if (stat.size / 1032 > stat.comp_size)
      return bad("lying_header", "array '" + name + "' cannot inflate to " + std::to_string(stat.size) + " bytes");
    const ZipFile entry(zip_fopen_index(zip_.get(), index, 0), zip_fclose);
    if (!entry) return truncated_array(name);
    const auto read = [&](std::span<std::byte> out) {
      while (!out.empty()) {
        const zip_int64_t n = zip_fread(entry.get(), out.data(), out.size());
        if (n <= 0) return false;
        out = out.subspan(static_cast<std::size_t>(n));
      }
      return true;
    };
    PW_TRY(header, accepted_header(name, read, stat));
    PW_TRY(tensor, allocated(name, [&] { return Tensor::uninitialised(header.dtype, header.shape); }));
    if (!read(tensor.mutable_bytes())) return truncated_array(name);
    // Reading past the end makes libzip compare the length and the checksum with the directory.
    std::byte past{};
    if (const auto n = zip_fread(entry.get(), &past, 1); n != 0)
      return n < 0 ? truncated_array(name)
                   : bad("lying_header", "array '" + name + "' is longer than its header promises");
    if (header.big_endian || header.fortran_order)
      return allocated(name, [&] { return native_layout(header, tensor.bytes()); });
    return tensor;
  }

  template <class Make>
  Result<Tensor> allocated(const std::string& name, Make make) const {
    try {
      return make();
    } catch (const std::bad_alloc&) {
      return bad("too_large", "there is not enough memory for array '" + name + "'", "split the file");
    }
  }

  const fs::path& file_;
  std::size_t budget_;  // bytes that the arrays still to come may take
  const std::size_t limit_;
  const bool any_alignment_;
  std::shared_ptr<const Mapping> mapping_;
  Tape tape_;
  Zip zip_{nullptr, zip_discard};
};

// ---------------------------------------------------------------------------------------------------------- writing
//
// Written by hand rather than by libzip, because the elements of every array must begin at a multiple of 64 bytes of
// the file (a reader then uses them where they lie), and because the same arrays must give the same bytes whatever the
// version of libzip. Field names and layout: PKWARE's APPNOTE.TXT, 4.3. Every entry has ZIP64 sizes, as those that
// NumPy writes, so there is one path for small and for large files.

constexpr std::uint16_t kVersion = 45;          // APPNOTE 4.4.3.2: ZIP64
constexpr std::uint16_t kMadeBy = 3 << 8 | 45;  // on Unix: the attributes below are a file mode
constexpr std::uint32_t kMode = 0100644U << 16;
constexpr std::uint16_t kUtf8Name = 1 << 11;
constexpr std::uint32_t kDate1980 = 0x0021 << 16;  // 1 January 1980, midnight: the earliest, always the same
constexpr std::uint16_t kPaddingField = 0xD935;    // extra field by which Android's zipalign aligns entries
constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kIn64 = 0xFFFFFFFF;  // "see the ZIP64 field"

class Record {
 public:
  Record& u16(std::size_t value) { return put(value, 2); }
  Record& u32(std::size_t value) { return put(value, 4); }
  Record& u64(std::size_t value) { return put(value, 8); }
  Record& text(std::string_view value) {
    bytes_ += value;
    return *this;
  }
  Record& zeros(std::size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  std::size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  Record& put(std::size_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  std::string bytes_;
};

struct Entry {
  std::string name;
  std::size_t offset = 0;  // of its local header
  std::size_t size = 0;
  std::uint32_t crc = 0;
  std::uint16_t flags() const {
    return std::all_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 128; })
               ? 0
               : kUtf8Name;
  }
};

Record local_header(const Entry& entry) {
  constexpr std::size_t kFixed = 30, kZip64 = 20, kPaddingHead = 6;
  const std::size_t unpadded = entry.offset + kFixed + entry.name.size() + kZip64 + kPaddingHead;
  const std::size_t padding = (kAlignment - unpadded % kAlignment) % kAlignment;
  Record record;
  record.u32(0x04034b50).u16(kVersion).u16(entry.flags()).u16(0).u32(kDate1980).u32(entry.crc).u32(kIn64).u32(kIn64);
  record.u16(entry.name.size()).u16(kZip64 + kPaddingHead + padding).text(entry.name);
  record.u16(1).u16(16).u64(entry.size).u64(entry.size);
  record.u16(kPaddingField).u16(2 + padding).u16(kAlignment).zeros(padding);
  return record;
}

void add_central_header(Record& record, const Entry& entry) {
  record.u32(0x02014b50).u16(kMadeBy).u16(kVersion).u16(entry.flags()).u16(0).u32(kDate1980).u32(entry.crc);
  record.u32(kIn64)
      .u32(kIn64)
      .u16(entry.name.size())
      .u16(28)
      .u16(0)
      .u16(0)
      .u16(0)
      .u32(kMode)
      .u32(kIn64)
      .text(entry.name);
  record.u16(1).u16(24).u64(entry.size).u64(entry.size).u64(entry.offset);
}

void add_end(Record& record, std::size_t entries, std::size_t directory_offset) {
  const std::size_t directory_size = record.size();
  record.u32(0x06064b50).u64(44).u16(kMadeBy).u16(kVersion).u32(0).u32(0).u64(entries).u64(entries);
  record.u64(directory_size).u64(directory_offset);
  record.u32(0x07064b50).u32(0).u64(directory_offset + directory_size).u32(1);
  const std::size_t entries16 = std::min<std::size_t>(entries, 0xFFFF);
  record.u32(0x06054b50).u16(0).u16(0).u16(entries16).u16(entries16);
  record.u32(std::min<std::size_t>(directory_size, kIn64)).u32(std::min<std::size_t>(directory_offset, kIn64)).u16(0);
}

class Writer {
 public:
  Writer(const fs::path& file, int fd) : file_(file), fd_(fd) {}

  Status write(const Tensors& tensors) {
    Record directory;
    for (const auto& [name, tensor] : tensors) {
      PW_TRY(entry, write_entry(name, tensor));
      add_central_header(directory, entry);
    }
    add_end(directory, tensors.size(), offset_);
    return append(directory.bytes());
  }

 private:
  Result<Entry> write_entry(const std::string& name, const Tensor& tensor) {
    PW_TRY(npy, npy_header(tensor.dtype(), tensor.shape()));
    Entry entry{name + std::string(kSuffix), offset_, npy.size() + tensor.bytes().size(), 0};
    PW_CHECK(append(local_header(entry).bytes()));
    PW_CHECK(append_counted(std::as_bytes(std::span(npy)), entry));
    PW_CHECK(append_counted(tensor.bytes(), entry));
    PW_CHECK(rewrite(local_header(entry).bytes(), entry.offset));  // now with the checksum
    return entry;
  }

  // Checksum and write alternate in pieces that stay in the cache, so that memory is read once.
  Status append_counted(std::span<const std::byte> bytes, Entry& entry) {
    constexpr std::size_t kPiece = 256 << 10;
    while (!bytes.empty()) {
      const auto piece = bytes.first(std::min(bytes.size(), kPiece));
      entry.crc = static_cast<std::uint32_t>(
          crc32(entry.crc, reinterpret_cast<const unsigned char*>(piece.data()), static_cast<unsigned>(piece.size())));
      PW_CHECK(append(piece));
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }

  Status append(std::span<const std::byte> bytes) {
    offset_ += bytes.size();
    return write_all(fd_, bytes, file_);
  }

  Status rewrite(std::span<const std::byte> bytes, std::size_t offset) const {
    while (!bytes.empty()) {
      const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(file_error("write", "cannot_write", file_, errno));
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::size_t>(n);
    }
    return {};
  }

  const fs::path& file_;
  const int fd_;
  std::size_t offset_ = 0;
};

Status check_names(const Tensors& tensors, const fs::path& file) {
  constexpr std::size_t kLongest = 0xFFFF - kSuffix.size();
  const auto refuse = [&](std::string code, const std::string& message) {
    return fail({Fault::input, "write", std::move(code), file.string() + ": " + message, file.string(),
                 "rename the array", ""});
  };
  std::unordered_set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty() || name.size() > kLongest || name.find('\0') != std::string::npos)
      return refuse("bad_name",
                    "an array name must have 1 to " + std::to_string(kLongest) + " bytes, none of them zero");
    if (!names.insert(name).second) return refuse("duplicate_name", "two arrays have the name '" + name + "'");
  }
  return {};
}

}  // namespace

Result<Tensors> read_npz(const fs::path& file, const NpzLimits& limits) { return Reader::read(file, limits, false); }

Result<Tensors> map_npz(const fs::path& file, const NpzLimits& limits) { return Reader::read(file, limits, true); }

Status write_npz(const fs::path& file, const Tensors& tensors) {
  PW_CHECK(check_names(tensors, file));
  return write_atomically(file, [&](int fd) { return Writer(file, fd).write(tensors); });
}

}  // namespace portwright
