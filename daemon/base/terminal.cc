#include "daemon/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {

ExitCode exit_code_of(const Status& status) {
  if (status.ok()) return kExitOk;
  const bool invalid =
      status.code() == Code::invalid_argument || status.code() == Code::unimplemented;
  return invalid ? kExitInvalid : kExitFailed;
}

bool use_color(ColorMode mode, bool is_terminal, const char* no_color, const char* term) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  // By the convention of no-color.org, an empty NO_COLOR does not count.
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  return is_terminal && !refused && !dumb;
}

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

bool stderr_color(ColorMode mode) {
  return use_color(mode, stderr_is_terminal(), std::getenv("NO_COLOR"), std::getenv("TERM"));
}

bool stdout_color(ColorMode mode) {
  return use_color(mode, ::isatty(STDOUT_FILENO) == 1, std::getenv("NO_COLOR"),
                   std::getenv("TERM"));
}

int terminal_width() {
  winsize size{};
  // Asked each time, because people change the size of the window.
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

size_t stdout_columns() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 0;
}

// The two sequences switch to bold red and back.
std::string error_line(std::string_view message, bool color, std::string_view program) {
  return cat(program, ": ", color ? "\033[1;31merror:\033[0m " : "error: ", message, "\n");
}

int report(const Status& status, ColorMode color) {
  if (!status.ok()) {
    // The message may quote a file or a peer, whose control characters must not reach the terminal.
    std::fputs(error_line(printable(status.message()), stderr_color(color)).c_str(), stderr);
  }
  return exit_code_of(status);
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes)
    std::fprintf(stderr, "leat: note: %s\n", printable(note).c_str());
}

bool report_missing(std::string_view kind, const std::string& path, ColorMode color) {
  const auto exists = real_files().exists(path);
  if (!exists.ok() || *exists) return false;  // other errors appear when the file is opened
  const std::string message = cat("no such ", kind, ": '", printable(path), "'");
  std::fputs(error_line(message, stderr_color(color)).c_str(), stderr);
  return true;
}

}  // namespace leat
