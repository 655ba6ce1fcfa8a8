// How a partition pushes values to another one. The whole of what a transport must do: the plan has
// settled who sends what to whom, in which order, how large, and into which memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "devices/base/status.h"
#include "transport/slots.h"

namespace leat {

// One direction between two partitions of one run.
// Threads: push() from any compute thread, one edge by one thread at a time.
class Channel {
 public:
  virtual ~Channel() = default;

  // Sends the value of the edge's `turn`-th step. The bytes may be reused when push returns; that
  // may take as long as the peer takes to read a large value.
  // REQUIRES: credit(edge).value() >= turn + 1 - kSlotDepth: the executor waits for that first.
  // unavailable if the peer is gone; the failure is sticky.
  virtual Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) = 0;

  // push() that never waits: the bytes stay as they are until sent(edge) is at turn + 1.
  virtual Status push_in_place(uint32_t edge, uint64_t turn, const void* data, size_t bytes) {
    return push(edge, turn, data, bytes);
  }
  // At n when the bytes of n values have left. A channel whose push() is always done when it
  // returns has none.
  virtual Timeline* sent(uint32_t /*edge*/) { return nullptr; }

  // Where the producer may write the value of `turn` itself, so that the push of those very bytes
  // copies nothing; null where there is no such place. Turns of one parity share a place that never
  // changes: it may be asked for early, and written to with credit, as for push().
  virtual void* place(uint32_t /*edge*/, uint64_t /*turn*/) { return nullptr; }

  // Small values that are pushed, by any thread, between hold() and its flush() travel together.
  // Pairs nest. Nobody waits while holding. Else, a push goes at once.
  virtual void hold() {}
  virtual Status flush() { return {}; }

  // Rises with every value of the edge that the receiver is done with.
  virtual Timeline& credit(uint32_t edge) = 0;

  // Tells the peer that the run has failed here; its waits end with `cause`. When it returns, no
  // bytes that were pushed in place are read any more.
  virtual void abort(const Status& cause) = 0;
};

}  // namespace leat
