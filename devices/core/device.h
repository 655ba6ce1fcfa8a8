// A device: memory, in-order queues of work, and timelines that say how far the work has come.
//
// The contracts are those of a CUDA stream and its events; the CPU is the easy case of them. Code
// above this folder does not know which kind of device it drives.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

class Device;
class KernelWays;
class WireReceiver;
class WireSender;
enum class WireKind : uint8_t;

// A range of a device's memory. Its destructor frees it.
// Threads: any; queues and timelines order the accesses to the bytes.
class Buffer {
 public:
  virtual ~Buffer() = default;
  // The address on the device. Host code may read and write there only if Device::host_visible().
  virtual void* data() const = 0;
  // In bytes.
  virtual size_t size() const = 0;
};

// A counter that only rises. Work completes at a (timeline, value). Failure is sticky: the first
// one stays, and every waiter is released with its Status.
// Threads: any, for all members. Callbacks run on the thread that signals or fails, under no lock.
// The owner destroys a timeline when no other thread calls it any more.
class Timeline {
 public:
  using Callback = std::function<void(const Status&)>;

  // Reserves room for a few waiters, so that when() allocates nothing for them.
  Timeline() { waiters_.reserve(4); }
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  bool reached(uint64_t value) const { return this->value() >= value; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Ok, or the failure.
  Status status() const;

  // Raises the value to `value` if it is lower.
  void signal(uint64_t value);
  // Fails the timeline, unless it has failed before. REQUIRES: `status` is not ok.
  void fail(Status status);

  // Calls `callback` exactly once: with ok when value() >= value, else with the failure. The call
  // is at once, on this thread, if either already holds.
  void when(uint64_t value, Callback callback);
  // Blocks until the value is reached (ok), the timeline fails (its status) or `deadline` passes
  // (deadline_exceeded).
  Status wait(uint64_t value, std::chrono::steady_clock::time_point deadline) const;

 private:
  struct Waiter {
    uint64_t value;
    Callback callback;
  };
  std::atomic<uint64_t> value_{0};
  std::atomic<bool> failed_{false};
  // The number of waiters and of blocked threads. signal() takes the lock only if there are any.
  std::atomic<int> sleepers_{0};
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Status status_;
  std::vector<Waiter> waiters_;
};

// Work of a queue that was recorded, to be enqueued as a whole as often as it is needed. Destroy it
// when the queue has done it. Threads: as its queue.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void enqueue() = 0;
};

// Measures by the device's clock how long pieces of a queue's work take. Destroy it before its
// queue. Threads: as its queue.
class Stopwatch {
 public:
  struct Sum {
    double seconds = 0;
    uint64_t rounds = 0;  // pairs of start() and stop()
  };
  virtual ~Stopwatch() = default;
  // Enqueue readings of the clock. REQUIRES: they alternate, and a start() comes first.
  virtual void start() = 0;
  virtual void stop() = 0;
  // The rounds that are done. A round that begins while many before it are not done is left out.
  virtual Sum sum() = 0;
};

// An in-order stream of work on one device: work that was enqueued first completes first. The
// device owns it.
// Threads: any, because all runs and jobs of a device share its queues.
class Queue {
 public:
  virtual ~Queue() = default;
  // Enqueues `work`. A CPU runs it before enqueue() returns. An asynchronous device runs it later,
  // on its own thread or stream. A failure of the work fails timeline(), and work behind it does
  // not run.
  virtual void enqueue(std::function<Status()> work) = 0;
  // Enqueues a mark. Returns the value of timeline() at which all work before the mark is done.
  virtual uint64_t mark() = 0;
  // Rises to each mark as the work before it is done. Lives as long as the queue.
  virtual Timeline& timeline() = 0;
  // Work that is enqueued later starts only after (timeline, value). If that timeline fails, this
  // queue's fails with it.
  virtual void wait_for(Timeline& timeline, uint64_t value) = 0;

  // Records what this thread's kernels enqueue from now on, in place of doing it; other threads
  // that use the queue wait meanwhile. False if the device does not record.
  virtual bool begin_recording() { return false; }
  // Within a recording: what is enqueued from here to the next call is a piece. It may be done as
  // soon as those pieces are done that `after` names; they are counted from 0. REQUIRES: all work
  // of a recording is in a piece.
  virtual void begin_piece(std::span<const uint32_t> /*after*/) {}
  // Ends the recording. Null if something was enqueued that cannot be recorded; none of it is done
  // then, and the queue is as it was before. REQUIRES: begin_recording() returned true.
  virtual std::unique_ptr<Recording> end_recording() { return nullptr; }

  // Null if the device has no clock of its own.
  virtual std::unique_ptr<Stopwatch> make_stopwatch() { return nullptr; }

  // Blocks until all that is enqueued is done (ok), the queue fails (its status) or `deadline`
  // passes (deadline_exceeded).
  Status settle(std::chrono::steady_clock::time_point deadline) {
    return timeline().wait(mark(), deadline);
  }
};

// The queues of a device.
enum class QueueFor : uint8_t { compute, copies_in, copies_out };

// One device of one process; some have a memory of their own. The process makes it before the runs
// that use it, and destroys it after them. Threads: any.
class Device {
 public:
  virtual ~Device() = default;

  // "cpu" or "cuda". Kernels are registered for a kind.
  virtual std::string_view kind() const = 0;
  // The last part of its name in plans: a word and its index in this process, "cpu:0", "gpu:0".
  virtual std::string name() const = 0;
  // The model, for people: "AMD EPYC 9454P".
  virtual std::string description() const = 0;
  // The memory that a plan may use.
  virtual uint64_t memory_bytes() const = 0;
  // Whether host code may dereference Buffer::data().
  virtual bool host_visible() const = 0;
  // Every offset of a plan is a multiple of this many bytes.
  virtual size_t alignment() const = 0;

  // Zeroed memory, its pages touched, so that no step pays for page faults. resource_exhausted if
  // there is no room. Freed by the buffer's destructor, which must come before the device's.
  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes) = 0;
  // Zeroed memory of the host, for copies to and from the device: memory in which those are fast.
  // Host code may always read and write it. Otherwise like allocate().
  virtual Result<std::unique_ptr<Buffer>> allocate_host(size_t bytes) = 0;
  // The work of one queue is done in its order; that of several at the same time, except where one
  // waits for another: see Queue::wait_for(). A device that does one thing at a time has one queue
  // for everything.
  virtual Queue& queue(QueueFor use = QueueFor::compute) = 0;
  // Enqueue copies between the memories of host and device in queue(copies_in) and
  // queue(copies_out). The ranges must stay valid until the queue's timeline has passed the copy.
  // `host` may also be memory of the device that a wire fills (devices/core/device_wire.h).
  virtual void copy_to_device(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;
  // Enqueues a copy within the device's memory in queue(compute).
  virtual void copy_within(void* to, const void* from, size_t bytes) = 0;

  // Ok if the device has wires of that kind (devices/core/device_wire.h); else unavailable, with
  // the reason.
  virtual Status has_wires(WireKind kind);
  // Make the ends of a wire. `into`, memory of this device that allocate() returned, outlives the
  // receiving end, and the device both. `offer` is that of the receiving end, of any process.
  // unavailable, with the reason; invalid_argument if `offer` is none of that kind.
  virtual Result<std::unique_ptr<WireReceiver>> make_wire_receiver(WireKind kind, Buffer& into);
  virtual Result<std::unique_ptr<WireSender>> make_wire_sender(WireKind kind,
                                                               std::string_view offer);

  // Counts of how its kernels compute, which may outlive the device; null if it has one way only.
  virtual std::shared_ptr<KernelWays> ways() const { return nullptr; }
};

}  // namespace leat
