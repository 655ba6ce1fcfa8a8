// The rules of the command line for the terminal: colours, the width, and the form of errors. Data
// goes to stdout; everything else, including these errors, goes to stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/exit_code.h"
#include "devices/base/status.h"
#include "devices/base/utf8.h"

namespace leat {

enum class ColorMode { automatic, always, never };

// Returns whether to use colours, as `mode` says; automatic means on a terminal, unless NO_COLOR is
// set and not empty, or TERM is "dumb". `no_color` and `term` are the values of these variables,
// null if unset.
bool use_color(ColorMode mode, bool is_terminal, const char* no_color, const char* term);

bool stderr_is_terminal();
// Calls use_color() for stderr and this process's environment.
bool stderr_color(ColorMode mode);
// The same for stdout.
bool stdout_color(ColorMode mode);
// Returns the columns of the terminal on stderr; 80 if it is not a terminal.
int terminal_width();
// Returns the columns of the terminal on stdout; 0 if it is not a terminal, so that a pipe or a
// file gets the whole text.
size_t stdout_columns();

// Returns "leat: error: message\n", with the word "error:" in red if `color`.
std::string error_line(std::string_view message, bool color, std::string_view program = "leat");

// Prints the error to stderr and returns its exit code. Control characters that the error quotes
// are escaped. Prints nothing if the status is ok.
int report(const Status& status, ColorMode color);
// Prints each note to stderr.
void print_notes(const std::vector<std::string>& notes);
// If nothing exists at `path`, prints "no such <kind>: '<path>'" and returns true; the exit code is
// then kExitNoSuch.
bool report_missing(std::string_view kind, const std::string& path, ColorMode color);

}  // namespace leat
