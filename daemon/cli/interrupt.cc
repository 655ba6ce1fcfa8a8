#include "daemon/cli/interrupt.h"

#include <unistd.h>

#include <atomic>

namespace leat {
namespace {

// A signal handler can only use global variables.
std::atomic<int> first_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler must not take a lock");

// The handler of both signals. The first signal is kept, and the second one ends the process, in
// case the run does not look at the flag.
extern "C" void note_signal(int signal) {
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
}

}  // namespace

Interrupt::Interrupt() {
  // A signal of an earlier Interrupt of this process must not count.
  first_signal.store(0);
  struct sigaction action {};
  action.sa_handler = note_signal;
  // System calls go on after the signal, so that no code has to handle EINTR.
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
}

Interrupt::~Interrupt() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
}

int Interrupt::signal() const { return first_signal.load(); }

}  // namespace leat
