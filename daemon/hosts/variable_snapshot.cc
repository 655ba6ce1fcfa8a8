#include "daemon/hosts/variable_snapshot.h"

#include <algorithm>
#include <future>
#include <span>
#include <utility>

#include "devices/base/stream_copy.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"

namespace leat {
namespace {

// Copying fewer bytes takes less time than starting a thread.
constexpr size_t kBytesOfThread = 8 << 20;
constexpr size_t kMostThreads = 4;  // more do not increase the bandwidth

// Describes a range of bytes to copy.
struct Piece {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

// The variable and the table that it is in; null if there is none of that name.
std::pair<JobResources*, const Variable*> find_variable(const JobTables& tables,
                                                        const std::string& name) {
  for (JobResources* table : tables) {
    if (const Variable* found = table->find_variable(name)) return {table, found};
  }
  return {nullptr, nullptr};
}

// Several threads copy faster than one, and at a fence the cores are idle. stream_copy() leaves the
// data of the next step in the caches.
void copy_all(std::vector<Piece> pieces) {
  size_t total = 0;
  for (const Piece& piece : pieces) total += piece.bytes;
  const size_t threads =
      std::clamp<size_t>(total / kBytesOfThread, 1,
                         std::min<size_t>(kMostThreads, static_cast<size_t>(cpu::usable_cores())));
  // Each thread gets the same number of bytes, so a large variable may be split between threads.
  const size_t share = total / threads + 1;
  std::vector<std::future<void>> others;
  size_t next = 0;
  for (size_t t = 0; t < threads; ++t) {
    std::vector<Piece> own;
    for (size_t room = share; room > 0 && next < pieces.size();) {
      Piece& piece = pieces[next];
      const size_t bytes = std::min(room, piece.bytes);
      own.push_back({piece.to, piece.from, bytes});
      piece = {piece.to + bytes, piece.from + bytes, piece.bytes - bytes};
      room -= bytes;
      if (piece.bytes == 0) ++next;
    }
    const auto copy = [](const std::vector<Piece>& all) {
      for (const Piece& piece : all) stream_copy(piece.to, piece.from, piece.bytes);
    };
    // The calling thread copies the last share. The destructors of the futures wait for the others.
    if (t + 1 == threads)
      copy(own);
    else
      others.push_back(std::async(std::launch::async, copy, std::move(own)));
  }
}

}  // namespace

// Returns the last copy, or a new one if that has readers or is no copy.
std::shared_ptr<VariableSnapshot::Copy> VariableSnapshot::writable() {
  const std::lock_guard lock(mutex_);
  if (copy_) {
    const std::lock_guard readers(copy_->mutex);
    if (copy_->readers > 0 || copy_->lent) copy_.reset();
  }
  auto copy = std::exchange(copy_, nullptr);  // so that no reader begins
  return copy ? copy : std::make_shared<Copy>();
}

Status VariableSnapshot::take(const JobTables& tables, int64_t step,
                              const std::vector<std::string>& names) {
  // One thread at a time makes a copy; readers of the last snapshot go on meanwhile.
  const std::lock_guard taking(taking_);
  const std::shared_ptr<Copy> copy = writable();
  // The old tensors are kept aside, and those of equal name and type are used again.
  Variables before = std::exchange(copy->values, {});
  std::vector<Piece> pieces;
  for (const std::string& name : names) {
    const auto [table, variable] = find_variable(tables, name);
    if (!variable)
      return failed_precondition(cat("a snapshot: expected a variable '", name, "', found none"));
    Tensor& value = copy->values[name];
    if (const auto old = before.find(name); old != before.end()) value = old->second;
    if (value.dtype() != variable->dtype() || value.shape() != variable->shape()) {
      LEAT_ASSIGN_OR_RETURN(value, Tensor::create(variable->dtype(), variable->shape()));
    }
    if (value.bytes() == 0) continue;
    if (table->device().host_visible()) {
      pieces.push_back({static_cast<std::byte*>(value.raw()),
                        static_cast<const std::byte*>(variable->data()), value.bytes()});
    } else {
      table->device().copy_to_host(value.raw(), variable->data(), value.bytes());
    }
  }
  copy_all(std::move(pieces));
  LEAT_RETURN_IF_ERROR(await_copies(tables, QueueFor::copies_out));
  // The copy becomes visible only now, when all of it is there. After an error there is no
  // snapshot.
  show(copy, step);
  return {};
}

void VariableSnapshot::show(std::shared_ptr<Copy> copy, int64_t step) {
  copy->step = step;
  const std::lock_guard lock(mutex_);
  copy_ = std::move(copy);
}

Status VariableSnapshot::lend(const JobTables& tables, int64_t step,
                              const std::vector<std::string>& names) {
  const bool all_visible = std::all_of(tables.begin(), tables.end(), [](JobResources* table) {
    return table->device().host_visible();
  });
  if (!all_visible) return take(tables, step, names);
  const std::lock_guard taking(taking_);
  const auto lent = std::make_shared<Copy>();
  lent->lent = true;
  for (const std::string& name : names) {
    const auto [table, variable] = find_variable(tables, name);
    if (!variable)
      return failed_precondition(cat("a snapshot: expected a variable '", name, "', found none"));
    lent->values[name] = lent_value(*variable);
  }
  show(lent, step);
  return {};
}

Result<std::shared_ptr<const Variables>> VariableSnapshot::read(int64_t step) const {
  const std::lock_guard lock(mutex_);
  if (!copy_ || copy_->step != step)
    return failed_precondition(cat("a snapshot: expected one of step ", step, ", found ",
                                   copy_ ? cat("that of step ", copy_->step) : "none"));
  const std::lock_guard readers(copy_->mutex);
  // The count keeps take() from writing into this copy until the last pointer to it is gone.
  ++copy_->readers;
  return std::shared_ptr<const Variables>(&copy_->values, [copy = copy_](const Variables*) {
    const std::lock_guard readers(copy->mutex);
    --copy->readers;
  });
}

void VariableSnapshot::drop() {
  const std::lock_guard lock(mutex_);
  copy_.reset();
}

}  // namespace leat
