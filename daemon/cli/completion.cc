#include "daemon/cli/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/base/version.h"
#include "daemon/process/arguments.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The flags as the user types them, the long ones first: "--output", "-o".
std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flags.push_back("-" + name);
  }
  return flags;
}

// The names of an option as a manual has them, "-o" before "--output"; that of an argument alone.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name());
  return names;
}

// An option with a value, "--output FILE", in contrast to a flag and to an argument. The parser
// gives flags a size, but no name of a type.
bool takes_value(const CLI::Option& option) {
  return !option.get_positional() && !option.get_type_name().empty();
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

// Text of a manual: a '-' is a hyphen unless it is escaped, and a line must not begin with '.' or
// an apostrophe.
std::string manual_text(const std::string& text) {
  std::string out;
  bool at_start = true;
  for (const char c : text) {
    if (at_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_start = c == '\n';
  }
  return out;
}

// An option has a name and a letter, as in --output and -o, and the name of its value if it is no
// flag. What it lacks is null.
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

std::string manual_option(const CLI::Option& option) {
  const std::string value = takes_value(option) ? cat(" ", option.get_type_name()) : "";
  return cat(".TP\n.B ", manual_text(join(names_of(option), ", ") + value), "\n",
             manual_text(option.get_description()), "\n");
}

std::string manual_synopsis(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name();
    words += option->get_required() ? cat(" ", name) : cat(" [", name, "]");
  }
  if (!commands_of(command).empty()) words += " COMMAND";
  return cat(".B ", manual_text(full_name(command)), "\n[OPTIONS]", manual_text(words), "\n");
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

std::string manual_page(const CLI::App& command) {
  std::string title = full_name(command);
  std::replace(title.begin(), title.end(), ' ', '-');
  std::string upper = title;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string out =
      cat(".TH ", manual_text(upper), " 1 \"\" \"leat ", leat_version(), "\" \"Leat\"\n.SH NAME\n",
          manual_text(title), " \\- ", manual_text(command.get_description()), "\n.SH SYNOPSIS\n",
          manual_synopsis(command));
  std::string arguments, options;
  for (const CLI::Option* option : command.get_options())
    (option->get_positional() ? arguments : options) += manual_option(*option);
  if (!arguments.empty()) out += ".SH ARGUMENTS\n" + arguments;
  if (!options.empty()) out += ".SH OPTIONS\n" + options;
  std::string commands;
  for (const CLI::App* sub : commands_of(command)) {
    commands += cat(".TP\n.B ", manual_text(full_name(*sub)), "\n",
                    manual_text(sub->get_description()), "\n");
  }
  if (!commands.empty()) out += ".SH COMMANDS\n" + commands;
  if (!command.get_footer().empty())
    out += cat(".SH NOTES\n.nf\n", manual_text(command.get_footer()), "\n.fi\n");
  return out;
}

}  // namespace leat
