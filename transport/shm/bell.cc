#include "transport/shm/bell.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <future>

namespace leat::shm {
namespace {

// The two words have a page of their own.
constexpr size_t kBellBytes = 4096;
// The longest delay that a peer which fails to ring can cause.
constexpr std::chrono::milliseconds kLongestSleep{200};

// The C library has no function for this system call. Its flag for private memory is not set,
// because processes share the word.
long futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout,
                   nullptr, 0);
}

}  // namespace

Result<Bell> Bell::create() {
  LEAT_ASSIGN_OR_RETURN(auto file, MemoryFile::create("leat-bell", kBellBytes));
  return Bell(std::move(file));
}

Result<Bell> Bell::open(Descriptor descriptor, std::string_view peer) {
  LEAT_ASSIGN_OR_RETURN(auto file, MemoryFile::open(std::move(descriptor), kBellBytes, peer));
  return Bell(std::move(file));
}

// Both sides write before they read, in one total order. So either the ringer sees that the owner
// parks, or the owner sees the ring before it sleeps.
void Bell::ring() {
  words().rings.fetch_add(1, std::memory_order_seq_cst);
  if (words().parked.load(std::memory_order_seq_cst) != 0)
    futex(words().rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void Bell::park(uint32_t seen, std::chrono::milliseconds timeout) {
  words().parked.store(1, std::memory_order_seq_cst);
  const timespec limit{timeout.count() / 1000, (timeout.count() % 1000) * 1'000'000};
  // The kernel compares the word once more, so that a ring between the look and the sleep is not
  // lost.
  if (rings() == seen) futex(words().rings, FUTEX_WAIT, seen, &limit);
  words().parked.store(0, std::memory_order_seq_cst);
}

Result<std::unique_ptr<Waiter>> Waiter::create(std::chrono::microseconds spin) {
  LEAT_ASSIGN_OR_RETURN(Bell bell, Bell::create());
  return std::unique_ptr<Waiter>(new Waiter(std::move(bell), spin));
}

Waiter::Waiter(Bell bell, std::chrono::microseconds spin)
    : bell_(std::move(bell)), patience_(spin), thread_([this] { run(); }) {}

Waiter::~Waiter() {
  // The ring ends a sleep, and the loop then sees that it is to stop.
  stopped_.store(true);
  bell_.ring();
  thread_.join();
}

void Waiter::run() {
  ::pthread_setname_np(::pthread_self(), "shm");
  while (!stopped_.load()) {
    // The rings are read before the look: a ring that comes during the look keeps the thread awake.
    const uint32_t seen = bell_.rings();
    if (look() || copies_.help()) {
      patience_.progress();
    } else if (!patience_.look_again()) {
      bell_.park(seen, kLongestSleep);
    }
  }
}

bool Waiter::look() {
  // The flag spares the lock in almost every look.
  if (any_asked_.load(std::memory_order_acquire)) {
    std::vector<std::function<void()>> asked;
    {
      std::lock_guard lock(mutex_);
      asked.swap(asked_);
      any_asked_.store(false, std::memory_order_relaxed);
    }
    for (const auto& change : asked) change();
  }
  bool news = false;
  for (Polled* polled : polled_) news = polled->poll() || news;
  return news;
}

void Waiter::copy(void* to, const void* from, size_t bytes) {
  copies_.copy(to, from, bytes, [this] { bell_.ring(); });
}

void Waiter::ask(std::function<void()> change) {
  // Shared, because this thread may be gone before set_value() returns.
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> waited = done->get_future();
  {
    std::lock_guard lock(mutex_);
    asked_.push_back([change = std::move(change), done] {
      change();
      done->set_value();
    });
    any_asked_.store(true, std::memory_order_release);
  }
  bell_.ring();
  waited.wait();
}

void Waiter::add(Polled& polled) {
  ask([this, &polled] { polled_.push_back(&polled); });
}

void Waiter::remove(Polled& polled) {
  ask([this, &polled] { std::erase(polled_, &polled); });
}

}  // namespace leat::shm
