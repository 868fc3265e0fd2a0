// The test program is also the worker that the engines under test start.
#include <gtest/gtest.h>

#include <string_view>

#include "engine/worker.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "engine-worker") return portwright::engine_worker_main();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
