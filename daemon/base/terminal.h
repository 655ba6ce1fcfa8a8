// What the command line may do with the terminal: colours, the width, and how errors look. Data
// goes to stdout, everything else, these errors too, to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/exit_code.h"
#include "devices/base/status.h"
#include "devices/base/utf8.h"

namespace leat {

enum class ColorMode { automatic, always, never };

// Whether to colour: as `mode` says; automatic means on a terminal, unless NO_COLOR is set to
// anything or TERM is "dumb". The two are the environment's values, null when unset.
bool use_color(ColorMode mode, bool is_terminal, const char* no_color, const char* term);

bool stderr_is_terminal();
// use_color() for stderr and this process's environment.
bool stderr_color(ColorMode mode);
// Columns of the terminal on stderr; 80 if it is none.
int terminal_width();
// Columns of the terminal on stdout; 0 if it is none, so that a pipe or a file gets everything.
size_t stdout_columns();

// "leat: error: message\n", the word in red if `color`.
std::string error_line(std::string_view message, bool color, std::string_view program = "leat");

// Prints the error to stderr, in one line whatever bytes it quotes, and returns its exit code.
// Prints nothing when ok.
int report(const Status& status, ColorMode color);
// Prints each to stderr.
void print_notes(const std::vector<std::string>& notes);
// Prints "no such <kind> '<path>'" if there is nothing at `path`, and returns true then: the exit
// code is kExitNoSuch.
bool report_missing(std::string_view kind, const std::string& path, ColorMode color);

}  // namespace leat
