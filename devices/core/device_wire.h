// Wires carry values from the memory of one device to that of another, of another process or
// machine, without a copy in the host's memory between.
//
// A wire has one direction and two ends. The receiving end is made first, for memory that exists.
// Its offer, a few bytes, goes to the other process by a link of the transport, and the sending end
// is made of it. Both ends are connected then. For each value the sending end copies bytes to an
// offset of that memory, and the receiving end is told so by the link:
//
//   ipc   the sending device writes into the memory itself; the link announces what has arrived
//   nccl  both devices take part; the link announces what is on its way, and the receiving end
//         takes the values in the order in which the sending end was given them
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "devices/core/device.h"

namespace leat {

enum class WireKind : uint8_t { ipc, nccl };

// "ipc", "nccl": in settings and messages.
constexpr std::string_view name_of(WireKind kind) { return kind == WireKind::ipc ? "ipc" : "nccl"; }
// Null for another word.
inline std::optional<WireKind> find_wire_kind(std::string_view name) {
  for (const WireKind kind : {WireKind::ipc, WireKind::nccl}) {
    if (name_of(kind) == name) return kind;
  }
  return std::nullopt;
}
// Whether the receiving end takes part in each transfer: values are announced before they travel.
constexpr bool announces_first(WireKind kind) { return kind == WireKind::nccl; }

// The longest offer, in bytes.
inline constexpr size_t kMostOfferBytes = 240;

// Both ends of a wire have this. Failure is sticky: of a device, of a library, of the other end, or
// by stop(). Threads: any, except that one thread at a time gives an end its values. Callbacks of
// done() run on a thread of the wire's, which may wait in them, or on that of a call.
class DeviceWire {
 public:
  // Ends the wire, and waits until no callback of done() runs. No such callback calls it.
  virtual ~DeviceWire() = default;
  // Blocks until the other end is connected, too, or stop() is called. Both ends of two wires
  // between the same processes are connected in the same order. deadline_exceeded; unavailable with
  // the library's reason; the cause of stop().
  virtual Status connect(std::chrono::steady_clock::time_point deadline) = 0;
  // Rises by one with each value that is done: its bytes have left, or are there. Values are done
  // in the order in which the end was given them. When it fails, the device of this end reads and
  // writes no memory for the wire any more, or has failed. The memory of the receiving end of an
  // ipc wire may be written until the sending end is destroyed, too, or its process has ended.
  virtual Timeline& done() = 0;
  // Begins to fail the wire with `cause`, unless it has failed before. Does not block. A
  // sending end that stops may take values with it that are done there and not yet at the other
  // end. REQUIRES: no lock is held that a callback of done() takes.
  virtual void stop(const Status& cause) = 0;
};

class WireSender : public DeviceWire {
 public:
  // Enqueues a copy of `bytes` bytes at `from`, in the memory of this device, to `offset` of the
  // memory of the other end. They must stay as they are until the value is done. Does not block.
  // REQUIRES: the bytes are there: the work that makes them is done. bytes > 0.
  virtual void send(const void* from, size_t offset, size_t bytes) = 0;
};

class WireReceiver : public DeviceWire {
 public:
  // The bytes of which the sending end is made, at most kMostOfferBytes.
  virtual const std::string& offer() const = 0;
  // A value of `bytes` bytes was announced for `offset` of the memory. Does not block.
  // REQUIRES: values are announced in the order in which the sending end was given them. bytes > 0.
  virtual void receive(size_t offset, size_t bytes) = 0;
};

}  // namespace leat
