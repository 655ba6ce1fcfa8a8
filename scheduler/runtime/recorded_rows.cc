#include "scheduler/runtime/recorded_rows.h"

#include <algorithm>

#include "devices/core/kernel_ways.h"

namespace leat {
namespace {

// One recording takes about as long to launch as two kernels.
constexpr uint32_t kFewestKernels = 3;

// A step that is recorded, and not run. If something fails in it, it is issued again, one by one.
struct RecordedStep final : StepContext {
  void fail(uint32_t, Status) override {}
};

}  // namespace

RecordedRows::RecordedRows(Program& program, const CommitVerdict& verdict, TurnContexts& contexts,
                           DeviceTransfers& transfers)
    : program_(program),
      contexts_(contexts),
      transfers_(transfers),
      queue_(program.device().queue()),
      entries_(program.entries()) {
  const auto n = static_cast<uint32_t>(entries_.size());
  row_at_.assign(n, kNone);
  for (uint32_t begin = 0; begin < n;) {
    Row row{begin, begin, {}, {}, {}, false};
    uint32_t kernels = 0;
    // The writes of a step that is decided are made whatever fails: they are a row of their own.
    while (row.end < n && repeats(entries_[row.end]) &&
           verdict.covers(row.end) == verdict.covers(begin)) {
      const Entry::Kind kind = entries_[row.end].kind;
      if (kind == Entry::Kind::kernel)
        ++kernels;
      else if (kind != Entry::Kind::retire)
        row.transfers.push_back(row.end);
      ++row.end;
      if (kind == Entry::Kind::send) break;
    }
    const uint32_t next = std::max(row.end, begin + 1);
    if (kernels >= kFewestKernels) {
      row_at_[begin] = static_cast<uint32_t>(rows_.size());
      rows_.push_back(std::move(row));
    }
    begin = next;
  }
}

bool RecordedRows::repeats(const Entry& entry) const {
  if (entry.may_block || entry.commits || !entry.awaits.empty()) return false;
  if (entry.kind == Entry::Kind::receive || entry.kind == Entry::Kind::bundle) return false;
  if (entry.kind != Entry::Kind::kernel) return true;
  for (uint32_t k = entry.first; k < entry.last; ++k) {
    if (!program_.kernel(k).kernel->repeats()) return false;
  }
  return true;
}

// Counts a row once: when it is recorded for all parities, or refused, which holds for all of them.
void RecordedRows::count(const Row& row) {
  const bool recorded = std::all_of(row.recordings.begin(), row.recordings.end(),
                                    [](const auto& each) { return each != nullptr; });
  if (!recorded && !row.refused) return;
  if (const auto ways = program_.device().ways())
    ways->add("rows of kernels", row.refused ? "single launches" : "graphs");
}

bool RecordedRows::enqueue(uint64_t e, uint64_t turn) {
  Row& row = rows_[row_at_[e]];
  const size_t parity = turn % kSlotDepth;
  if (row.refused) return false;
  if (!row.recordings[parity]) {
    // Libraries load code and allocate in their first run.
    if (row.runs[parity]++ == 0) return false;
    record(row, turn);
    count(row);
    if (row.refused) return false;
  }
  row.recordings[parity]->enqueue();
  if (!row.transfers.empty()) transfers_.await_kernels();
  for (const uint32_t transfer : row.transfers) transfers_.travel(entries_[transfer], turn);
  return true;
}

void RecordedRows::record(Row& row, uint64_t turn) {
  RecordedStep step;
  static_cast<StepNumbers&>(step) = contexts_.of(turn);
  step.for_device = contexts_.of(turn).for_device;
  row.refused = !queue_.begin_recording();
  if (row.refused) return;
  bool ok = true;
  std::vector<uint32_t> after;
  for (uint32_t e = row.begin; ok && e < row.end; ++e) {
    // Entries before the row are done before all of it.
    after.clear();
    for (const uint32_t before : entries_[e].after) {
      if (before >= row.begin) after.push_back(before - row.begin);
    }
    queue_.begin_piece(after);
    if (entries_[e].kind == Entry::Kind::kernel)
      ok = enqueue_kernels(entries_[e], turn, step);
    else
      transfers_.depart(entries_[e], turn);
  }
  std::unique_ptr<Recording> recording = queue_.end_recording();
  row.refused = !ok || !recording;
  if (!row.refused) row.recordings[turn % kSlotDepth] = std::move(recording);
}

bool RecordedRows::enqueue_kernels(const Entry& entry, uint64_t turn, StepContext& step) {
  for (uint32_t k = entry.first; k < entry.last; ++k) {
    BoundKernel& bound = program_.kernel(k);
    KernelContext context = bound.context[turn % kSlotDepth];
    context.step = &step;
    const int phase = entry.phase < 0 ? bound.kernel->row_phase() : entry.phase;
    for (uint32_t tile = entry.first_tile; tile < entry.first_tile + entry.tiles; ++tile) {
      if (bound.kernel->run(context, phase, static_cast<int>(tile)) > Progress::pending)
        return false;
    }
  }
  return true;
}

}  // namespace leat
