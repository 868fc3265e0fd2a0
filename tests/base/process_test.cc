// Workers that crash, hang, grow or are missing: each is a value, and none takes the test down.
#include "base/process.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace portwright {
namespace {

using std::chrono::milliseconds;

Result<Json> call_shell(const std::string& script, WorkerLimits limits = {milliseconds(20'000), 0}) {
  auto worker = Worker::start({{"sh", "-c", script}, {}, {}, limits, nullptr});
  if (!worker) return fail(worker.error());
  return worker->call("anything", Json::object());
}

TEST(Worker, CrashIsAValueThatNamesTheSignalAndShowsTheLog) {
  const auto reply = call_shell("echo last words >&2; kill -SEGV $$");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, "crashed");
  EXPECT_NE(reply.error().message.find("SIGSEGV"), std::string::npos) << reply.error().message;
  EXPECT_NE(reply.error().detail.find("last words"), std::string::npos);
}

TEST(Worker, ExitIsAValueThatNamesTheCode) {
  const auto reply = call_shell("exit 3");
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, "crashed");
  EXPECT_NE(reply.error().message.find("exited with code 3"), std::string::npos) << reply.error().message;
}

TEST(Worker, SilenceTimesOut) {
  const auto reply = call_shell("sleep 600", {milliseconds(200), 0});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, "timed_out");
}

TEST(Worker, GrowthIsStoppedAtTheLimit) {
  const auto reply = call_shell("exec python3 -c 'import time; x = b\"x\" * (400 << 20); time.sleep(600)'",
                                {milliseconds(60'000), 200U << 20});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, "out_of_memory");
}

TEST(Worker, MissingProgramIsTheEnvironmentsFault) {
  auto worker = Worker::start({{"/no/such/program"}, {}, {}, {milliseconds(20'000), 0}, nullptr});
  ASSERT_TRUE(worker);
  const auto reply = worker->call("anything", Json::object());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().fault, Fault::environment);
}

TEST(Worker, IsDeadAfterwardsAndSaysSo) {
  auto worker = Worker::start({{"sh", "-c", "exit 1"}, {}, {}, {milliseconds(20'000), 0}, nullptr});
  ASSERT_TRUE(worker);
  EXPECT_FALSE(worker->call("anything", Json::object()));
  EXPECT_FALSE(worker->alive());
  EXPECT_FALSE(worker->call("anything", Json::object()));
}

TEST(Worker, ChildrenOfAWorkerDieWithIt) {
  const auto file = std::filesystem::temp_directory_path() / ("portwright-test-" + std::to_string(getpid()));
  const auto reply = call_shell("sleep 600 & echo $! > " + file.string() + "; sleep 600", {milliseconds(500), 0});
  ASSERT_FALSE(reply);
  std::ifstream in(file);
  pid_t child = 0;
  in >> child;
  ASSERT_GT(child, 0);
  for (int i = 0; i < 200 && kill(child, 0) == 0; ++i) {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string text((std::istreambuf_iterator<char>(stat)), {});
    if (text.find(") Z ") != std::string::npos) break;  // killed, not yet reaped by its new parent
    usleep(10'000);
  }
  std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(stat)), {});
  EXPECT_TRUE(text.empty() || text.find(") Z ") != std::string::npos) << text;
  std::filesystem::remove(file);
}

TEST(SharedMemory, TensorsComeBackAsTheyWere) {
  auto box = SharedMemory::create("test");
  ASSERT_TRUE(box);
  Tensor numbers = Tensor::zeros(Dtype::i64, {3});
  for (int i = 0; i < 3; ++i) numbers.as_mutable<std::int64_t>()[static_cast<std::size_t>(i)] = std::int64_t{7} * i;
  const auto described = put_tensors(*box, {{"empty", Tensor::zeros(Dtype::f32, {0, 4})}, {"numbers", numbers}});
  ASSERT_TRUE(described);
  const auto back = get_tensors(*box, *described);
  ASSERT_TRUE(back);
  EXPECT_EQ((*back)[0].tensor.shape(), (Shape{0, 4}));
  EXPECT_EQ((*back)[1].tensor.as<std::int64_t>()[2], 14);
}

TEST(SharedMemory, StagedTensorsAreNotCopiedAgainAndSurviveGrowth) {
  auto box = SharedMemory::create("test");
  Tensor small = Tensor::zeros(Dtype::u8, {100});
  small.mutable_bytes()[0] = std::byte{42};
  const auto first = put_tensors(*box, {{"small", small}});
  const auto staged = get_tensors(*box, *first);
  ASSERT_TRUE(staged);
  const auto again = put_tensors(*box, {(*staged)[0], {"large", Tensor::zeros(Dtype::u8, {50 << 20})}});
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)[0].at("offset"), (*first)[0].at("offset"));
  const auto both = get_tensors(*box, *again);
  ASSERT_TRUE(both);
  EXPECT_EQ((*both)[0].tensor.bytes()[0], std::byte{42});
  EXPECT_EQ((*staged)[0].tensor.bytes()[0], std::byte{42});
}

TEST(SharedMemory, LyingDescriptionsAreRefused) {
  auto box = SharedMemory::create("test");
  ASSERT_TRUE(put_tensors(*box, {{"x", Tensor::zeros(Dtype::f32, {4})}}));
  const auto entry = [](Json dtype, Json shape, Json offset) {
    return Json::array({Json{{"name", "x"}, {"dtype", dtype}, {"shape", shape}, {"offset", offset}}});
  };
  EXPECT_FALSE(get_tensors(*box, entry("float32", {1 << 28}, 0)));
  EXPECT_FALSE(get_tensors(*box, entry("float32", {-1}, 0)));
  EXPECT_FALSE(get_tensors(*box, entry("float32", {4}, 3)));
  EXPECT_FALSE(get_tensors(*box, entry("float32", {4}, std::uint64_t{1} << 62)));
  EXPECT_FALSE(get_tensors(*box, entry("string", {4}, 0)));
  EXPECT_FALSE(get_tensors(*box, entry("float32", "four", 0)));
  EXPECT_FALSE(get_tensors(*box, Json::array({1})));
}

}  // namespace
}  // namespace portwright
