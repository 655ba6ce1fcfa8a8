// Parts that the command lines of all our programs share: options in one style, and errors that say
// what the user probably meant. The header only declares the types of the library CLI11, so that
// few files include the library.
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

// The result of arguments that ask for a text, or are wrong: the text to print, and the exit code.
struct PrintText {
  std::string text;         // goes to stdout unchanged; an error's message goes to stderr,
                            // decorated
  int exit_code = kExitOk;  // kExitUsage: the text is an error's message
  ColorMode color = ColorMode::automatic;
};

// Adds a positional argument, which is written to `out`. The caller marks it as required if it is.
CLI::Option* add_argument(CLI::App& app, const char* name, std::string& out, const char* about);
// Adds a subcommand with its description.
CLI::App* add_command(CLI::App& app, const char* name, const char* about);
// Adds "help [COMMAND...]" and "version", which print the same as --help and --version.
void add_help_commands(CLI::App& app);
// Accepts a decimal integer in a range. The library's own conversion would read 010 as 8.
CLI::Validator whole_number(int64_t min, int64_t max);
// Adds --workers: "4" sets `most`, and "2:4" sets both.
void add_workers(CLI::App& app, std::optional<int64_t>& least, std::optional<int64_t>& most);
// Adds --gpu, which sets a key of the job: the list has what --set gave.
void add_gpu(CLI::App& app, std::vector<std::string>& set);
// Adds --color: auto, always or never.
void add_color(CLI::App& app, std::string& color);

// innermost() returns the innermost subcommand that the user named, and full_name() its name as the
// user types it: "leat graph show".
const CLI::App& innermost(const CLI::App& app);
std::string full_name(const CLI::App& app);

// Parses `arguments`, which do not contain the program's name, and writes to the variables that the
// options of `app` are bound to. Returns the text to print instead if the arguments ask for help or
// the version, or are wrong; nothing if the program can run.
std::optional<PrintText> parse_arguments(CLI::App& app, const std::vector<std::string>& arguments);

// --- Pages of the manual, made from the parser itself: the same text as --help ---

// A page in the format man(7) for `command`, a program or one of its subcommands: its name,
// synopsis, arguments, flags and, for the whole program, its commands and footer. `section`: 1 for
// commands of users, 8 for daemons.
std::string manual_page(const CLI::App& command, int section);

// Adds "man [COMMAND]"; the parser writes the words to `topic`.
void add_man_command(CLI::App& app, std::string& topic);
// The page of the command with these words, "checkpoint ls"; of the program for "". An error of
// usage if there is none.
PrintText manual_of(const CLI::App& app, const std::string& topic, int section);

// The commands below `app`.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
// True for an option with a value, "--output FILE", in contrast to a flag and to an argument.
bool takes_value(const CLI::Option& option);

}  // namespace leat
