#include "daemon/chaos/commit_chaos.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>

#include "devices/base/failpoint.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kSlowWrite{100};

// Forks a child that continues the stopped processes later, since they cannot do it themselves.
void continue_later(std::span<const pid_t> processes, std::chrono::milliseconds after) {
  // The child of a process with threads may only use calls that are safe in a signal handler: these
  // are system calls alone.
  // A grandchild does it, so that the child ends at once and leaves no zombie.
  const pid_t child = ::fork();
  if (child > 0) ::waitpid(child, nullptr, 0);
  if (child != 0) return;
  if (::fork() != 0) ::_exit(0);
  ::syscall(SYS_close_range, 0u, ~0u, 0u);  // so that peers see it if this process ends
  const timespec time{after.count() / 1000, (after.count() % 1000) * 1'000'000};
  ::nanosleep(&time, nullptr);
  for (const pid_t process : processes) ::kill(process, SIGCONT);
  ::_exit(0);
}

// The handler never returns, so the thread that got the signal does nothing more.
void stand_still(int) {
  for (;;) ::pause();
}

// Looks like a kernel that does not return: the threads that compute stop.
void hang_compute_threads() {
  const int number = SIGRTMIN + 3;
  struct sigaction action = {};
  action.sa_handler = stand_still;
  ::sigaction(number, &action, nullptr);
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return;
  while (const dirent* each = ::readdir(tasks)) {
    std::ifstream file(std::string("/proc/self/task/") + each->d_name + "/comm");
    std::string name;
    std::getline(file, name);
    // Threads are known by their names. The others go on, so the process still gives signs of life.
    const bool computes = name.starts_with("compute") || name.starts_with("driver");
    if (computes) ::syscall(SYS_tgkill, ::getpid(), std::atoi(each->d_name), number);
  }
  ::closedir(tasks);
}

// The transport changes a bit of the next bytes that it sends.
void corrupt_what_is_sent_next() {
  set_failpoint("transport/corrupt",
                // Only the first pass fails.
                [](uint64_t pass) { return pass == 1 ? unavailable("chaos") : Status(); });
}

// Delays every write of this process by failpoints.
void slow_disk(std::chrono::milliseconds lasts) {
  using Steady = std::chrono::steady_clock;
  const bool ends = lasts.count() > 0;
  const auto until = Steady::now() + lasts;
  for (const char* what : {"files/create", "files/append", "files/sync", "files/rename",
                           "files/sync_directory", "journal/append", "journal/commit"}) {
    set_failpoint(what, [ends, until](uint64_t) {
      if (!ends || Steady::now() < until) std::this_thread::sleep_for(kSlowWrite);
      return Status();
    });
  }
}

}  // namespace

void commit_chaos(const ChaosFault& fault, std::span<const pid_t> processes) {
  const auto send = [&](int signal) {
    for (const pid_t process : processes) ::kill(process, signal);
  };
  switch (fault.action) {
    case ChaosAction::kill:
      return send(SIGKILL);
    case ChaosAction::term:
      return send(SIGTERM);
    case ChaosAction::exit:
      ::_exit(1);
    case ChaosAction::hang:
      return hang_compute_threads();
    case ChaosAction::corrupt:
      return corrupt_what_is_sent_next();
    case ChaosAction::slow:
      return slow_disk(fault.lasts);
    case ChaosAction::flip:
      return;  // needs the memory of the job: flip_bit()
    case ChaosAction::stop:
      // The child must exist before the signal, which may stop this very process.
      if (fault.lasts.count() > 0) continue_later(processes, fault.lasts);
      return send(SIGSTOP);
  }
}

}  // namespace leat
