// What a device is: memory, an in-order queue of work, and timelines that say how far it came.
//
// These contracts are those of a CUDA stream and its events; the CPU is the easy case. Nothing
// above this folder knows which kind of device it drives.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

class Device;

// A range of a device's memory. Freed when destroyed.
// Threads: any; the bytes themselves are ordered by queues and timelines.
class Buffer {
 public:
  virtual ~Buffer() = default;
  // Device address. Host code may touch it only if device().host_visible().
  virtual void* data() const = 0;
  virtual size_t size() const = 0;  // bytes
};

// A counter that only rises. Work "completes at (timeline, value)". Failure is a value: it is
// sticky, the first one wins, and it releases everybody who waits, with its Status.
// Threads: all members, from any thread. Callbacks run on the thread that signals, under no lock.
class Timeline {
 public:
  using Callback = std::function<void(const Status&)>;

  Timeline() { waiters_.reserve(4); }  // so that waiting allocates nothing
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  bool reached(uint64_t value) const { return this->value() >= value; }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status status() const;

  // Raises the value to `value` if it is lower.
  void signal(uint64_t value);
  void fail(Status status);

  // Calls `callback` exactly once: ok when value() >= value, else the failure. At once if either
  // already holds.
  void when(uint64_t value, Callback callback);
  // Blocks until reached (ok), failed (its status) or past `deadline` (deadline_exceeded).
  Status wait(uint64_t value, std::chrono::steady_clock::time_point deadline) const;

 private:
  struct Waiter {
    uint64_t value;
    Callback callback;
  };
  std::atomic<uint64_t> value_{0};
  std::atomic<bool> failed_{false};
  std::atomic<int> sleepers_{
      0};  // waiters and blocked threads; signal() takes the lock only if any
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  Status status_;
  std::vector<Waiter> waiters_;
};

// An in-order stream of work on one device. Work enqueued first completes first.
// Threads: one thread enqueues at a time.
class Queue {
 public:
  virtual ~Queue() = default;
  // Enqueues `work`. On the CPU it runs before enqueue returns; on asynchronous devices it runs
  // later, on the device's own thread or stream. A failure of the work fails timeline().
  virtual void enqueue(std::function<Status()> work) = 0;
  // Enqueues a mark and returns the value of timeline() at which everything before it is done.
  virtual uint64_t mark() = 0;
  virtual Timeline& timeline() = 0;
  // Work enqueued later starts only after (timeline, value).
  virtual void wait_for(Timeline& timeline, uint64_t value) = 0;
};

// One device of one process. Owned by the worker.
// Threads: any, but for what Queue says.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view kind() const = 0;    // "cpu", "cuda": picks the kernels
  virtual std::string name() const = 0;         // "cpu:0"
  virtual std::string description() const = 0;  // the model, for people: "AMD EPYC 9454P"
  virtual uint64_t memory_bytes() const = 0;    // what a plan may use
  virtual bool host_visible() const = 0;        // may host code dereference Buffer::data()?
  virtual size_t alignment() const = 0;         // bytes, of every plan offset

  // Zeroed memory, pages touched. resource_exhausted when there is no room.
  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes) = 0;
  virtual Queue& queue() = 0;
  // Enqueue copies between host and device memory; complete in queue order. The host range must
  // stay until the queue's timeline passes them.
  virtual void copy_to_device(void* device, const void* host, size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, size_t bytes) = 0;
};

}  // namespace leat
