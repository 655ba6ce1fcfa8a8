#include "daemon/cli/filter_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "daemon/cli/spawn_program.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

// A child that is killed and reaped with its owner.
class ChildOfFilter {
 public:
  explicit ChildOfFilter(pid_t pid) : pid_(pid) {}
  ~ChildOfFilter() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    // A child that a disk holds may outlast even this.
    (void)await_end(pid_, Steady::now() + milliseconds(1000));
  }
  ChildOfFilter(const ChildOfFilter&) = delete;
  ChildOfFilter& operator=(const ChildOfFilter&) = delete;
  // As await_end().
  std::optional<int> end_within(milliseconds limit) {
    const auto end = await_end(pid_, Steady::now() + limit);
    if (end) pid_ = -1;
    return end;
  }

 private:
  pid_t pid_;
};

// Appends what is there to read. False at the end.
bool read_some(int descriptor, std::string& out, size_t most) {
  std::array<char, 1 << 16> bytes;
  const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  out.append(bytes.data(), static_cast<size_t>(count));
  if (out.size() > most) out.erase(0, out.size() - most);
  return count > 0;
}

// Writes what the program takes now. False if it takes no more.
bool write_some(int descriptor, std::string_view& input) {
  const ssize_t count = ::write(descriptor, input.data(), std::min<size_t>(input.size(), 1 << 16));
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  input.remove_prefix(static_cast<size_t>(count));
  return !input.empty();
}

// Moves bytes until the program has closed its stdout and its stderr.
Status exchange_bytes(Pipe& in, Pipe& out, Pipe& err, std::string_view input, std::string& output,
                      std::string& errors, milliseconds quiet) {
  constexpr size_t kErrors = 4096;
  if (input.empty()) in.write = {};
  while (out.read.get() >= 0 || err.read.get() >= 0) {
    pollfd waits[] = {
        {in.write.get(), POLLOUT, 0}, {out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}};
    const int ready = ::poll(waits, 3, static_cast<int>(quiet.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return unavailable(cat("waiting for it failed: ", std::strerror(errno)));
    if (ready == 0)
      return deadline_exceeded(cat("expected it to go on within ", quiet.count(), " ms"));
    if (waits[0].revents != 0 && !write_some(in.write.get(), input)) in.write = {};
    if (waits[1].revents != 0 && !read_some(out.read.get(), output, SIZE_MAX)) out.read = {};
    if (waits[2].revents != 0 && !read_some(err.read.get(), errors, kErrors)) err.read = {};
  }
  return {};
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Result<std::string> run_filter(const std::vector<std::string>& words, std::string_view input,
                               milliseconds quiet) {
  LEAT_ASSIGN_OR_RETURN(Pipe in, open_pipe());
  LEAT_ASSIGN_OR_RETURN(Pipe out, open_pipe());
  LEAT_ASSIGN_OR_RETURN(Pipe err, open_pipe());
  const NoBrokenPipeSignal no_signal;
  const auto pid =
      spawn_program(words, {in.read.get(), out.write.get(), err.write.get()}, /*own_group=*/false);
  if (!pid.ok())
    return failed_precondition(
        cat("the program '", words[0], "' cannot be started: ", pid.status().message()));
  ChildOfFilter child(*pid);
  in.read = {};
  out.write = {};
  err.write = {};
  ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  std::string output, errors;
  const Status moved = exchange_bytes(in, out, err, input, output, errors, quiet);
  if (!moved.ok())
    return Status(moved.code(), cat("the program '", words[0], "': ", moved.message()));
  in.write = {};  // it may read on to the end of its stdin
  const auto end = child.end_within(quiet);
  if (!end) {
    return deadline_exceeded(cat("the program '", words[0], "': expected it to end within ",
                                 quiet.count(), " ms after its output"));
  }
  if (*end == 0) return output;
  const std::string text = cat("the program '", words[0], "' ended with ", text_of_end(*end),
                               errors.empty() ? "" : ": ", last_line(errors));
  return WIFSIGNALED(*end) ? internal_error(text) : invalid_argument(text);
}

}  // namespace leat
