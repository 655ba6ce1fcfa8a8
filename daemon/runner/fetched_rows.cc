#include "daemon/runner/fetched_rows.h"

#include <algorithm>
#include <cstring>

namespace leat {
namespace {

// The most bytes of a ring of small rows. rows_in_ring() says what large rows get.
constexpr size_t kRingBytes = 256 << 10;
constexpr uint64_t kMostRows = 4096;
// Rows above this size may be reported in parts of any size.
constexpr size_t kWholeRow = 64 << 10;

// The layout of a row, which the master reads back: the fetches in the plan's order, each at a
// multiple of 8 bytes.
size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }
size_t bytes_of(const PlanBorder& fetch) {
  return static_cast<size_t>(fetch.shape.elements()) * dtype_size(fetch.dtype);
}

}  // namespace

size_t row_bytes(const Plan& plan, uint32_t partition) {
  size_t bytes = 0;
  for (const PlanBorder& fetch : plan.fetches) {
    if (fetch.partition == partition) bytes += padded(bytes_of(fetch));
  }
  return bytes;
}

// There are at least two rows, so that the run fills one while the other is reported; but only one
// if rows are very large.
uint64_t rows_in_ring(size_t row_bytes) {
  if (row_bytes == 0) return kMostRows;
  return std::clamp<uint64_t>(kRingBytes / row_bytes, row_bytes > kRingBytes ? 1 : 2, kMostRows);
}

size_t ring_bytes(const Plan& plan, uint32_t partition) {
  const size_t row = row_bytes(plan, partition);
  return row * rows_in_ring(row);
}

// Allocates the whole ring here, so that copy() allocates nothing while the run steps.
FetchedRows::FetchedRows(HostedPartition& run)
    : run_(run),
      first_step_(run.run().options().first_step),
      row_bytes_(row_bytes(run.plan(), run.partition())),
      room_(rows_in_ring(row_bytes_)),
      ring_(room_ * row_bytes_) {
  const std::vector<PlanBorder>& fetches = run.plan().fetches;
  for (uint32_t i = 0; i < fetches.size(); ++i) {
    if (fetches[i].partition == run.partition()) fetches_.emplace_back(i, bytes_of(fetches[i]));
  }
}

// Copies the fetches of one finished turn into its row. The run overwrites their values once
// kFetchDepth further steps are allowed, so TurnLog allows those only after the copy.
void FetchedRows::copy(uint64_t turn) {
  std::byte* to = ring_.data() + turn % room_ * row_bytes_;
  for (const auto& [fetch, bytes] : fetches_) {
    if (bytes > 0) std::memcpy(to, run_.run().fetched_data(fetch, first_step_ + turn), bytes);
    to += padded(bytes);
  }
}

bool FetchedRows::copy_finished() {
  const uint64_t finished = run_.run().turns();
  // Rows without bytes count as copied at once.
  if (fetches_.empty()) copied_ = std::max(copied_, finished);
  for (; copied_ < finished && has_room(); ++copied_) copy(copied_);
  return copied_ >= finished;
}

// A row counts as taken with its last byte, because copy_finished() may overwrite rows that were
// taken.
void FetchedRows::take(RunReport& report, size_t most) {
  report.first_row = taken_;
  report.row_offset = part_taken_;
  if (fetches_.empty()) taken_ = copied_;
  while (taken_ < copied_) {
    const size_t left = most - report.bytes;
    const size_t size = std::min(row_bytes_ - part_taken_, left);
    // A row that does not fit waits for the next report if it is small. A large one is cut, and so
    // is a small one for which even an empty report has no room.
    const bool whole = size == row_bytes_ - part_taken_;
    if (!whole && (left == 0 || (row_bytes_ <= kWholeRow && !report.rows.empty()))) return;
    const std::byte* from = ring_.data() + taken_ % room_ * row_bytes_ + part_taken_;
    report.rows.emplace_back(from, from + size);
    report.bytes += size;
    part_taken_ = whole ? 0 : part_taken_ + size;
    if (!whole) return;
    ++taken_;
  }
}

}  // namespace leat
