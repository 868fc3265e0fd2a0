// portwright engine-worker: the other end of engine/worker.h. Portwright starts it; nobody else has to.
#include "cli/program.h"
#include "engine/worker.h"

namespace portwright {

void add_engine_worker(Program& program) {
  program.add_hidden("engine-worker", [](Console&) -> Result<ExitCode> {
    return engine_worker_main() == 0 ? ExitCode::passed : ExitCode::defect;
  });
}

}  // namespace portwright
