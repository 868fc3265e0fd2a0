// Loading: take the large tensors out of the file while walking it, parse the rest, check where the weights lie.
#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "base/files.h"
#include "model/impl.h"
#include "model/tensors.h"
#include "model/wire.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

Error load_error(std::string code, std::string message, const fs::path& where, std::string hint) {
  return {Fault::input, "load", std::move(code), std::move(message), where.string(), std::move(hint), ""};
}

// What the wire says about one TensorProto.
struct TensorScan {
  int type = 0;
  Dims dims;
  bool odd = false;         // something that a sound exporter does not write: left as it is
  int payloads = 0;         // fields that carry values
  wire::Field payload;      // the last of them
  std::size_t entries = 0;  // external-data and metadata entries
};

Status scan_dims(const wire::Source& source, const wire::Field& field, Dims& dims) {
  if (field.type == wire::Type::varint) {
    dims.Add(static_cast<std::int64_t>(field.varint));
    return {};
  }
  // Packed: a run of numbers. Read as the fields of a message would be, one varint after another.
  std::string bytes;
  if (field.size > std::size_t{10} * 64)
    return fail(load_error("not_onnx", "a tensor has too many dimensions", "", ""));
  PW_CHECK(source.copy(field.payload, field.size, bytes));
  std::uint64_t value = 0;
  unsigned shift = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    shift += 7;
    if (byte < 0x80) {
      dims.Add(static_cast<std::int64_t>(value));
      value = 0;
      shift = 0;
    }
  }
  return {};
}

Status scan_field(const wire::Source& source, const wire::Field& field, TensorScan& scan) {
  using onnx::TensorProto;
  switch (field.number) {
    case TensorProto::kDimsFieldNumber:
      if (scan.dims.size() >= 64) return fail(load_error("not_onnx", "a tensor has too many dimensions", "", ""));
      return scan_dims(source, field, scan.dims);
    case TensorProto::kDataTypeFieldNumber:
      scan.type = static_cast<int>(field.varint);
      break;
    case TensorProto::kDataLocationFieldNumber:
      scan.odd |= field.varint != TensorProto::DEFAULT;
      break;
    case TensorProto::kExternalDataFieldNumber:
      scan.odd = true;
      [[fallthrough]];
    case TensorProto::kMetadataPropsFieldNumber:
      ++scan.entries;
      break;
    case TensorProto::kSegmentFieldNumber:
      scan.odd = true;
      break;
    case TensorProto::kRawDataFieldNumber:
    case TensorProto::kFloatDataFieldNumber:
    case TensorProto::kDoubleDataFieldNumber:
    case TensorProto::kInt32DataFieldNumber:
    case TensorProto::kInt64DataFieldNumber:
    case TensorProto::kUint64DataFieldNumber:
    case TensorProto::kStringDataFieldNumber:
      ++scan.payloads;
      scan.payload = field;
      break;
    default:
      break;
  }
  return {};
}

// Packed floats and doubles are the same bytes as raw data (ONNX and protobuf are both little-endian).
bool payload_is_raw(const TensorScan& scan) {
  using onnx::TensorProto;
  if (scan.payload.type != wire::Type::bytes) return false;
  switch (scan.payload.number) {
    case TensorProto::kRawDataFieldNumber:
      return true;
    case TensorProto::kFloatDataFieldNumber:
      return scan.type == TensorProto::FLOAT || scan.type == TensorProto::COMPLEX64;
    case TensorProto::kDoubleDataFieldNumber:
      return scan.type == TensorProto::DOUBLE || scan.type == TensorProto::COMPLEX128;
    default:
      return false;
  }
}

bool stays_on_disk(const TensorScan& scan) {
  return !scan.odd && scan.payloads == 1 && scan.payload.size >= kLargeTensor && payload_is_raw(scan) &&
         raw_bytes(scan.type, scan.dims) == scan.payload.size;
}

wire::Rope external_entries(const std::string& location, const wire::Field& payload) {
  using onnx::TensorProto;
  wire::Rope out;
  const auto add = [&](std::string_view key, std::string_view value) {
    wire::Rope entry;
    entry.add_field(onnx::StringStringEntryProto::kKeyFieldNumber, key);
    entry.add_field(onnx::StringStringEntryProto::kValueFieldNumber, value);
    out.add_field(TensorProto::kExternalDataFieldNumber, std::move(entry));
  };
  add("location", location);
  add("offset", std::to_string(payload.payload));
  add("length", std::to_string(payload.size));
  out.add_tag(TensorProto::kDataLocationFieldNumber, wire::Type::varint);
  out.add_varint(TensorProto::EXTERNAL);
  return out;
}

// A large tensor of the file becomes external data that points into the file itself.
Result<wire::Rope> leave_on_disk(const std::string& location, const wire::Source& source, std::uint64_t begin,
                                 std::uint64_t end) {
  constexpr std::size_t kMostEntries = 1000;
  TensorScan scan;
  for (wire::Reader reader(source, begin, end);;) {
    PW_TRY(field, reader.next());
    if (!field) break;
    PW_CHECK(scan_field(source, *field, scan));
  }
  if (scan.entries > kMostEntries) return fail(load_error("not_onnx", "a tensor has too many entries", "", ""));
  const bool leave = stays_on_disk(scan);
  wire::Rope out;
  for (wire::Reader reader(source, begin, end);;) {
    PW_TRY(field, reader.next());
    if (!field) break;
    if (leave && (field->begin == scan.payload.begin || field->number == onnx::TensorProto::kDataLocationFieldNumber))
      continue;
    PW_CHECK(out.add_copy(source, *field));
  }
  if (leave) out.add(external_entries(location, scan.payload));
  return out;
}

// The first field tells a ModelProto from text, images, archives and pickles, whose bytes only look like fields by
// chance.
Status expect_model(const wire::Source& source, const fs::path& file) {
  const auto reject = [&](const std::string& reason) {
    return fail(load_error("not_onnx", file.string() + " is not an ONNX model: " + reason, file,
                           "export the model again, or name an .onnx file"));
  };
  if (source.size() == 0) return reject("the file is empty");
  const auto first = wire::Reader(source, 0, source.size()).next();
  if (!first && first.error().code == "cannot_read") return fail(first.error());
  if (!first) return reject("it begins with something else");
  const wire::Field& field = **first;
  const bool number = field.number == 1 || field.number == 5;
  const bool known =
      field.number <= 8 || field.number == 14 || field.number == 20 || field.number == 25 || field.number == 26;
  if (!known || field.type != (number ? wire::Type::varint : wire::Type::bytes))
    return reject("it begins with something else");
  return {};
}

Result<onnx::ModelProto> parse(const wire::Source& source, const fs::path& file) {
  PW_CHECK(expect_model(source, file));
  const std::string location = file.filename().string();
  auto structure = wire::rewrite_model(source, [&](const wire::Source& from, std::uint64_t begin, std::uint64_t end) {
    return leave_on_disk(location, from, begin, end);
  });
  if (!structure) {
    Error error = std::move(structure.error());
    if (error.where.empty()) error.message = file.string() + ": " + error.message;
    error.where = file.string();
    return fail(std::move(error));
  }
  onnx::ModelProto proto;
  if (!proto.ParseFromString(std::move(*structure).text()))
    return fail(load_error("not_onnx", file.string() + " is not an ONNX model: its parts do not parse", file,
                           "export the model again"));
  if (!proto.has_graph())
    return fail(load_error("no_graph", file.string() + " holds no graph", file, "export the model again"));
  return proto;
}

// External data: where is it, does it exist, does it stay inside the folder, does it reach its end.
class ExternalData {
 public:
  explicit ExternalData(Model::Impl& model) : model_(model) {}

  Status check(onnx::TensorProto& tensor) {
    const std::string* location = external_entry(tensor, "location");
    if (location == nullptr || location->empty())
      return bad(tensor, "missing_external_data", "names no file", "export again");
    const std::string plain = fs::path(*location).lexically_normal().string();
    PW_TRY(file, weight_file(tensor, *location, plain));
    const auto expected = raw_bytes(tensor.data_type(), tensor.dims());
    if (!expected)
      return bad(tensor, "external_data_out_of_bounds", "has a type or dimensions without a size", "export again");
    std::uint64_t offset = 0, length = *expected;
    if (!read_number(tensor, "offset", offset) || !read_number(tensor, "length", length))
      return bad(tensor, "external_data_out_of_bounds", "has an offset or length that is no number", "export again");
    if (length != *expected)
      return bad(
          tensor, "external_data_out_of_bounds",
          "has " + std::to_string(length) + " bytes of data where its shape and type need " + std::to_string(*expected),
          "export again");
    if (offset > file->size || length > file->size - offset)
      return bad(tensor, "external_data_out_of_bounds",
                 "ends at byte " + std::to_string(offset + length) + " of " + file->path.string() + ", which has " +
                     std::to_string(file->size),
                 "the data file is cut off or belongs to another model: copy both again");
    place(tensor, {plain, offset, length});
    return {};
  }

 private:
  tl::unexpected<Error> bad(const onnx::TensorProto& tensor, std::string code, const std::string& what,
                            std::string hint) const {
    return fail(load_error(std::move(code),
                           model_.file.string() + ": the external data of tensor '" + tensor.name() + "' " + what,
                           model_.file, std::move(hint)));
  }

  static bool read_number(const onnx::TensorProto& tensor, const std::string& key, std::uint64_t& value) {
    const std::string* text = external_entry(tensor, key);
    if (text == nullptr || text->empty()) return true;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    return code == std::errc() && end == text->data() + text->size();
  }

  Result<const WeightFile*> weight_file(const onnx::TensorProto& tensor, const std::string& location,
                                        const std::string& plain) {
    if (const auto known = model_.weights.find(plain); known != model_.weights.end()) return &known->second;
    constexpr const char* kSafe = "only load models whose data lies beside them; copy the data into the folder";
    const fs::path relative(plain);
    if (relative.is_absolute() || plain.find('\0') != std::string::npos || *relative.begin() == "..")
      return bad(tensor, "unsafe_external_data", "leaves the model's folder: '" + location + "'", kSafe);
    std::error_code code;
    const fs::path real = fs::canonical(model_.folder / relative, code);
    if (code)
      return bad(tensor, "missing_external_data", "is missing: no file '" + location + "' in " + model_.folder.string(),
                 "copy the data file into the model's folder under that name");
    const auto [at, _] = std::mismatch(model_.folder.begin(), model_.folder.end(), real.begin(), real.end());
    if (at != model_.folder.end())
      return bad(tensor, "unsafe_external_data",
                 "leaves the model's folder: '" + location + "' is a link to " + real.string(), kSafe);
    if (!fs::is_regular_file(real, code))
      return bad(tensor, "unsafe_external_data", "is no regular file: '" + location + "'", kSafe);
    PW_TRY(stated, weight_state(real));
    return &model_.weights.emplace(plain, std::move(stated)).first->second;
  }

 private:
  Model::Impl& model_;
};

Status check_external_data(Model::Impl& model) {
  ExternalData data(model);
  Status status;
  for_each_tensor(model.proto, [&](onnx::TensorProto& tensor) {
    if (is_external(tensor)) status = data.check(tensor);
    return status.has_value();
  });
  return status;
}

}  // namespace

Result<WeightFile> weight_state(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return fail(file_error("load", "cannot_read", path, errno));
  return WeightFile{path, static_cast<std::uint64_t>(info.st_size), static_cast<std::uint64_t>(info.st_ino),
                    static_cast<std::int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec};
}

Result<Model> Model::load(const fs::path& file) {
  std::error_code code;
  const fs::path real = fs::canonical(file, code);
  if (code) return fail(file_error("load", "cannot_read", file, code.value()));
  PW_TRY(source, wire::Source::open(real));
  PW_TRY(proto, parse(source, real));
  Impl impl;
  impl.proto = std::move(proto);
  impl.file = real;
  impl.folder = real.parent_path();
  PW_CHECK(check_external_data(impl));
  return Impl::wrap(std::move(impl));
}

Result<Model> Model::from_structure(const std::string& structure, const fs::path& folder) {
  std::error_code code;
  Impl impl;
  impl.folder = fs::canonical(folder, code);
  if (code) return fail(file_error("load", "cannot_read", folder, code.value()));
  impl.file = impl.folder / "(structure)";
  if (!impl.proto.ParseFromString(structure) || !impl.proto.has_graph())
    return fail(load_error("not_onnx", "a structure in " + impl.folder.string() + " does not parse", impl.folder, ""));
  PW_CHECK(check_external_data(impl));
  return Impl::wrap(std::move(impl));
}

Result<fs::path> Model::Impl::weight_file(const std::string& location) const {
  const auto known = weights.find(location);
  if (known == weights.end())
    return fail({Fault::defect, "load", "unknown_location", "no weights at '" + location + "'", file.string(), "", ""});
  const WeightFile& was = known->second;
  PW_TRY(now, weight_state(was.path));
  if (now.size != was.size || now.inode != was.inode || now.modified_ns != was.modified_ns)
    return fail(load_error("weights_changed", was.path.string() + " has changed since the model was loaded", was.path,
                           "load the model again"));
  return was.path;
}

}  // namespace portwright
