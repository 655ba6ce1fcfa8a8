// The fetches of one partition of a run, as a runner reports them turn by turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "scheduler/plan/plan.h"

namespace leat {

// A ring of window() rows. A row holds the partition's fetches in the plan's order, each padded to
// 8 bytes.
// Threads: one stores, another one reads what a timeline told it to be there.
class FetchRows {
 public:
  // Many where rows are small, so that a runner is far ahead of the master.
  static constexpr uint64_t kMostRows = 4096;
  static constexpr uint64_t kMostBytes = 4u << 20;

  FetchRows(const Plan& plan, uint32_t partition);

  // False: the partition has no fetches, and there are no rows.
  bool any() const { return any_; }
  uint64_t window() const { return window_; }
  // Rows so far: turns [0, stored()), of which the last window() are there.
  uint64_t stored() const { return stored_; }
  // Bytes of the row of turn stored() that are there, while it comes in parts.
  size_t part() const { return part_; }
  // The row of turn stored(), from byte part() on, or a part of that. invalid_argument if it has
  // more bytes than the row.
  Status store(std::span<const std::byte> bytes);
  // Fetch i of the plan. REQUIRES: it is of this partition, and the row is there.
  const std::byte* at(uint32_t i, uint64_t turn) const {
    return ring_[turn % window_].data() + offsets_[i];
  }

 private:
  bool any_ = false;
  size_t row_bytes_ = 0;
  std::vector<size_t> offsets_;  // by fetch of the plan
  uint64_t window_ = kMostRows;
  uint64_t stored_ = 0;
  size_t part_ = 0;
  std::vector<Bytes> ring_;
};

}  // namespace leat
