#include "daemon/cli/completion.h"

#include <CLI/CLI.hpp>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/process/arguments.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The flags as the user types them, the long ones first: "--output", "-o".
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

// Calls `visit` with each command, the program itself first.
template <typename Visit>
void each_command(const CLI::App& app, const Visit& visit) {
  visit(app);
  for (const CLI::App* sub : commands_of(app)) each_command(*sub, visit);
}

// A single-quoted word for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// Both shells complete with this function: it finds the innermost command that was typed, and
// offers the words of that command.
std::string bash_function(const CLI::App& app) {
  std::string table;
  each_command(app, [&](const CLI::App& command) {
    std::vector<std::string> words;
    for (const CLI::App* sub : commands_of(command)) words.push_back(sub->get_name());
    const auto flags = flags_of(command);
    words.insert(words.end(), flags.begin(), flags.end());
    table += cat("    ", quoted(full_name(command)), ") words=", quoted(join(words, " ")), " ;;\n");
  });
  return cat(R"(_leat_words() {
  case $1 in
)",
             table, R"(    *) return 1 ;;
  esac
}
_leat() {
  local current=${COMP_WORDS[COMP_CWORD]} command=leat words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if _leat_words "$command ${COMP_WORDS[i]}"; then command="$command ${COMP_WORDS[i]}"; fi
  done
  _leat_words "$command"
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ ${#COMPREPLY[@]} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _leat leat
)");
}

std::string zsh_script(const CLI::App& app) {
  return cat("#compdef leat\nautoload -U +X bashcompinit && bashcompinit\n", bash_function(app));
}

// The condition under which fish offers the words of a command.
std::string fish_condition(const CLI::App& command) {
  std::vector<std::string> seen;
  for (const CLI::App* at = &command; at->get_parent(); at = at->get_parent())
    seen.push_back(at->get_name());
  if (seen.empty()) return "__fish_use_subcommand";
  std::vector<std::string> all;
  for (auto name = seen.rbegin(); name != seen.rend(); ++name)
    all.push_back("__fish_seen_subcommand_from " + *name);
  return join(all, "; and ");
}

std::string fish_script(const CLI::App& app) {
  std::string out;
  each_command(app, [&](const CLI::App& command) {
    const std::string line = cat("complete -c leat -n ", quoted(fish_condition(command)));
    for (const CLI::App* sub : commands_of(command)) {
      out += cat(line, " -f -a ", sub->get_name(), " -d ", quoted(sub->get_description()), "\n");
    }
    for (const CLI::Option* option : command.get_options()) {
      std::string names;
      for (const std::string& name : option->get_lnames()) names += " -l " + name;
      for (const std::string& name : option->get_snames()) names += " -s " + name;
      if (names.empty()) continue;
      out += cat(line, names, takes_value(*option) ? " -r" : "", " -d ",
                 quoted(option->get_description()), "\n");
    }
  });
  return out;
}

// An option has a name and a letter, as in --output and -o, and the name of its value if it is no
// flag. A part that it lacks is null.
std::string option_json(const CLI::App& command, const CLI::Option& option) {
  const auto first = [](const std::vector<std::string>& names) {
    return names.empty() ? std::nullopt : std::optional(names[0]);
  };
  JsonLine line;
  line.add("apiVersion", kApiVersion);
  line.add("kind", option.get_positional() ? "Argument" : "Option");
  line.add("command", full_name(command));
  if (option.get_positional()) {
    line.add("name", option.get_name());
  } else {
    line.add("name", first(option.get_lnames())).add("letter", first(option.get_snames()));
    line.add("value", takes_value(option) ? std::optional(option.get_type_name()) : std::nullopt);
  }
  line.add("required", option.get_required());
  return line.add("help", option.get_description()).text();
}

}  // namespace

std::optional<std::string> completion_script(const CLI::App& app, std::string_view shell) {
  if (shell == "bash") return bash_function(app);
  if (shell == "zsh") return zsh_script(app);
  if (shell == "fish") return fish_script(app);
  return std::nullopt;
}

std::string completion_json(const CLI::App& app) {
  std::string out;
  JsonLine line;
  each_command(app, [&](const CLI::App& command) {
    line.clear();
    line.add("apiVersion", kApiVersion).add("kind", "Command").add("command", full_name(command));
    out += line.add("help", command.get_description()).text();
    for (const CLI::Option* option : command.get_options()) out += option_json(command, *option);
  });
  return out;
}

}  // namespace leat
