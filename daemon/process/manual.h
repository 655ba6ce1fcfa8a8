// Pages of the manual of our programs, made from the parser itself: the same text as --help.
#pragma once

#include <string>
#include <vector>

#include "daemon/process/arguments.h"

namespace leat {

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
