// The tree of verbs: what CLI11 parses, what each verb does, and how wrong usage is told.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/exit_codes.h"
#include "cli/verb.h"
#include "portwright/result.h"

namespace portwright {

// What a verb does once its options are parsed.
using Action = std::function<Result<ExitCode>(Console&)>;

struct VerbHelp {
  std::string name;
  std::string summary;                // one line, for the list of verbs
  std::vector<std::string> examples;  // whole command lines
};

class Program {
 public:
  Program();

  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // A new verb, with --json, -q and -v; the caller adds its own arguments and options to what is returned.
  Verb add(VerbHelp help, Action action);
  // One that is not listed and takes no options.
  void add_hidden(const std::string& name, Action action);

  int run(int argc, char** argv);

  const CLI::App& app() const { return *app_; }
  const std::vector<std::string>& command() const { return command_; }  // as typed

 private:
  Result<ExitCode> parse_and_act(int argc, char** argv);
  Result<const Action*> parse(int argc, char** argv);
  Error usage_error(const std::string& what) const;
  std::string chosen_name() const;

  std::unique_ptr<CLI::App> app_;
  std::map<std::string, Action> actions_;  // by verb
  std::vector<std::string> command_;
  std::shared_ptr<ConsoleOptions> options_ = std::make_shared<ConsoleOptions>();
};

// Each verb's file has one of these; main.cc calls them all.
void add_doctor(Program& program);
void add_export(Program& program);
void add_inspect(Program& program);
void add_check(Program& program);
void add_simplify(Program& program);
void add_extract(Program& program);
void add_view(Program& program);
void add_convert_opset(Program& program);
void add_compile(Program& program);
void add_run(Program& program);
void add_compare(Program& program);
void add_validate(Program& program);
void add_bench(Program& program);
void add_port(Program& program);
void add_report(Program& program);
void add_completion(Program& program);
void add_engine_worker(Program& program);

}  // namespace portwright
