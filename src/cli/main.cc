#include "cli/program.h"
#include "cli/signals.h"

int main(int argc, char** argv) {
  using namespace portwright;
  install_signal_handlers();
  Program program;
  add_port(program);
  add_export(program);
  add_inspect(program);
  add_check(program);
  add_simplify(program);
  add_extract(program);
  add_convert_opset(program);
  add_view(program);
  add_compile(program);
  add_run(program);
  add_compare(program);
  add_validate(program);
  add_bench(program);
  add_report(program);
  add_doctor(program);
  add_completion(program);
  add_engine_worker(program);
  return program.run(argc, argv);
}
