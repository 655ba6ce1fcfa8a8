// The fetched values of one partition of a run, as a runner reports them for each turn.
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
// 8 bytes. Threads: one thread stores rows. Another one may read the rows that a timeline has
// announced.
class FetchRows {
 public:
  // Large enough for small rows, so that a runner can be far ahead of the master.
  static constexpr uint64_t kMostRows = 4096;
  static constexpr uint64_t kMostBytes = 4u << 20;

  FetchRows(const Plan& plan, uint32_t partition);

  // False: the partition has no fetches, so there are no rows.
  bool any() const { return any_; }
  // The number of rows in the ring.
  uint64_t window() const { return window_; }
  // The number of rows so far: turns [0, stored()), of which the last window() are in the ring.
  uint64_t stored() const { return stored_; }
  // The number of bytes of the row of turn stored() that have arrived, if the row arrives in parts.
  size_t part() const { return part_; }
  // Appends the row of turn stored(), or a part of it, from byte part() on. invalid_argument if it
  // has more bytes than the row.
  Status store(std::span<const std::byte> bytes);
  // Returns the bytes of fetch `i` of the plan. REQUIRES: the fetch belongs to this partition, and
  // its row is in the ring.
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
