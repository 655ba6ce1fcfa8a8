// How a partition pushes values to another one. A transport has to do this and no more: the plan
// has settled which partition sends which value to which other one, in which order, of what size,
// and into which memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "devices/base/status.h"
#include "transport/slots.h"

namespace leat {

// One direction between two partitions of one run. The executor owns neither end; a Link is the
// channel of one end, together with what comes in.
// Threads: push() from any compute thread, and one thread at a time for one edge.
class Channel {
 public:
  virtual ~Channel() = default;

  // Sends the value of the edge's `turn`-th step. The bytes may be reused when push() returns, and
  // that may take as long as the peer takes to read a large value.
  // REQUIRES: credit(edge).value() >= turn + 1 - kSlotDepth; the executor waits for that first.
  // Fails with unavailable if the peer is gone. The failure is sticky.
  virtual Status push(uint32_t edge, uint64_t turn, const void* data, size_t bytes) = 0;

  // A push that never waits. The bytes must stay as they are until sent(edge) is at turn + 1.
  virtual Status push_in_place(uint32_t edge, uint64_t turn, const void* data, size_t bytes) {
    return push(edge, turn, data, bytes);
  }
  // A timeline that is at n when the bytes of n values have left. Null if push() of this channel is
  // always done when it returns.
  virtual Timeline* sent(uint32_t /*edge*/) { return nullptr; }

  // True if values of the edge are pushed in place, by push_in_place() alone, and lie in the memory
  // of the sender's device; else they lie in the host's. After an abort() their bytes are read
  // until sent() fails.
  virtual bool takes_device_memory(uint32_t /*edge*/) const { return false; }

  // The place where the producer may write the value of `turn` itself, so that the push of those
  // bytes copies nothing; null if there is none. All turns of one parity share a place that never
  // changes. A caller may ask for it early, and may write there when it has credit as for push().
  virtual void* place(uint32_t /*edge*/, uint64_t /*turn*/) { return nullptr; }

  // Small values that any thread pushes between hold() and its flush() travel together; otherwise
  // each push goes at once. Pairs nest. No thread waits for anything between the two.
  virtual void hold() {}
  virtual Status flush() { return {}; }

  // Rises by one with every value of the edge that the receiver is done with.
  virtual Timeline& credit(uint32_t edge) = 0;

  // Tells the peer that the run has failed here; its waits end with `cause`. After the return, no
  // bytes that were pushed in place are read any more.
  virtual void abort(const Status& cause) = 0;
};

}  // namespace leat
