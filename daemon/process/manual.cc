#include "daemon/process/manual.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "daemon/base/version.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The names of an option as a manual has them, "-o" before "--output"; that of an argument alone.
std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  if (names.empty()) names.push_back(option.get_name());
  return names;
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

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// The parser gives flags a size, but no name of a type.
bool takes_value(const CLI::Option& option) {
  return !option.get_positional() && !option.get_type_name().empty();
}

std::string manual_page(const CLI::App& command, int section) {
  std::string title = full_name(command);
  std::replace(title.begin(), title.end(), ' ', '-');
  std::string upper = title;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::string out =
      cat(".TH ", manual_text(upper), " ", section, " \"\" \"leat ", leat_version(),
          "\" \"Leat\"\n.SH NAME\n", manual_text(title), " \\- ",
          manual_text(command.get_description()), "\n.SH SYNOPSIS\n", manual_synopsis(command));
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

void add_man_command(CLI::App& app, std::string& topic) {
  auto* man = add_command(app, "man", "Print a page of the manual, for man -l -");
  add_argument(*man, "COMMAND", topic, "A command of several words in quotes (default: all)");
}

PrintText manual_of(const CLI::App& app, const std::string& topic, int section) {
  const CLI::App* at = &app;
  size_t begin = 0;
  while (begin < topic.size()) {
    const size_t end = std::min(topic.find(' ', begin), topic.size());
    const std::string word = topic.substr(begin, end - begin);
    const auto found =
        at->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
    if (found.empty()) {
      return {cat("unknown command '", topic, "'\nSee '", app.get_name(), " --help'."), kExitUsage};
    }
    at = found.front();
    begin = end + 1;
  }
  return {manual_page(*at, section)};
}

}  // namespace leat
