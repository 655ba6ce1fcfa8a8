// A first-in first-out queue of tuples of tensors: how steps of one graph hand work to steps of
// another. It never makes a thread wait: an operation that cannot go on says when to try again.
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

// The type of one tensor of each element.
struct QueueComponent {
  DType dtype = DType::invalid;
  Shape shape;
  bool operator==(const QueueComponent&) const = default;
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * dtype_size(dtype); }
  std::string to_string() const;  // "float[2,3]"
};

// "float[2,3]", "int64[]". invalid_argument says what is wrong with `text`.
Result<QueueComponent> parse_component(std::string_view text);
Result<std::vector<QueueComponent>> parse_components(const std::vector<std::string>& texts);

// Owned by JobResources. All memory is there from the start; operations allocate nothing.
//
// An element is copied outside the lock: its slot is reserved first, and counts as neither free nor
// full until the copy is done. Elements leave in the order in which their slots were reserved.
//
// Threads: any, at the same time.
class QueueResource final : public Resource {
  enum class Slot : uint8_t { empty, writing, full, reading };
  // What those who wait may hold longer than the queue.
  struct Shared {
    std::mutex mutex;
    uint64_t version = 0;  // of the last change; `events` follows it outside the lock
    int64_t pending = 0;   // enqueues
    Timeline events;
  };

 public:
  // resource_exhausted if `capacity` elements exceed `memory_limit` bytes. REQUIRES: capacity >= 1.
  static Result<std::unique_ptr<QueueResource>> create(std::string name,
                                                       std::vector<QueueComponent> components,
                                                       int64_t capacity, uint64_t memory_limit);

  std::string_view kind() const override { return "queue"; }
  const std::string& name() const { return name_; }
  const std::vector<QueueComponent>& components() const { return components_; }
  int64_t capacity() const { return static_cast<int64_t>(slots_.size()); }
  int64_t size() const;  // elements that a Dequeue could take now
  bool closed() const;
  // Rises with every change that may let a blocked operation go on.
  Timeline& events() { return shared_->events; }

  // done; blocked: try again when events() reaches `await`, nothing was done; failed: `status`.
  struct Attempt {
    Progress progress = Progress::done;
    uint64_t await = 0;
    Status status;
  };

  // An enqueue that was blocked and has not gone on yet. As long as it is held, a Dequeue of the
  // closed and empty queue waits for it. May outlive the queue.
  class Pending {
   public:
    Pending() = default;
    ~Pending() { reset(); }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    bool held() const { return shared_ != nullptr; }
    void reset();

   private:
    friend class QueueResource;
    std::shared_ptr<Shared> shared_;
  };

  // Copies component i from from[i]. A blocked attempt takes `pending`; the next one of the same
  // caller must bring it, so that it may go on although the queue was closed in between. Fails with
  // cancelled when the queue is closed, unless pending and close() spared it.
  // REQUIRES: an address for each component; `pending` belongs to this queue alone.
  Attempt enqueue(std::span<const void* const> from, Pending& pending);
  // Copies component i to to[i], or nowhere if that is null or past the end. Fails with cancelled
  // when the queue is closed, empty, and no enqueue is pending.
  Attempt dequeue(std::span<void* const> to);
  // No enqueue begins after this. With `cancel_pending`, blocked ones fail too. May be repeated.
  void close(bool cancel_pending);

 private:
  QueueResource(std::string name, std::vector<QueueComponent> components, int64_t capacity,
                Tensor bytes, std::vector<size_t> offsets, size_t slot_bytes);
  std::byte* slot_data(size_t slot) const { return bytes_.data<std::byte>() + slot * slot_bytes_; }
  // Ends a copy: the slot becomes `state`, and the world may know.
  void settle(size_t slot, Slot state);
  Attempt blocked() const;  // REQUIRES: the lock is held

  const std::string name_;
  const std::vector<QueueComponent> components_;
  const Tensor bytes_;                 // of all slots
  const std::vector<size_t> offsets_;  // of each component in its slot
  const size_t slot_bytes_;
  const Status closed_status_, empty_status_;  // made early: failing allocates nothing either
  const std::shared_ptr<Shared> shared_;

  // Under shared_->mutex.
  std::vector<Slot> slots_;
  size_t head_ = 0, tail_ = 0;  // the next slot to read, to write
  int64_t full_ = 0;
  bool closed_ = false, cancel_pending_ = false;
};

}  // namespace leat
