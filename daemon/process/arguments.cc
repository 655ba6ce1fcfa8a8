#include "daemon/process/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <string_view>

#include "daemon/base/version.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr const char* kHelp = "help";
constexpr const char* kVersion = "version";
constexpr const char* kTopic = "COMMAND";

// The long flags of a command, for a hint at the one that was meant.
std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

// Returns the error for an argument that no option took.
std::string explain_extra(const CLI::App& command, const std::string& argument) {
  if (argument.starts_with("-")) {
    const std::string flag = argument.substr(0, argument.find('='));
    const auto names = flag_names(command);
    // The library gives a flag only to the command that it stands behind.
    if (std::find(names.begin(), names.end(), flag) != names.end())
      return cat("flag '", flag, "' is one of '", full_name(command), "': put it behind that");
    return cat("unknown flag '", flag, "'", did_you_mean(flag, names));
  }
  const auto names = subcommand_names(command);
  if (names.empty()) return "unexpected argument '" + argument + "'";
  const std::string hint = did_you_mean(argument, names);
  return cat("unknown command '", argument, "'",
             hint.empty() ? "; the commands are " + join(names, ", ") : hint);
}

// Returns the message for wrong arguments. It prefers its own texts to those of the library.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const auto extra = app.remaining(true);
  std::string what = error.what();
  // An argument that is left over is usually the mistake. The library may complain of something
  // that follows from it.
  if (!extra.empty()) {
    what = explain_extra(command, extra.front());
  } else if (!subcommand_names(command).empty()) {
    what = "expected a command: " + join(subcommand_names(command), ", ");
  }
  return cat(what, "\nSee '", full_name(command), " --help'.");
}

CLI::Validator color_word() {
  const auto check = [](const std::string& text) -> std::string {
    if (text == "auto" || text == "always" || text == "never") return {};
    return "expected auto, always or never, received '" + text + "'";
  };
  return CLI::Validator(check, "");
}

// Returns the arguments that "help" and "version" stand for; nothing for another command, or for
// "version" with options of its own.
std::optional<std::vector<std::string>> spelled_out(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  if (command.get_parent() != &app) return std::nullopt;
  if (command.get_name() == kVersion) {
    const auto is_given = [](const CLI::Option* option) { return option->count() > 0; };
    if (!command.get_options(is_given).empty()) return std::nullopt;
    return std::vector<std::string>{"--version"};
  }
  if (command.get_name() != kHelp) return std::nullopt;
  std::vector<std::string> words = command.get_option(kTopic)->results();
  words.push_back("--help");
  return words;
}

// Returns the error for words behind "help" that name no command.
std::optional<PrintText> check_topic(const CLI::App& app, const std::vector<std::string>& words) {
  // Follows the words from command to command, like the parser does with a real command.
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    if (word.starts_with("-")) break;
    const auto subs = at->get_subcommands([&](const CLI::App* s) { return s->get_name() == word; });
    if (subs.empty()) {
      return PrintText{cat(explain_extra(*at, word), "\nSee '", full_name(app), " help'."),
                       kExitUsage};
    }
    at = subs.front();
  }
  return std::nullopt;
}

// Accepts neither a sign nor a zero before other digits.
std::optional<int64_t> parse_whole(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const bool plain = parsed.ec == std::errc() && parsed.ptr == end &&
                     (text == "0" || (text[0] != '0' && text[0] != '-'));
  return plain ? std::optional(value) : std::nullopt;
}

}  // namespace

CLI::Option* add_argument(CLI::App& app, const char* name, std::string& out, const char* about) {
  return app.add_option(name, out, about)->type_name("");
}

CLI::App* add_command(CLI::App& app, const char* name, const char* about) {
  CLI::App* sub = app.add_subcommand(name, about);
  // Otherwise the command would inherit the examples of the whole program.
  sub->footer("");
  return sub;
}

void add_help_commands(CLI::App& app) {
  auto* help = add_command(app, kHelp, "Describe a command, or all of them");
  help->add_option(kTopic)
      ->description("The command, e.g. submit")
      ->type_name("")
      // Any number of words: a command, and the commands below it.
      ->expected(0, -1)
      ->allow_extra_args();
  add_command(app, kVersion, "Print the version");
}

CLI::Validator whole_number(int64_t min, int64_t max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    if (const auto value = parse_whole(text); value && *value >= min && *value <= max) return {};
    return cat("expected an integer of at least ", min, ", received '", text, "'");
  };
  return CLI::Validator(check, "");
}

void add_gpu(CLI::App& app, std::vector<std::string>& set) {
  app.add_flag_callback(
      "--gpu", [&set] { set.emplace_back("resources_per_worker.gpu=1"); },
      "Each worker computes on a GPU of its own what there are kernels for (docs/gpu.md)");
}

void add_workers(CLI::App& app, std::optional<int64_t>& least, std::optional<int64_t>& most) {
  constexpr int64_t kMost = 4096;
  const auto number = [](std::string_view text) -> int64_t {
    const int64_t value = parse_whole(text).value_or(0);
    // 0 stands for every text that is no valid number, because at least 1 is needed.
    return value <= kMost ? value : 0;
  };
  const auto read = [&least, &most, number](const std::string& text) {
    const size_t colon = text.find(':');
    const bool both = colon != std::string::npos;
    const int64_t low = both ? number(std::string_view(text).substr(0, colon)) : 0;
    const int64_t high = number(std::string_view(text).substr(both ? colon + 1 : 0));
    if (high <= 0 || (both && (low <= 0 || low > high))) {
      throw CLI::ValidationError(
          "--workers", cat("expected an integer of at least 1, or two, the least and the most, as "
                           "2:4, received '",
                           text, "'"));
    }
    most = high;
    if (both) least = low;
  };
  app.add_option_function<std::string>("--workers", read,
                                       "Number of workers, at most the job's shards, or as 2:4 the "
                                       "least and the most; changes no result")
      ->type_name("N");
}

void add_color(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "Colours on stderr: auto, always or never")
      ->type_name("WHEN")
      ->check(color_word());
}

const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* found = &app;
  while (!found->get_subcommands().empty()) found = found->get_subcommands().front();
  return *found;
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

std::optional<PrintText> parse_arguments(CLI::App& app, const std::vector<std::string>& arguments) {
  try {
    // The library takes the words from the back of the list.
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    if (const auto words = spelled_out(app)) {
      if (auto wrong = check_topic(app, *words)) return wrong;
      // "help submit" is parsed again as "submit --help", so that both print the same.
      return parse_arguments(app, *words);
    }
  } catch (const CLI::CallForHelp&) {
    return PrintText{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return PrintText{std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    return PrintText{explain(app, error), kExitUsage};
  }
  return std::nullopt;
}

// --- The manual --------------------------------------------------------------------------------

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
