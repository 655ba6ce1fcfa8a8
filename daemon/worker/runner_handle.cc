#include "daemon/worker/runner_handle.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>

#include "daemon/process/memory_bound.h"
#include "daemon/worker/process_usage.h"
#include "daemon/worker/runner_boot.h"
#include "daemon/worker/runner_confinement.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

extern char** environ;

namespace leat {
namespace {

constexpr size_t kLongestLine = 4096;  // bytes; longer lines are cut into several
constexpr auto kBootDeadline = std::chrono::seconds(1);
constexpr int kSocketInChild = 3;

// Draws the incarnation of a runner.
uint64_t random_number() {
  const LinkNonce bytes = link_nonce();
  uint64_t number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

// Only signals that a crash causes count. SIGKILL may be from a person, a program, or the kernel
// without memory.
bool is_of_a_crash(int signal) {
  for (const int crash : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP}) {
    if (signal == crash) return true;
  }
  return false;
}

bool reads_stores(const RunnerSurroundings& surroundings) {
  return std::any_of(surroundings.datasets.begin(), surroundings.datasets.end(),
                     [](const auto& each) { return is_store_path(each.second); });
}

// Returns this process's environment, with `own` in place of its variables of these names, and
// without those that systemd sets for this process alone. A confined runner gets only those that it
// needs.
std::vector<char*> environment(std::vector<std::string>& own, bool is_confined, bool of_stores) {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('=') + 1);
    if (text.starts_with("NOTIFY_SOCKET=") || text.starts_with("WATCHDOG_")) continue;
    const std::string_view bare = text.substr(0, text.find('='));
    if (is_confined && !is_for_runner(bare, of_stores)) continue;
    if (std::any_of(own.begin(), own.end(),
                    [&](const auto& each) { return each.starts_with(name); }))
      continue;
    kept.push_back(*entry);
  }
  for (std::string& each : own) kept.push_back(each.data());
  kept.push_back(nullptr);
  return kept;
}

// All data for the child, prepared before the fork: after it, only system calls are allowed.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int output, socket;
  rlimit files, core;
  int namespaces;  // flags of clone(); 0: none
};

// A fork(), into new namespaces. The C library's own knows no flags; its preparations are for
// copies that do more than system calls.
pid_t fork_into(int namespaces) {
  if (namespaces == 0) return fork();
  return static_cast<pid_t>(
      syscall(SYS_clone, namespaces | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Runs in the child, between fork and exec.
[[noreturn]] void become_runner(const Launch& launch) {
  sigset_t none;
  sigemptyset(&none);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  // The worker's own handlers and its ignored signals must not pass on to the runner.
  for (const int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD})
    sigaction(number, &standard, nullptr);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  // The parent may have ended before prctl(), which then sends no signal; getppid() shows that.
  // A parent outside of the namespace has no number in it.
  const bool has_parent = launch.namespaces != 0 || getppid() == launch.parent;
  const bool ready =
      prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && has_parent && setpgid(0, 0) == 0 && null >= 0 &&
      dup2(null, 0) == 0 && dup2(launch.output, 1) == 1 && dup2(launch.output, 2) == 2 &&
      dup2(launch.socket, kSocketInChild) == kSocketInChild &&
      close_range(kSocketInChild + 1, ~0U, 0) == 0 &&
      setrlimit(RLIMIT_NOFILE, &launch.files) == 0 && setrlimit(RLIMIT_CORE, &launch.core) == 0;
  if (ready) execve(launch.program, launch.arguments, launch.environment);
  constexpr char kFailed[] = "leatd runner: could not be started\n";
  [[maybe_unused]] const ssize_t written = write(2, kFailed, sizeof kFailed - 1);
  _exit(127);
}

// Returns a limit of at most `wanted`, and not above the current hard limit.
rlimit lowered(int which, rlim_t wanted) {
  rlimit now{};
  getrlimit(which, &now);
  now.rlim_max = std::min(now.rlim_max, wanted);
  now.rlim_cur = now.rlim_max;
  return now;
}

}  // namespace

Result<std::unique_ptr<RunnerHandle>> RunnerHandle::start(const RunnerOrder& order,
                                                          const RunnerSurroundings& surroundings) {
  std::unique_ptr<RunnerHandle> made(new RunnerHandle());
  made->incarnation_ = random_number();
  made->memory_limit_ = memory_limit_of(order, surroundings);
  made->is_of_share_ = made->memory_limit_ != surroundings.memory_limit;
  // Each runner has its own directory, also if two of one job follow each other.
  RunnerConfinement* const confines = surroundings.confinement;
  const std::string& parent = confines ? confines->folder() : surroundings.directory;
  made->directory_ = cat(parent, "/", made->incarnation_);
  Confinement confinement;
  if (confines) {
    LEAT_ASSIGN_OR_RETURN(auto part, confines->take(order, surroundings.threads, made->directory_));
    confinement = std::move(part.confinement);
    made->user_ = std::move(part.user);
    // The kernel ends a namespace of processes with its first one.
    made->may_leave_others_ = made->user_.number() != 0 && !confinement.has_namespaces;
  }
  LEAT_RETURN_IF_ERROR(made->make_directory(made->directory_));
  LEAT_ASSIGN_OR_RETURN(auto sockets, socket_pair());
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) < 0) return system_error("a pipe for a runner's output", errno);
  made->output_ = Descriptor(pipe[0]);
  const Descriptor output(pipe[1]);
  // The thread "runners" must not wait in read(); it polls all runners at once.
  fcntl(made->output_.get(), F_SETFL, O_NONBLOCK);
  made->socket_ = std::move(sockets.first);
  LEAT_RETURN_IF_ERROR(made->spawn(surroundings, confinement, output.get(), sockets.second.get()));
  // The runner waits for this message before it does anything. On failure here the destructor kills
  // it.
  const auto boot =
      runner_boot(order, surroundings, made->directory_, made->incarnation_, confinement);
  LEAT_RETURN_IF_ERROR(send_all(made->socket_.get(), boot,
                                std::chrono::steady_clock::now() + kBootDeadline,
                                cat("runner of job ", order.job)));
  return made;
}

Status RunnerHandle::make_directory(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::create_directory(path, error))
    return unavailable(cat("'", path, "': ", error.message()));
  if (user_.number() == 0) return {};
  // Peers have users of their own; they pass through to a socket whose path they know.
  constexpr mode_t kPassThrough = 0711;
  const auto id = static_cast<uid_t>(user_.number());
  if (chmod(path.c_str(), kPassThrough) != 0 || chown(path.c_str(), id, id) != 0)
    return system_error(cat("'", path, "'"), errno);
  return {};
}

Status RunnerHandle::spawn(const RunnerSurroundings& surroundings, const Confinement& confinement,
                           int output, int socket) {
  std::string program = surroundings.program, verb = "runner";
  char* const arguments[] = {program.data(), verb.data(), nullptr};
  std::vector<std::string> own = surroundings.environment;
  const std::vector<char*> variables =
      environment(own, confinement.is_on, reads_stores(surroundings));
  // Above 3, so that the dup to the child's descriptor 3 does not close one of them.
  const Descriptor high_output(fcntl(output, F_DUPFD_CLOEXEC, 10));
  const Descriptor high_socket(fcntl(socket, F_DUPFD_CLOEXEC, 10));
  if (!high_output || !high_socket) return system_error("descriptors for a runner", errno);
  const RunnerLimits& limits = surroundings.limits;
  const Launch launch{program.c_str(),
                      arguments,
                      variables.data(),
                      getpid(),
                      high_output.get(),
                      high_socket.get(),
                      lowered(RLIMIT_NOFILE, static_cast<rlim_t>(limits.open_files)),
                      lowered(RLIMIT_CORE, limits.core_dumps ? RLIM_INFINITY : 0),
                      confinement.has_namespaces ? kNamespacesOfRunner : 0};
  // Block all signals around the fork: a handler that runs in the child before exec would be this
  // process's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = fork_into(launch.namespaces);
  if (pid_ == 0) become_runner(launch);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) return system_error("starting a runner", error);
  // The child is not reaped yet, so its number cannot belong to another process.
  exit_ = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  return exit_ ? Status() : system_error("watching a runner", errno);
}

RunnerHandle::~RunnerHandle() {
  // A process that was not reaped would stay as a zombie, and its number in use.
  if (pid_ > 0 && !reaped_) {
    signal(SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  // The end of a process does not end those that it may have left.
  if (may_leave_others_ && pid_ > 0) end_user(user_.number(), directory_);
  // A worker that is not root may remove the directory of another user, but not look into it.
  if (directory_.empty() || rmdir(directory_.c_str()) == 0) return;
  std::error_code ignored;  // the worker removes leftovers when it starts
  std::filesystem::remove_all(directory_, ignored);
}

void RunnerHandle::signal(int number) const {
  if (!reaped_) ::kill(pid_, number);
}

char RunnerHandle::state() const { return state_of(pid_); }

bool RunnerHandle::is_stopped() const {
  const char state = this->state();
  return state == 'T' || state == 't';
}

// Moves the complete lines of unfinished_ to `lines`; at the end of the output also the rest.
void RunnerHandle::take_lines(std::vector<std::string>& lines, bool at_end) {
  size_t begin = 0;
  while (begin < unfinished_.size()) {
    size_t end = unfinished_.find('\n', begin);
    const bool whole = end != std::string::npos;
    if (!whole) end = unfinished_.size();
    if (end - begin > kLongestLine) {
      lines.push_back(unfinished_.substr(begin, kLongestLine));
      begin += kLongestLine;
      continue;
    }
    // A line without its end may go on with the next read.
    if (!whole && !at_end) break;
    lines.push_back(unfinished_.substr(begin, end - begin));
    begin = end + (whole ? 1 : 0);
  }
  unfinished_.erase(0, begin);
}

std::vector<std::string> RunnerHandle::read_output() {
  std::vector<std::string> lines;
  char buffer[16384];
  // Limits the reads, so that a runner that writes endlessly does not keep the thread from the
  // others.
  for (int reads = 0; reads < 8 && output_; ++reads) {
    const ssize_t n = ::read(output_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    // All writers have closed the pipe, or it cannot be read any more.
    if (n <= 0) {
      take_lines(lines, true);
      output_ = Descriptor();
      return lines;
    }
    unfinished_.append(buffer, static_cast<size_t>(n));
  }
  take_lines(lines, false);
  return lines;
}

std::optional<RunnerPulse> RunnerHandle::next_pulse() {
  std::byte buffer[1024];
  while (!hung_up_) {
    const ssize_t n = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      hung_up_ = true;
      break;
    }
    unread_.insert(unread_.end(), buffer, buffer + n);
  }
  // Pulses have one size. Only the newest counts; the bytes of one that is incomplete stay.
  const size_t whole = unread_.size() / kPulseBytes * kPulseBytes;
  if (whole == 0) return std::nullopt;
  const auto last = std::span(unread_).first(whole).last<kPulseBytes>();
  const std::optional<RunnerPulse> pulse = read_pulse(last);
  unread_.erase(unread_.begin(), unread_.begin() + static_cast<ptrdiff_t>(whole));
  return pulse;
}

std::optional<RunnerEnd> RunnerHandle::reap() {
  int status = 0;
  const pid_t pid = waitpid(pid_, &status, WNOHANG);
  if (pid == 0 || (pid < 0 && errno == EINTR)) return std::nullopt;
  reaped_ = true;
  if (pid < 0) return RunnerEnd{"is gone"};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kRunnerOutOfMemory) {
    const char* limit = is_of_share_ ? "its share of the worker" : "the worker's memory_limit";
    return RunnerEnd{memory_limit_ > 0
                         ? cat("ran out of memory, ", limit, " is ", human_bytes(memory_limit_))
                         : "ran out of memory",
                     true};
  }
  if (!WIFSIGNALED(status)) return RunnerEnd{cat("exited with status ", WEXITSTATUS(status))};
  const int signal = WTERMSIG(status);
  return RunnerEnd{cat("was killed by signal ", signal), is_of_a_crash(signal)};
}

}  // namespace leat
