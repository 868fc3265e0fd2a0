#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/help.h"
#include "cli/signals.h"
#include "cli/suggest.h"
#include "report/format.h"

namespace portwright {
namespace {

std::string footer(const std::vector<std::string>& examples) {
  std::string out = "\nExamples:\n";
  for (const std::string& example : examples) out += "  " + example + "\n";
  return out;
}

Error wrong_usage(std::string message, std::string where, std::string hint) {
  return {Fault::usage, "options", "usage", std::move(message), std::move(where), std::move(hint), ""};
}

std::string version() { return "portwright " + document("version")["portwright"].get<std::string>(); }

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : visible_verbs(app)) names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(app)) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

Error unknown_verb(const CLI::App& app, const std::string& word) {
  const std::vector<std::string> names = verb_names(app);
  const std::string near = closest(word, names);
  if (word.starts_with("-"))
    return wrong_usage("unknown option '" + word + "' before the verb", word,
                       "options follow the verb: portwright VERB " + word);
  return wrong_usage("unknown verb '" + word + "'", word,
                     near.empty() ? "the verbs are " + joined(names) : "did you mean '" + near + "'?");
}

Error unknown_argument(const CLI::App& verb, const std::vector<std::string>& rest) {
  const auto option = std::find_if(rest.begin(), rest.end(), [](const auto& word) { return word.starts_with("-"); });
  if (option == rest.end())
    return wrong_usage("portwright " + verb.get_name() + " does not expect '" + rest.front() + "'", rest.front(),
                       "portwright " + verb.get_name() + " --help shows what it takes");
  const std::string name = option->substr(0, option->find('='));
  const std::string near = closest(name, option_names(verb));
  return wrong_usage(
      "unknown option '" + name + "' of portwright " + verb.get_name(), name,
      near.empty() ? "portwright " + verb.get_name() + " --help shows the options" : "did you mean '" + near + "'?");
}

}  // namespace

Program::Program()
    : app_(std::make_unique<CLI::App>(
          "Portwright takes a PyTorch model to a compiled engine and proves that the engine is right.", "portwright")) {
  app_->set_help_flag("-h,--help", "Show this help");
  app_->set_version_flag("--version", version(), "Show the version");
  app_->allow_extras();
  app_->footer(footer({"portwright port torchvision:resnet18 --target onnxruntime:fp32 --target openvino:bf16 -o out",
                       "portwright doctor"}));
}

Program::~Program() = default;

Verb Program::add(VerbHelp help, Action action) {
  CLI::App& verb = *app_->add_subcommand(help.name, help.summary);
  const auto common = [&](CLI::Option* option) { option->group("Common options"); };
  common(verb.set_help_flag("-h,--help", "Show this help"));
  common(verb.add_flag("--json", options_->json, "Print one JSON document on standard output, and nothing else there"));
  common(verb.add_flag("-q,--quiet", options_->quiet, "Print no text and no progress; the exit code tells"));
  common(verb.add_flag("-v,--verbose", options_->verbose, "Tell every step, and the details of errors"));
  verb.allow_extras();
  verb.footer(footer(help.examples));
  actions_[help.name] = std::move(action);
  return Verb(verb);
}

void Program::add_hidden(const std::string& name, Action action) {
  app_->add_subcommand(name, "")->group("");
  actions_[name] = std::move(action);
}

Error Program::usage_error(const std::string& what) const {
  const std::string verb = chosen_name();
  return wrong_usage(what, "", "portwright " + (verb.empty() ? "" : verb + " ") + "--help shows how it is called");
}

std::string Program::chosen_name() const {
  const auto chosen = app_->get_subcommands();
  return chosen.empty() ? "" : chosen.front()->get_name();
}

// What was not understood is told before what is missing: the one is often the cause of the other.
Result<const Action*> Program::parse(int argc, char** argv) {
  std::string problem;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success&) {  // --help or --version
    throw;
  } catch (const CLI::ParseError& error) {
    problem = error.what();
  }
  const auto chosen = app_->get_subcommands();
  if (chosen.empty()) {
    const auto rest = app_->remaining();
    if (!rest.empty()) return fail(unknown_verb(*app_, rest.front()));
    return fail(usage_error(problem.empty() ? "no verb is given" : problem));
  }
  if (const auto rest = chosen.front()->remaining(); !rest.empty())
    return fail(unknown_argument(*chosen.front(), rest));
  if (!problem.empty()) return fail(usage_error(problem));
  return &actions_.at(chosen.front()->get_name());
}

int Program::run(int argc, char** argv) {
  command_.assign(argv, argv + argc);
  if (!command_.empty()) command_.front() = "portwright";
  // Known before parsing, so that wrong usage is told as asked, too.
  options_->json = std::find(command_.begin(), command_.end(), "--json") != command_.end();
  Result<ExitCode> code = ExitCode::passed;
  try {
    code = parse_and_act(argc, argv);
  } catch (const std::exception& defect) {
    code = fail(
        {Fault::defect, "program", "exception", std::string("a defect of Portwright: ") + defect.what(), "", "", ""});
  } catch (...) {
    code = fail({Fault::defect, "program", "exception", "a defect of Portwright: an unknown exception", "", "", ""});
  }
  if (code) return static_cast<int>(*code);
  Console console(*options_);
  const ExitCode failed = exit_code(code.error().fault);
  console.error(code.error(), failed);
  return static_cast<int>(failed);
}

Result<ExitCode> Program::parse_and_act(int argc, char** argv) {
  ConsoleOptions early = *options_;
  try {
    PW_TRY(action, parse(argc, argv));
    Console console(*options_);
    if (!app_->get_subcommands().front()->get_group().empty())  // a worker's crash is its parent's to tell
      install_crash_handlers(console);
    PW_TRY(code, (*action)(console));
    PW_CHECK(console.output_status());
    return code;
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app_->get_subcommands();
    Console(early).product(help_text(chosen.empty() ? *app_ : *chosen.front()));
    return ExitCode::passed;
  } catch (const CLI::CallForVersion&) {
    Console(early).product(version() + "\n");
    return ExitCode::passed;
  }
}

}  // namespace portwright
