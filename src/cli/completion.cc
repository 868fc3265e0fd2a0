// portwright completion: scripts for shells, made from the tree of verbs itself.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/help.h"
#include "cli/options.h"
#include "cli/program.h"
#include "portwright/engine.h"
#include "report/format.h"

namespace portwright {
namespace {

std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const auto& name : option.get_lnames()) flags.push_back("--" + name);
  for (const auto& name : option.get_snames()) flags.push_back("-" + name);
  return flags;
}

std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : visible_verbs(app)) names.push_back(verb->get_name());
  return names;
}

std::vector<std::string> known_targets() {
  std::vector<std::string> words{"torch:eager", "torch:compile"};
  for (const auto& engine : engines())
    for (const char* precision : {"fp32", "fp16", "bf16"}) words.push_back(engine->name() + ":" + precision);
  return words;
}

// Words that may follow an option; empty when it takes a file or free text.
std::vector<std::string> values_of(const CLI::Option& option) {
  return option.check_lname("target") ? known_targets() : choices_of(option);
}

std::vector<std::string> argument_words(const CLI::App& verb) {
  std::vector<std::string> words;
  for (const CLI::Option* argument : arguments_of(verb))
    for (std::string& word : choices_of(*argument)) words.push_back(std::move(word));
  return words;
}

std::string bash(const CLI::App& app) {
  std::string values, words;
  for (const CLI::App* verb : visible_verbs(app)) {
    std::vector<std::string> all = argument_words(*verb);
    for (const CLI::Option* option : options_of(*verb)) {
      const auto flags = flags_of(*option);
      all.insert(all.end(), flags.begin(), flags.end());
      if (const auto choices = values_of(*option); !choices.empty())
        for (const auto& flag : flags)
          values += fmt::format("    {}:{}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n",
                                verb->get_name(), flag, joined(choices, " "));
    }
    words += fmt::format("    {}) words='{}' ;;\n", verb->get_name(), joined(all, " "));
  }
  return fmt::format(R"(# Completion of portwright in bash: source <(portwright completion bash)
_portwright() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb=${{COMP_WORDS[1]}} words=''
  if [[ $COMP_CWORD -eq 1 ]]; then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$current"))
    return
  fi
  case $verb:$previous in
{}  esac
  case $verb in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -o bashdefault -F _portwright portwright
)",
                     joined(verb_names(app), " "), values, words);
}

// Text between single quotes, where brackets and colons have a meaning of their own.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

std::string zsh_option(const CLI::Option& option) {
  std::string out;
  const auto choices = values_of(option);
  const std::string values = choices.empty() ? "_files" : "(" + zsh_text(joined(choices, " ")) + ")";
  for (const std::string& flag : flags_of(option))
    out += fmt::format(" \\\n        '*{}[{}]{}'", flag, zsh_text(option.get_description()),
                       takes_value(option) ? ":value:" + values : "");
  return out;
}

std::string zsh(const CLI::App& app) {
  std::string verbs, cases;
  for (const CLI::App* verb : visible_verbs(app)) {
    verbs += fmt::format("    '{}:{}'\n", verb->get_name(), zsh_text(verb->get_description()));
    std::string options;
    for (const CLI::Option* option : options_of(*verb)) options += zsh_option(*option);
    const auto words = argument_words(*verb);
    cases += fmt::format("    {})\n      _arguments{} \\\n        '*:file:{}' ;;\n", verb->get_name(), options,
                         words.empty() ? "_files" : "(" + joined(words, " ") + ")");
  }
  return fmt::format(R"(#compdef portwright
# Completion of portwright in zsh: portwright completion zsh > a folder of $fpath/_portwright
_portwright() {{
  local -a verbs
  verbs=(
{}  )
  if (( CURRENT == 2 )); then
    _describe 'verb' verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{}  esac
}}
if [[ $funcstack[1] == _portwright ]]; then _portwright "$@"; else compdef _portwright portwright; fi
)",
                     verbs, cases);
}

std::string fish_text(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string fish(const CLI::App& app) {
  std::string out = "# Completion of portwright in fish: portwright completion fish | source\n";
  for (const CLI::App* verb : visible_verbs(app)) {
    const std::string name = verb->get_name();
    out += fmt::format("complete -c portwright -f -n __fish_use_subcommand -a {} -d '{}'\n", name,
                       fish_text(verb->get_description()));
    const std::string here = fmt::format("complete -c portwright -n '__fish_seen_subcommand_from {}'", name);
    for (const std::string& word : argument_words(*verb)) out += fmt::format("{} -f -a {}\n", here, word);
    for (const CLI::Option* option : options_of(*verb)) {
      out += here;
      for (const auto& flag : option->get_lnames()) out += " -l " + flag;
      for (const auto& flag : option->get_snames()) out += " -s " + flag;
      const auto choices = values_of(*option);
      if (!choices.empty())
        out += fmt::format(" -x -a '{}'", joined(choices, " "));
      else if (takes_value(*option))
        out += " -r";
      out += fmt::format(" -d '{}'\n", fish_text(option->get_description()));
    }
  }
  return out;
}

}  // namespace

void add_completion(Program& program) {
  const auto shell = std::make_shared<std::string>();
  Verb verb =
      program.add({"completion",
                   "Print the completion script of a shell",
                   {"source <(portwright completion bash)", "portwright completion fish | source"}},
                  [shell, &program](Console& console) -> Result<ExitCode> {
                    const CLI::App& app = program.app();
                    const std::string script = *shell == "bash" ? bash(app) : *shell == "zsh" ? zsh(app) : fish(app);
                    Json out = document("completion");
                    out["shell"] = *shell;
                    out["script"] = script;
                    console.document(out);
                    if (!console.json()) console.product(script);
                    return ExitCode::passed;
                  });
  verb.argument("SHELL", *shell, {"bash", "zsh", "fish"}, "bash, zsh or fish");
}

}  // namespace portwright
