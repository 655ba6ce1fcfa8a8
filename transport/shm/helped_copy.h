// Copies of large values that two threads do together. One thread alone does not reach half of the
// speed of the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace leat::shm {

// A copy that other threads can take part in. Helpers work on one copy at a time; a second one that
// comes meanwhile is done by its caller alone.
// Threads: any.
class HelpedCopy {
 public:
  // A smaller copy takes less time than waking a thread, so its caller does it alone.
  static constexpr size_t kLeastHelped = 4 << 20;

  // Copies as stream_copy() does, and calls `wake` when there is something to help with. Returns
  // when all parts are copied, also those that a helper took.
  void copy(void* to, const void* from, size_t bytes, const std::function<void()>& wake);

  // Copies one part of the copy that is under way. Returns false if there is none.
  bool help();

 private:
  // A range that one thread copies.
  struct Part {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    // 0 if nothing is left.
    size_t bytes = 0;
  };
  // Takes the next part of rest_. REQUIRES: mutex_ is locked.
  Part take();
  // Makes this copy the one that is helped with. False if there is another.
  bool begin(void* to, const void* from, size_t bytes);

  std::mutex mutex_;
  bool under_way_ = false;
  Part rest_;
  // The number of helpers that have a part in hand.
  int helpers_ = 0;
};

}  // namespace leat::shm
