#include "daemon/cli/save_signal.h"

#include <atomic>

namespace leat {
namespace {

// A signal handler can only use global variables.
std::atomic<uint64_t> save_signals{0};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the handler must not take a lock");

extern "C" void note_save_signal(int) { save_signals.fetch_add(1); }

}  // namespace

SaveSignal::SaveSignal() {
  // A signal of an earlier object of this process must not count.
  save_signals.store(0);
  struct sigaction action {};
  action.sa_handler = note_save_signal;
  // System calls go on after the signal, so that no code has to handle EINTR.
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGUSR1, &action, &old_);
}

SaveSignal::~SaveSignal() { ::sigaction(SIGUSR1, &old_, nullptr); }

uint64_t SaveSignal::count() const { return save_signals.load(); }

}  // namespace leat
