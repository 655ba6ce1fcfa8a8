#include "ops/state/queue_resource.h"

#include <charconv>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kAlignment = 64;

// Components begin at multiples of a cache line, which vector loads of any dtype accept.
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Status bad_component(std::string_view text) {
  return invalid_argument(
      cat("component: expected a type such as 'float[2,3]' or 'int64[]', received '", text, "'"));
}

}  // namespace

std::string QueueComponent::to_string() const { return cat(dtype, shape); }

Result<QueueComponent> parse_component(std::string_view text) {
  const size_t open = text.find('[');
  if (open == std::string_view::npos || text.back() != ']') return bad_component(text);
  const auto dtype = dtype_from_name(text.substr(0, open));
  if (!dtype || is_narrow(*dtype)) return bad_component(text);
  std::vector<int64_t> sizes;
  // An empty list is a scalar. A comma must be followed by a size.
  const char *at = text.data() + open + 1, *end = text.data() + text.size() - 1;
  while (at != end) {
    int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || (next != end && (*next != ',' || next + 1 == end))) {
      return bad_component(text);
    }
    sizes.push_back(size);
    at = next == end ? end : next + 1;
  }
  const auto shape = Shape::checked(sizes);
  if (!shape) return bad_component(text);
  return QueueComponent{*dtype, *shape};
}

Result<std::vector<QueueComponent>> parse_components(const std::vector<std::string>& texts) {
  std::vector<QueueComponent> components;
  for (const std::string& text : texts) {
    LEAT_ASSIGN_OR_RETURN(QueueComponent component, parse_component(text));
    components.push_back(component);
  }
  if (components.empty())
    return invalid_argument("components: expected at least one, received none");
  return components;
}

// Gives the claim back. Dequeues of a closed queue wait for pending enqueues, so they are notified.
void QueueResource::Pending::reset() {
  if (!shared_) return;
  uint64_t version;
  {
    std::lock_guard lock(shared_->mutex);
    --shared_->pending;
    version = ++shared_->version;
  }
  shared_->events.signal(version);
  shared_.reset();
}

Result<std::unique_ptr<QueueResource>> QueueResource::create(std::string name,
                                                             std::vector<QueueComponent> components,
                                                             int64_t capacity,
                                                             uint64_t memory_limit) {
  const auto refuse = [&](std::string_view what) {
    return resource_exhausted(cat("queue '", name, "': expected at most ",
                                  human_bytes(memory_limit), ", ", capacity, " elements of ", what,
                                  " are more"));
  };
  std::vector<size_t> offsets;
  size_t slot_bytes = 0;
  // Compares before it adds, so that the sum of the sizes cannot overflow.
  for (const QueueComponent& component : components) {
    if (component.bytes() > memory_limit || slot_bytes > memory_limit)
      return refuse(component.to_string());
    offsets.push_back(slot_bytes);
    slot_bytes += aligned(component.bytes());
  }
  const auto total = checked_mul(static_cast<int64_t>(slot_bytes), capacity);
  if (!total || static_cast<uint64_t>(*total) > memory_limit)
    return refuse(human_bytes(slot_bytes));
  auto bytes = Tensor::create(DType::u8, Shape{*total});
  if (!bytes.ok()) return bytes.status().while_doing(cat("making queue '", name, "'"));
  return std::unique_ptr<QueueResource>(new QueueResource(std::move(name), std::move(components),
                                                          capacity, std::move(*bytes),
                                                          std::move(offsets), slot_bytes));
}

QueueResource::QueueResource(std::string name, std::vector<QueueComponent> components,
                             int64_t capacity, Tensor bytes, std::vector<size_t> offsets,
                             size_t slot_bytes)
    : name_(std::move(name)),
      components_(std::move(components)),
      bytes_(std::move(bytes)),
      offsets_(std::move(offsets)),
      slot_bytes_(slot_bytes),
      closed_status_(cancelled(cat("queue '", name_, "' is closed"))),
      empty_status_(cancelled(cat("queue '", name_, "' is closed and empty"))),
      shared_(std::make_shared<Shared>()),
      slots_(static_cast<size_t>(capacity), Slot::empty) {}

int64_t QueueResource::size() const {
  std::lock_guard lock(shared_->mutex);
  return full_;
}

bool QueueResource::closed() const {
  std::lock_guard lock(shared_->mutex);
  return closed_;
}

// Every change after the caller's check has a version above the one that the caller saw, so the
// caller cannot miss it.
QueueResource::Attempt QueueResource::blocked() const {
  return {Progress::blocked, shared_->version + 1, {}};
}

// The signal is sent outside the lock. Timelines only rise, so the order of two signals is of no
// account.
void QueueResource::settle(size_t slot, Slot state) {
  uint64_t version;
  {
    std::lock_guard lock(shared_->mutex);
    slots_[slot] = state;
    full_ += state == Slot::full ? 1 : 0;
    version = ++shared_->version;
  }
  shared_->events.signal(version);
}

QueueResource::Attempt QueueResource::enqueue(std::span<const void* const> from, Pending& pending) {
  size_t slot;
  {
    std::lock_guard lock(shared_->mutex);
    const bool spared = pending.held() && !cancel_pending_;
    if (closed_ && !spared) return {Progress::failed, 0, closed_status_};
    if (slots_[tail_] != Slot::empty) {
      if (!pending.held()) {
        pending.shared_ = shared_;
        ++shared_->pending;
      }
      return blocked();
    }
    slot = tail_;
    slots_[slot] = Slot::writing;  // it takes the place of the pending enqueue from now on
    tail_ = (tail_ + 1) % slots_.size();
  }
  pending.reset();
  // The copy runs outside the lock. No other call touches a slot that is `writing`.
  for (size_t i = 0; i < components_.size(); ++i) {
    if (components_[i].bytes() > 0) {
      std::memcpy(slot_data(slot) + offsets_[i], from[i], components_[i].bytes());
    }
  }
  settle(slot, Slot::full);
  return {};
}

QueueResource::Attempt QueueResource::dequeue(std::span<void* const> to) {
  size_t slot;
  {
    std::lock_guard lock(shared_->mutex);
    if (slots_[head_] != Slot::full) {
      // An element may come if a slot is being written or an enqueue is pending.
      const bool coming =
          slots_[head_] == Slot::writing || (!cancel_pending_ && shared_->pending > 0);
      if (closed_ && !coming) return {Progress::failed, 0, empty_status_};
      return blocked();
    }
    // An element leaves the count at once, while its slot stays taken until the copy is done.
    slot = head_;
    slots_[slot] = Slot::reading;
    head_ = (head_ + 1) % slots_.size();
    --full_;
  }
  for (size_t i = 0; i < std::min(components_.size(), to.size()); ++i) {
    if (to[i] && components_[i].bytes() > 0) {
      std::memcpy(to[i], slot_data(slot) + offsets_[i], components_[i].bytes());
    }
  }
  settle(slot, Slot::empty);
  return {};
}

// All waiting operations are notified: they fail on their next attempt, or go on if they are
// spared.
void QueueResource::close(bool cancel_pending) {
  uint64_t version;
  {
    std::lock_guard lock(shared_->mutex);
    closed_ = true;
    cancel_pending_ = cancel_pending_ || cancel_pending;
    version = ++shared_->version;
  }
  shared_->events.signal(version);
}

}  // namespace leat
