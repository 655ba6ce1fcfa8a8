#include "transport/shm/helped_copy.h"

#include <sched.h>

#include <algorithm>

#include "devices/base/stream_copy.h"

namespace leat::shm {
namespace {

// A part takes some tens of microseconds to copy, since the helper has links to serve, too.
constexpr size_t kPart = 512 << 10;

}  // namespace

// Cuts the next part off the rest. REQUIRES: mutex_ is locked.
HelpedCopy::Part HelpedCopy::take() {
  const Part part{rest_.to, rest_.from, std::min(rest_.bytes, kPart)};
  rest_ = {rest_.to + part.bytes, rest_.from + part.bytes, rest_.bytes - part.bytes};
  return part;
}

bool HelpedCopy::begin(void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (under_way_) return false;
  under_way_ = true;
  rest_ = {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes};
  return true;
}

void HelpedCopy::copy(void* to, const void* from, size_t bytes, const std::function<void()>& wake) {
  // Two values that are sent at the same time do not share the helper.
  if (bytes < kLeastHelped || !begin(to, from, bytes)) return stream_copy(to, from, bytes);
  wake();
  while (true) {
    std::unique_lock lock(mutex_);
    const Part part = take();
    // All bytes are taken, and every helper has finished its part.
    if (part.bytes == 0 && helpers_ == 0) {
      under_way_ = false;
      return;
    }
    lock.unlock();
    if (part.bytes > 0)
      stream_part(part.to, part.from, part.bytes);
    else
      sched_yield();  // a helper still copies the last part
  }
}

bool HelpedCopy::help() {
  Part part;
  {
    const std::lock_guard lock(mutex_);
    if (!under_way_) return false;
    part = take();
    if (part.bytes == 0) return false;
    // Counted under the same lock as the part is taken, so that the owner of the copy waits for it.
    ++helpers_;
  }
  stream_part(part.to, part.from, part.bytes);
  {
    const std::lock_guard lock(mutex_);
    --helpers_;
  }
  sched_yield();  // lets other threads of this core run first
  return true;
}

}  // namespace leat::shm
