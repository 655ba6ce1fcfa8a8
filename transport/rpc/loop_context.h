// The inside of the rpc thread, for what runs on it. Includes KJ: for .cc files.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>

#include <cstdint>
#include <map>

#include "devices/base/log.h"

namespace leat {

// Something that lives on the loop until it is released, or until the loop stops.
class LoopOwned {
 public:
  virtual ~LoopOwned() noexcept(false) = default;  // KJ's destructors may throw
};

// Threads: the loop's.
struct LoopContext {
  kj::AsyncIoContext& io;
  kj::Timer& timer;
  kj::TaskSet& tasks;  // an error of a task is logged, and ends that task
  Logger log;

  // Objects by a number that is never used twice; destroyed in reverse order when the loop stops.
  uint64_t own(kj::Own<LoopOwned> object) {
    owned.emplace(next_id, kj::mv(object));
    return next_id++;
  }
  void release(uint64_t id) {
    const auto found = owned.find(id);
    if (found == owned.end()) return;
    auto object = kj::mv(found->second);  // out of the table first: it may look there
    owned.erase(found);
    KJ_IF_MAYBE (error, kj::runCatchingExceptions([&] { object = nullptr; })) {
      log.error("rpc: destroying an object failed: ", error->getDescription().cStr());
    }
  }

  uint64_t news = 0;  // counts messages and what is posted
  uint64_t next_id = 1;
  std::map<uint64_t, kj::Own<LoopOwned>> owned;
};

}  // namespace leat
