// Copies of large values that two threads do together, for one alone does not use half of what the
// memory can do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace leat::shm {

// One copy at a time is helped with; another one that comes meanwhile is done alone.
// Threads: any.
class HelpedCopy {
 public:
  // What takes less long than it takes to wake somebody is done alone.
  static constexpr size_t kLeastHelped = 4 << 20;

  // As stream_copy(). `wake` is called once there is something to help with, if there is.
  void copy(void* to, const void* from, size_t bytes, const std::function<void()>& wake);

  // Copies a part of what is being copied, if there is one.
  // RETURNS: whether there was.
  bool help();

 private:
  struct Part {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;  // 0: nothing is left
  };
  Part take();
  bool begin(void* to, const void* from, size_t bytes);

  std::mutex mutex_;
  bool under_way_ = false;
  Part rest_;
  int helpers_ = 0;  // with a part in hand
};

}  // namespace leat::shm
