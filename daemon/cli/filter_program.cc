#include "daemon/cli/filter_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "devices/base/text.h"

extern char** environ;

namespace leat {
namespace {

// A descriptor that is closed with its owner.
class PipeEnd {
 public:
  explicit PipeEnd(int descriptor = -1) : descriptor_(descriptor) {}
  ~PipeEnd() { close(); }
  PipeEnd(const PipeEnd&) = delete;
  PipeEnd& operator=(const PipeEnd&) = delete;
  void set(int descriptor) { descriptor_ = descriptor; }
  int get() const { return descriptor_; }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
};

// A pipe between this process and the program. Other programs do not inherit its ends.
struct Pipe {
  PipeEnd read, write;
  Status open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return resource_exhausted(cat("making a pipe failed: ", std::strerror(errno)));
    read.set(ends[0]);
    write.set(ends[1]);
    return {};
  }
};

// A child that is killed and reaped with its owner.
class ChildOfFilter {
 public:
  explicit ChildOfFilter(pid_t pid) : pid_(pid) {}
  ~ChildOfFilter() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    (void)wait();
  }
  ChildOfFilter(const ChildOfFilter&) = delete;
  ChildOfFilter& operator=(const ChildOfFilter&) = delete;
  // Its end, as waitpid() has it.
  int wait() {
    int how = 0;
    while (::waitpid(pid_, &how, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return how;
  }

 private:
  pid_t pid_;
};

// A write to a program that has ended fails with EPIPE then, and signals nobody.
class NoBrokenPipeSignal {
 public:
  NoBrokenPipeSignal() {
    sigset_t broken_pipe;
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, &before_);
  }
  ~NoBrokenPipeSignal() {
    // One that is pending by now would be delivered.
    if (!sigismember(&before_, SIGPIPE)) {
      sigset_t broken_pipe;
      sigemptyset(&broken_pipe);
      sigaddset(&broken_pipe, SIGPIPE);
      const timespec now{};
      (void)::sigtimedwait(&broken_pipe, nullptr, &now);
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
};

Result<pid_t> spawn_filter(const std::vector<std::string>& words, int in, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  return failed_precondition(
      cat("the program '", words[0], "' cannot be started: ", std::strerror(error)));
}

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
                      std::string& errors, std::chrono::milliseconds quiet) {
  constexpr size_t kErrors = 4096;
  if (input.empty()) in.write.close();
  while (out.read.get() >= 0 || err.read.get() >= 0) {
    pollfd waits[] = {
        {in.write.get(), POLLOUT, 0}, {out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}};
    const int ready = ::poll(waits, 3, static_cast<int>(quiet.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0)
      return deadline_exceeded(cat("expected it to go on within ", quiet.count(), " ms"));
    if (waits[0].revents != 0 && !write_some(in.write.get(), input)) in.write.close();
    if (waits[1].revents != 0 && !read_some(out.read.get(), output, SIZE_MAX)) out.read.close();
    if (waits[2].revents != 0 && !read_some(err.read.get(), errors, kErrors)) err.read.close();
  }
  return {};
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace

Result<std::string> run_filter(const std::vector<std::string>& words, std::string_view input,
                               std::chrono::milliseconds quiet) {
  Pipe in, out, err;
  LEAT_RETURN_IF_ERROR(in.open());
  LEAT_RETURN_IF_ERROR(out.open());
  LEAT_RETURN_IF_ERROR(err.open());
  const NoBrokenPipeSignal no_signal;
  LEAT_ASSIGN_OR_RETURN(const pid_t pid,
                        spawn_filter(words, in.read.get(), out.write.get(), err.write.get()));
  ChildOfFilter child(pid);
  in.read.close();
  out.write.close();
  err.write.close();
  ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
  std::string output, errors;
  const Status moved = exchange_bytes(in, out, err, input, output, errors, quiet);
  if (!moved.ok())
    return Status(moved.code(), cat("the program '", words[0], "': ", moved.message()));
  const int how = child.wait();
  if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return output;
  const std::string end =
      WIFSIGNALED(how) ? cat("signal ", WTERMSIG(how)) : cat("exit code ", WEXITSTATUS(how));
  return failed_precondition(cat("the program '", words[0], "' ended with ", end,
                                 errors.empty() ? "" : ": ", last_line(errors)));
}

}  // namespace leat
