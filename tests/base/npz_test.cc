#include "portwright/npz.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <complex>
#include <csignal>
#include <fstream>

#include "base/digest.h"
#include "base/files.h"
#include "base/python_peer.h"

namespace portwright {
namespace {

namespace fs = std::filesystem;

class Npz : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_->path() / name; }
  const fs::path& folder() const { return folder_->path(); }

 private:
  Result<ScratchFolder> folder_ = ScratchFolder::make("npz_test");
};

// Element i is i - 3 as the dtype takes it: the rule of ramp() in npz_peer.py.
Tensor ramp(Dtype dtype, Shape shape) {
  Tensor t = Tensor::uninitialised(dtype, std::move(shape));
  const auto fill = [&]<class T>(T, auto value) {
    for (std::size_t i = 0; i < t.count(); ++i) t.as_mutable<T>()[i] = static_cast<T>(value(static_cast<int>(i)));
  };
  const auto minus3 = [](int i) { return i - 3; };
  const auto same = [](int i) { return i; };
  switch (dtype) {
    case Dtype::f32:
      fill(float{}, minus3);
      break;
    case Dtype::f64:
      fill(double{}, minus3);
      break;
    case Dtype::f16:
      fill(std::uint16_t{}, [](int i) { return float_to_half(static_cast<float>(i - 3)); });
      break;
    case Dtype::bf16:
      fill(std::uint16_t{}, [](int i) { return float_to_bfloat16(static_cast<float>(i - 3)); });
      break;
    case Dtype::i8:
      fill(std::int8_t{}, minus3);
      break;
    case Dtype::i16:
      fill(std::int16_t{}, minus3);
      break;
    case Dtype::i32:
      fill(std::int32_t{}, minus3);
      break;
    case Dtype::i64:
      fill(std::int64_t{}, minus3);
      break;
    case Dtype::u8:
      fill(std::uint8_t{}, same);
      break;
    case Dtype::u16:
      fill(std::uint16_t{}, same);
      break;
    case Dtype::u32:
      fill(std::uint32_t{}, same);
      break;
    case Dtype::u64:
      fill(std::uint64_t{}, same);
      break;
    case Dtype::boolean:
      fill(std::uint8_t{}, [](int i) { return i % 2; });
      break;
    case Dtype::c64:
      fill(std::complex<float>{}, [](int i) { return std::complex<float>(float(i - 3), float(i)); });
      break;
    case Dtype::c128:
      fill(std::complex<double>{}, [](int i) { return std::complex<double>(i - 3, i); });
      break;
  }
  return t;
}

// same_arrays() of npz_peer.py.
Tensors same_arrays() {
  Tensors tensors;
  for (const auto dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64, Dtype::u8,
                           Dtype::u16, Dtype::u32, Dtype::u64, Dtype::boolean, Dtype::c64, Dtype::c128, Dtype::bf16})
    tensors.push_back({std::string(to_string(dtype)), ramp(dtype, {2, 3, 5})});
  Tensor seven = Tensor::zeros(Dtype::f32, {});
  seven.as_mutable<float>()[0] = 7;
  tensors.push_back({"scalar", seven});
  tensors.push_back({"empty", Tensor::zeros(Dtype::f32, {0, 4})});
  tensors.push_back({"layer/weight:0 ü", ramp(Dtype::f32, {1})});
  return tensors;
}

void expect_same(const Tensors& got, const Tensors& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE(want[i].name);
    EXPECT_EQ(got[i].name, want[i].name);
    EXPECT_EQ(got[i].tensor.dtype(), want[i].tensor.dtype());
    EXPECT_EQ(got[i].tensor.shape(), want[i].tensor.shape());
    const auto a = got[i].tensor.bytes(), b = want[i].tensor.bytes();
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
}

TEST_F(Npz, ReadsBackWhatItWrote) {
  ASSERT_TRUE(write_npz(path("a.npz"), same_arrays()));
  const auto got = read_npz(path("a.npz"));
  ASSERT_TRUE(got) << got.error().message;
  expect_same(*got, same_arrays());
}

TEST_F(Npz, NumpyReadsWhatPortwrightWrites) {
  ASSERT_TRUE(write_npz(path("a.npz"), same_arrays()));
  run_python("base/npz_peer.py", {"read", path("a.npz").string()});
}

TEST_F(Npz, ReadsWhatNumpyWrites) {
  run_python("base/npz_peer.py", {"write", folder().string()});
  for (const auto* name : {"stored", "compressed", "fortran", "fortran_compressed"}) {
    SCOPED_TRACE(name);
    const auto got = read_npz(path(std::string(name) + ".npz"));
    ASSERT_TRUE(got) << got.error().message;
    expect_same(*got, same_arrays());
  }
  Tensors no_bfloat = same_arrays();
  std::erase_if(no_bfloat, [](const NamedTensor& t) { return t.name == "bfloat16"; });
  for (const auto* name : {"big_endian", "big_endian_compressed"}) {
    SCOPED_TRACE(name);
    const auto got = read_npz(path(std::string(name) + ".npz"));
    ASSERT_TRUE(got) << got.error().message;
    expect_same(*got, no_bfloat);
  }
  for (const auto* name : {"version1", "version2", "version3"}) {
    SCOPED_TRACE(name);
    const auto got = read_npz(path(std::string(name) + ".npz"));
    ASSERT_TRUE(got) << got.error().message;
    expect_same(*got, {{"x", ramp(Dtype::f32, {4, 2})}});
  }
  const auto nothing = read_npz(path("nothing.npz"));
  ASSERT_TRUE(nothing) << nothing.error().message;
  EXPECT_TRUE(nothing->empty());
}

TEST_F(Npz, ElementsAreAlignedInTheFileAndNotCopied) {
  ASSERT_TRUE(write_npz(path("a.npz"), same_arrays()));
  const auto got = read_npz(path("a.npz"));
  ASSERT_TRUE(got);
  const std::byte* first = got->front().tensor.bytes().data();
  for (const auto& [name, tensor] : *got) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % 64, 0U) << name;
    // All lie in one mapping of the file, in its order.
    EXPECT_LT(static_cast<std::size_t>(tensor.bytes().data() - first), fs::file_size(path("a.npz"))) << name;
  }
}

TEST_F(Npz, MapsWhatNumpyStoresWithoutACopy) {
  run_python("base/npz_peer.py", {"write", folder().string()});
  for (const auto* name : {"stored", "compressed", "fortran"}) {
    const auto mapped = map_npz(path(std::string(name) + ".npz"));
    ASSERT_TRUE(mapped) << mapped.error().message;
    expect_same(*mapped, same_arrays());
  }
  const auto mapped = map_npz(path("stored.npz")), read = read_npz(path("stored.npz"));
  const auto distance = mapped->back().tensor.bytes().data() - mapped->front().tensor.bytes().data();
  EXPECT_GT(distance, 0);
  EXPECT_LT(static_cast<std::size_t>(distance), fs::file_size(path("stored.npz"))) << "all lie in one mapping";
  for (const auto& [name, tensor] : *read)
    EXPECT_EQ(
        reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % std::min<std::size_t>(8, size_of(tensor.dtype())),
        0U);
}

TEST_F(Npz, TensorsOutliveTheFile) {
  ASSERT_TRUE(write_npz(path("a.npz"), same_arrays()));
  const auto got = read_npz(path("a.npz"));
  ASSERT_TRUE(write_npz(path("a.npz"), {}));
  fs::remove(path("a.npz"));
  expect_same(*got, same_arrays());
}

TEST_F(Npz, SameArraysGiveTheSameBytes) {
  ASSERT_TRUE(write_npz(path("a.npz"), same_arrays()));
  ASSERT_TRUE(write_npz(path("b.npz"), same_arrays()));
  EXPECT_EQ(*digest_file(path("a.npz")), *digest_file(path("b.npz")));
}

TEST_F(Npz, BadFilesGiveTheirErrorAndNameFile) {
  run_python("base/npz_peer.py", {"bad", folder().string()});
  std::size_t files = 0;
  for (const auto& item : fs::directory_iterator(folder())) {
    const std::string name = item.path().filename().string();
    SCOPED_TRACE(name);
    ++files;
    const auto got = read_npz(item.path(), {.max_bytes = std::size_t{200} << 20});
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, name.substr(0, name.find('.'))) << got.error().message;
    EXPECT_EQ(got.error().fault, Fault::input);
    EXPECT_EQ(got.error().where, item.path().string());
    EXPECT_TRUE(got.error().message.starts_with(item.path().string())) << got.error().message;
    EXPECT_EQ(got.error().message.find('\n'), std::string::npos) << got.error().message;
  }
  EXPECT_GT(files, 70U);
}

TEST_F(Npz, ErrorsNameTheArrayAndWhatItPromised) {
  run_python("base/npz_peer.py", {"bad", folder().string()});
  const auto lying = read_npz(path("lying_header.more_elements_stored.npz"));
  EXPECT_NE(lying.error().message.find("array 'x' promises float32[2, 4], 32 bytes, but its entry has 24"),
            std::string::npos)
      << lying.error().message;
  EXPECT_NE(read_npz(path("not_npz.single_array.npz")).error().hint.find("numpy.savez"), std::string::npos);
}

TEST_F(Npz, LimitCountsAllArraysTogether) {
  ASSERT_TRUE(write_npz(path("a.npz"), {{"x", ramp(Dtype::f32, {100})}, {"y", ramp(Dtype::f32, {100})}}));
  EXPECT_TRUE(read_npz(path("a.npz"), {.max_bytes = 800}));
  const auto refused = read_npz(path("a.npz"), {.max_bytes = 799});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "too_large");
}

TEST_F(Npz, MissingFileAndFolder) {
  EXPECT_EQ(read_npz(path("none.npz")).error().code, "no_such_file");
  EXPECT_EQ(read_npz(folder()).error().code, "cannot_read");
}

TEST_F(Npz, EveryTruncationFailsAndEveryFlippedByteIsSurvived) {
  ASSERT_TRUE(write_npz(path("a.npz"), {{"x", ramp(Dtype::f32, {3})}, {"y", ramp(Dtype::i64, {2, 2})}}));
  const std::string whole = *read_text(path("a.npz"));
  const auto read_bytes = [&](const std::string& bytes) {
    fs::remove(path("b.npz"));
    std::ofstream(path("b.npz"), std::ios::binary) << bytes;
    return read_npz(path("b.npz"));
  };
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(read_bytes(whole.substr(0, size))) << size;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 0xFF);
    const auto got = read_bytes(changed);  // must neither crash nor read outside (sanitizers watch)
    if (got) digest(*got);
  }
}

TEST_F(Npz, RefusesNamesThatCannotBeReadBack) {
  const Tensor t = ramp(Dtype::f32, {1});
  EXPECT_EQ(write_npz(path("a.npz"), {{"x", t}, {"x", t}}).error().code, "duplicate_name");
  EXPECT_EQ(write_npz(path("a.npz"), {{"", t}}).error().code, "bad_name");
  EXPECT_EQ(write_npz(path("a.npz"), {{std::string("a\0b", 3), t}}).error().code, "bad_name");
  EXPECT_EQ(write_npz(path("a.npz"), {{std::string(70000, 'n'), t}}).error().code, "bad_name");
  EXPECT_FALSE(fs::exists(path("a.npz")));
}

TEST_F(Npz, FailedWritesSayWhyAndLeaveNothing) {
  EXPECT_EQ(write_npz(path("none/a.npz"), same_arrays()).error().code, "cannot_write");
  EXPECT_EQ(write_npz("/proc/a.npz", same_arrays()).error().fault, Fault::environment);

  // A limit on the size of files stands in for a full disk.
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto full = write_npz(path("a.npz"), {{"x", ramp(Dtype::f32, {100'000})}});
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, "cannot_write");
  EXPECT_EQ(full.error().where, path("a.npz").string());
  EXPECT_TRUE(fs::is_empty(folder()));
}

}  // namespace
}  // namespace portwright
