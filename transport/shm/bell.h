// How processes of one host wake each other: a word that the waker raises and the waiter sleeps on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "devices/base/patience.h"
#include "transport/shm/arena.h"
#include "transport/shm/helped_copy.h"

namespace leat::shm {

// A bell, in a memory file of its own. Its owner listens; peers, who get the file, ring it.
// Threads: ring() from any; park() from the owner's.
class Bell {
 public:
  static Result<Bell> create();
  static Result<Bell> open(Descriptor file, std::string_view peer);

  void ring();
  uint32_t rings() const { return words().rings.load(std::memory_order_seq_cst); }
  // Sleeps while rings() is `seen`, until `timeout` at most.
  void park(uint32_t seen, std::chrono::milliseconds timeout);
  int descriptor() const { return file_->descriptor(); }

 private:
  struct Words {
    std::atomic<uint32_t> rings, parked;
  };
  explicit Bell(std::shared_ptr<MemoryFile> file) : file_(std::move(file)) {}
  Words& words() const { return *reinterpret_cast<Words*>(file_->data()); }

  std::shared_ptr<MemoryFile> file_;
};

// The thread that looks after the shared memory of a process: it looks through all links when its
// bell rings, and helps with large copies. It never sleeps long: a peer that rings wrongly costs
// time, not a hang.
class Waiter {
 public:
  class Polled {
   public:
    // Looks for news; true if there were some. Threads: the waiter's.
    virtual bool poll() = 0;

   protected:
    ~Polled() = default;
  };

  // Looks again without sleeping for `spin` after the last news. resource_exhausted if there is no
  // memory for the bell.
  static Result<std::unique_ptr<Waiter>> create(std::chrono::microseconds spin = {});
  // REQUIRES: all were removed.
  ~Waiter();

  void add(Polled& polled);
  // When it returns, poll() does not run and will not. Threads: any that the waiter's does not wait
  // for.
  void remove(Polled& polled);
  Bell& bell() { return bell_; }

  // As stream_copy(), with the help of the waiter's thread. Threads: any.
  void copy(void* to, const void* from, size_t bytes);

 private:
  Waiter(Bell bell, std::chrono::microseconds spin);
  void run();
  bool look();

  Bell bell_;
  Patience patience_;
  HelpedCopy copies_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::vector<std::function<void()>> asked_;  // additions and removals, for the thread to do
  std::atomic<bool> any_asked_{false};
  std::vector<Polled*> polled_;  // the thread's
  std::thread thread_;
  void ask(std::function<void()> change);
};

}  // namespace leat::shm
