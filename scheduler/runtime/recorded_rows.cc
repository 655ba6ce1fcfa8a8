#include "scheduler/runtime/recorded_rows.h"

#include <algorithm>

namespace leat {
namespace {

// One recording takes about as long to launch as two kernels.
constexpr uint32_t kShortestRow = 3;

// A step that is recorded, and not run. What fails in it is run again, one by one.
struct RecordedStep final : StepContext {
  void fail(uint32_t, Status) override {}
};

}  // namespace

RecordedRows::RecordedRows(Program& program, const CommitVerdict& verdict, TurnContexts& contexts)
    : program_(program), contexts_(contexts), queue_(program.device().queue()) {
  const auto& entries = program.entries();
  const auto n = static_cast<uint32_t>(entries.size());
  row_at_.assign(n, kNone);
  for (uint32_t begin = 0, end = 0; begin < n; begin = std::max(end, begin + 1)) {
    // The writes of a step that is decided are made whatever fails: they are a row of their own.
    for (end = begin;
         end < n && repeats(entries[end]) && verdict.covers(end) == verdict.covers(begin);)
      ++end;
    if (end - begin < kShortestRow) continue;
    row_at_[begin] = static_cast<uint32_t>(rows_.size());
    rows_.emplace_back();
    rows_.back().begin = begin;
    rows_.back().end = end;
  }
}

bool RecordedRows::repeats(const Entry& entry) const {
  if (entry.kind != Entry::Kind::kernel || entry.may_block || entry.commits ||
      !entry.awaits.empty())
    return false;
  for (uint32_t k = entry.first; k < entry.last; ++k) {
    if (!program_.kernel(k).kernel->repeats()) return false;
  }
  return true;
}

bool RecordedRows::enqueue(uint64_t e, uint64_t turn) {
  Row& row = rows_[row_at_[e]];
  const size_t parity = turn % kSlotDepth;
  if (row.refused) return false;
  if (!row.recordings[parity]) {
    // Libraries load code and allocate in their first run.
    if (row.runs[parity]++ == 0) return false;
    record(row, turn);
    if (row.refused) return false;
  }
  row.recordings[parity]->enqueue();
  return true;
}

void RecordedRows::record(Row& row, uint64_t turn) {
  RecordedStep step;
  static_cast<StepNumbers&>(step) = contexts_.of(turn);
  step.for_device = contexts_.of(turn).for_device;
  bool ok = queue_.begin_recording();
  row.refused = !ok;
  if (!ok) return;
  for (uint32_t e = row.begin; ok && e < row.end; ++e) {
    const Entry& entry = program_.entries()[e];
    for (uint32_t k = entry.first; ok && k < entry.last; ++k) {
      BoundKernel& bound = program_.kernel(k);
      KernelContext context = bound.context[turn % kSlotDepth];
      context.step = &step;
      const int phase = entry.phase < 0 ? bound.kernel->row_phase() : entry.phase;
      for (uint32_t tile = entry.first_tile; ok && tile < entry.first_tile + entry.tiles; ++tile)
        ok = bound.kernel->run(context, phase, static_cast<int>(tile)) <= Progress::pending;
    }
  }
  std::unique_ptr<Recording> recording = queue_.end_recording();
  row.refused = !ok || !recording;
  if (!row.refused) row.recordings[turn % kSlotDepth] = std::move(recording);
}

}  // namespace leat
