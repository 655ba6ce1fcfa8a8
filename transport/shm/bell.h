// How processes of one machine wake each other: a word in shared memory that the ringer raises and
// the owner sleeps on (a futex).
//
//   0 4  rings    rises by one with each ring, by any ringer
//   4 4  parked   not 0 while the owner sleeps or is about to; by the owner
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

// A bell, in a memory file of its own. Its owner listens. Peers get the file and ring; a peer that
// rings wrongly only wakes the owner in vain.
// Threads: ring() from any; park() from the owner's.
class Bell {
 public:
  // A new bell, and the bell of a peer. Errors are those of MemoryFile.
  static Result<Bell> create();
  static Result<Bell> open(Descriptor file, std::string_view peer);

  // Wakes the owner if it sleeps, and keeps it from going to sleep if it has not seen this ring.
  void ring();
  // The number of rings so far, modulo 2^32.
  uint32_t rings() const { return words().rings.load(std::memory_order_seq_cst); }
  // Sleeps while rings() is `seen`, and `timeout` at most.
  void park(uint32_t seen, std::chrono::milliseconds timeout);
  int descriptor() const { return file_->descriptor(); }

 private:
  // The layout above.
  struct Words {
    std::atomic<uint32_t> rings, parked;
  };
  explicit Bell(std::shared_ptr<MemoryFile> file) : file_(std::move(file)) {}
  Words& words() const { return *reinterpret_cast<Words*>(file_->data()); }

  std::shared_ptr<MemoryFile> file_;
};

// The thread that serves the shared memory of a process. When its bell rings it looks through all
// links; between looks it helps with large copies. It never sleeps for long, so that a peer that
// fails to ring costs time and does not hang the process.
// Threads: any, unless a member says otherwise.
class Waiter {
 public:
  // A link, as its waiter sees it.
  class Polled {
   public:
    // Looks for news, and returns true if there were some.
    // Threads: the waiter's.
    virtual bool poll() = 0;

   protected:
    ~Polled() = default;
  };

  // The thread looks again for `spin` after the last news before it sleeps. resource_exhausted if
  // there is no memory for the bell.
  static Result<std::unique_ptr<Waiter>> create(std::chrono::microseconds spin = {});
  // Stops and joins the thread. REQUIRES: all links were removed.
  ~Waiter();

  // Adds a link, and returns when the thread looks at it.
  void add(Polled& polled);
  // Removes a link. After the return poll() does not run and will not.
  // Threads: any for which the waiter's does not wait.
  void remove(Polled& polled);
  // The bell that peers ring.
  Bell& bell() { return bell_; }

  // Copies as stream_copy() does, with the help of the waiter's thread.
  void copy(void* to, const void* from, size_t bytes);

 private:
  Waiter(Bell bell, std::chrono::microseconds spin);
  void run();
  // Carries out what ask() has asked for, then looks through all links.
  bool look();

  Bell bell_;
  Patience patience_;
  HelpedCopy copies_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  // Additions and removals that the thread has to carry out. Under mutex_.
  std::vector<std::function<void()>> asked_;
  std::atomic<bool> any_asked_{false};
  // The links; only the thread uses it.
  std::vector<Polled*> polled_;
  std::thread thread_;
  // Runs `change` on the thread and returns when it has run.
  void ask(std::function<void()> change);
};

}  // namespace leat::shm
