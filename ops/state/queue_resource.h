// A first-in first-out queue of tuples of tensors, through which steps of one graph pass work to
// steps of another. It never blocks a thread: an operation that must wait returns when to try
// again.
//
//   QueueResource::Pending pending;                       // one for each caller
//   auto attempt = queue.enqueue(addresses, pending);
//   if (attempt.progress == Progress::blocked)            // full: try again later
//     queue.events().when(attempt.await, [&](const Status&) { ... });
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/core/device.h"
#include "devices/core/tensor.h"
#include "ops/graph/kernel.h"
#include "ops/state/resources.h"

namespace leat {

// The type of one tensor of each element. All elements of a queue have the same types.
struct QueueComponent {
  DType dtype = DType::invalid;
  Shape shape;
  bool operator==(const QueueComponent&) const = default;
  // Of the tensor; 0 if it has no elements.
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * dtype_size(dtype); }
  std::string to_string() const;  // "float[2,3]"
};

// Parses "float[2,3]" or "int64[]", a scalar. The sizes are constant and the text has no blanks.
// invalid_argument shows `text`.
Result<QueueComponent> parse_component(std::string_view text);
// Parses all of them, in order. The first error is returned; invalid_argument for an empty list,
// too.
Result<std::vector<QueueComponent>> parse_components(const std::vector<std::string>& texts);

// JobResources owns it. All memory is allocated at the start; operations allocate nothing.
//
// An element is copied outside the lock: its slot is reserved first, and counts as neither free nor
// full until the copy is done. Elements leave in the order in which their slots were reserved.
//
// Threads: any, at the same time.
class QueueResource final : public Resource {
  enum class Slot : uint8_t { empty, writing, full, reading };
  // The part that waiting operations may hold after the queue is gone.
  struct Shared {
    std::mutex mutex;
    uint64_t version = 0;  // of the last change; `events` is set to it outside the lock
    int64_t pending = 0;   // enqueues that wait
    Timeline events;
  };

 public:
  // Makes an empty, open queue of at most `capacity` elements. Each component is aligned to 64
  // bytes. resource_exhausted if the memory for all elements exceeds `memory_limit` bytes, or if
  // there is none. REQUIRES: capacity >= 1 and at least one component.
  static Result<std::unique_ptr<QueueResource>> create(std::string name,
                                                       std::vector<QueueComponent> components,
                                                       int64_t capacity, uint64_t memory_limit);

  std::string_view kind() const override { return "queue"; }
  const std::string& name() const { return name_; }
  const std::vector<QueueComponent>& components() const { return components_; }
  int64_t capacity() const { return static_cast<int64_t>(slots_.size()); }
  // The number of elements that a Dequeue could take now. Elements that are being copied do not
  // count. Another thread may change it at once.
  int64_t size() const;
  // True after the first close().
  bool closed() const;
  // A timeline that rises with every change after which a blocked operation may succeed.
  Timeline& events() { return shared_->events; }

  // The result of an operation. done; blocked: nothing was done, try again when events() reaches
  // `await`; failed: `status`. A retry may be blocked again, since another caller may be quicker:
  // waiting callers have no order.
  struct Attempt {
    Progress progress = Progress::done;
    uint64_t await = 0;
    Status status;
  };

  // An enqueue that was blocked and not yet retried. While it exists, a Dequeue of the closed and
  // empty queue waits for it. It may outlive the queue.
  class Pending {
   public:
    Pending() = default;
    ~Pending() { reset(); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    // True from a blocked attempt until the enqueue is done or the claim is given back.
    bool held() const { return shared_ != nullptr; }
    // Gives the claim back: the enqueue will not be retried. Dequeues that wait for it are
    // notified. Without a claim it does nothing. Threads: the caller of enqueue().
    void reset();

   private:
    friend class QueueResource;
    std::shared_ptr<Shared> shared_;
  };

  // Copies component i from from[i]. If all slots are taken, the attempt is blocked and sets
  // `pending`; the next attempt of the same caller must pass it, so that it may succeed although
  // the queue was closed in between. If the queue is closed, the error is cancelled, unless
  // `pending` is set and close() did not cancel it. REQUIRES: an address for each component;
  // `pending` belongs to this queue alone.
  Attempt enqueue(std::span<const void* const> from, Pending& pending);
  // Copies component i to to[i], or nowhere if that is null or past the end. The error is cancelled
  // if the queue is closed, empty, and no enqueue is pending.
  Attempt dequeue(std::span<void* const> to);
  // No enqueue begins after this call. With `cancel_pending`, blocked enqueues fail too. It may be
  // called again.
  void close(bool cancel_pending);

 private:
  QueueResource(std::string name, std::vector<QueueComponent> components, int64_t capacity,
                Tensor bytes, std::vector<size_t> offsets, size_t slot_bytes);
  std::byte* slot_data(size_t slot) const { return bytes_.data<std::byte>() + slot * slot_bytes_; }
  // Ends a copy: sets the slot to `state` and notifies events().
  void settle(size_t slot, Slot state);
  Attempt blocked() const;  // REQUIRES: the lock is held

  const std::string name_;
  const std::vector<QueueComponent> components_;
  const Tensor bytes_;                 // of all slots
  const std::vector<size_t> offsets_;  // of each component in its slot
  const size_t slot_bytes_;
  const Status closed_status_, empty_status_;  // made early: failing allocates nothing
  const std::shared_ptr<Shared> shared_;

  // Guarded by shared_->mutex.
  std::vector<Slot> slots_;
  size_t head_ = 0, tail_ = 0;  // the next slot to read, and to write
  int64_t full_ = 0;
  bool closed_ = false, cancel_pending_ = false;
};

}  // namespace leat
