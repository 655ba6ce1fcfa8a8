// The inside of the rpc thread, for code that runs on it. Includes KJ: for .cc files.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>

#include <cstdint>
#include <map>

#include "devices/base/log.h"

namespace leat {

// An object that lives on the loop until it is released, or until the loop stops. Destructors of KJ
// may throw.
class LoopOwned {
 public:
  virtual ~LoopOwned() noexcept(false) = default;
};

// The loop's own members. The thread makes the context and owns it.
// Threads: the loop's.
struct LoopContext {
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  // An error of a task is logged, and ends that task.
  kj::TaskSet& tasks;
  Logger log;

  // Takes an object and returns its number, which is never used again. When the loop stops, the
  // objects that are left are destroyed in reverse order.
  uint64_t own(kj::Own<LoopOwned> object) {
    owned.emplace(next_id, kj::mv(object));
    return next_id++;
  }
  // Destroys an object; nothing if it is gone. The object leaves the table first, because its
  // destructor may look there.
  void release(uint64_t id) {
    const auto found = owned.find(id);
    if (found == owned.end()) return;
    auto object = kj::mv(found->second);
    owned.erase(found);
    KJ_IF_MAYBE (error, kj::runCatchingExceptions([&] { object = nullptr; })) {
      log.error("rpc: destroying an object failed: ", error->getDescription().cStr());
    }
  }

  // Counts messages and posts, so that the thread knows when a look has found something.
  uint64_t news = 0;
  uint64_t next_id = 1;
  std::map<uint64_t, kj::Own<LoopOwned>> owned;
};

}  // namespace leat
