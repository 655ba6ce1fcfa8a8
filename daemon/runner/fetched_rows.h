// Copies of the fetches of a run's finished turns, until a report takes them. The fetches of one
// turn are a row. The rows are in a ring of bounded size: a run that gets ahead of its reports
// waits for room, and no row is overwritten before it is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "daemon/wire/run_report.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// The most bytes that a step may fetch from one partition.
inline constexpr size_t kMostRowBytes = 256 << 20;

// The bytes of a row of this partition; each fetch is padded to 8 bytes.
size_t row_bytes(const Plan& plan, uint32_t partition);
// The number of rows of that size that the ring has room for. Small rows have room for many turns,
// so a run continues while its master is away for some time.
uint64_t rows_in_ring(size_t row_bytes);
// The bytes of memory that the ring of this partition takes.
size_t ring_bytes(const Plan& plan, uint32_t partition);

// TurnLog owns it. The ring has room for up to 4096 rows in 256 KiB, for two rows where these are
// larger than half of that, and for one row above 256 KiB. Turn t has its row at t modulo the
// number of rows.
// If the plan fetches nothing from this partition, rows have no bytes, and there is always room.
// Threads: one at a time; the owner has a lock. No memory is allocated while rows are copied.
class FetchedRows {
 public:
  // REQUIRES: `run` is connected, and outlives it. Allocates the whole ring.
  explicit FetchedRows(HostedPartition& run);

  // Copies the rows of finished turns, as far as there is room. Returns true if none is left. False
  // means that the ring is full: the caller calls again after take().
  bool copy_finished();
  // Moves rows that were copied and not yet taken to `report`, `most` bytes at most: as many whole
  // rows as fit, or a part of a row that is larger than a report. Sets first_row and row_offset.
  void take(RunReport& report, size_t most);

  bool fetches_nothing() const { return fetches_.empty(); }
  // Room for the next turn.
  bool has_room() const { return fetches_.empty() || copied_ - taken_ < room_; }
  // A report should come soon, or the run will wait for it.
  bool half_full() const { return !fetches_.empty() && copied_ - taken_ >= room_ / 2; }
  // Counts of turns since the run began: taken() <= copied() <= turns of the run.
  uint64_t copied() const { return copied_; }
  uint64_t taken() const { return taken_; }

 private:
  // Copies the fetches of one turn, in the plan's order, each at a multiple of 8 bytes.
  void copy(uint64_t turn);

  HostedPartition& run_;
  const uint64_t first_step_;
  const size_t row_bytes_;
  std::vector<std::pair<uint32_t, size_t>> fetches_;  // of this partition: index, bytes
  const uint64_t room_;                               // rows
  std::vector<std::byte> ring_;                       // row t is at t % room_
  uint64_t copied_ = 0, taken_ = 0;
  size_t part_taken_ = 0;  // bytes of the next row that a report has taken already
};

}  // namespace leat
