// What the command lines of our programs share: options in one style, and errors that say what was
// meant. The library's types are only named here, so that it is included in few files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/exit_code.h"
#include "daemon/base/terminal.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace leat {

// The arguments ask for a text, or are wrong: what to print, and the exit code.
struct PrintText {
  std::string text;         // goes to stdout as it is; an error's message to stderr, decorated
  int exit_code = kExitOk;  // kExitUsage: it is an error's message
  ColorMode color = ColorMode::automatic;
};

// A required or optional argument without a flag.
CLI::Option* add_argument(CLI::App& app, const char* name, std::string& out, const char* about);
CLI::App* add_command(CLI::App& app, const char* name, const char* about);
// "help [COMMAND...]" and "version", which print what --help and --version do.
void add_help_commands(CLI::App& app);
// A decimal integer in a range: the library's own conversion would read 010 as 8.
CLI::Validator whole_number(int64_t min, int64_t max);
// --workers: "4", or "2:4" for 2 to 4.
void add_workers(CLI::App& app, std::optional<int64_t>& least, std::optional<int64_t>& most);
// --color: auto, always or never.
void add_color(CLI::App& app, std::string& color);

// The innermost subcommand that was named, and its name as it is typed: "leat graph show".
const CLI::App& innermost(const CLI::App& app);
std::string full_name(const CLI::App& app);

// Parses `arguments`, which are without the program's name, into what the options of `app` write
// to. What to print instead if they ask for help or the version, or are wrong.
std::optional<PrintText> parse_arguments(CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace leat
