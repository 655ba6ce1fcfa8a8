// The finished turns of one run until they are reported: their fetches are copied out as each turn
// ends, so that the run goes on while reports are on their way.
//
// The master may allow steps far ahead of what it has heard of. The run gets of that never more
// than kFetchDepth / 2 turns beyond those that stand here, and here is room for a bounded number:
// whoever reports too slowly slows the run down, and no fetch is ever overwritten unread. Where
// nothing is fetched, the run gets all of it at once. Large fetches are reported in parts.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "daemon/runner/run_report.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// Of what a step may fetch from one partition.
inline constexpr size_t kMostRowBytes = 256 << 20;

// What the fetches of a step of this partition take in a report: each padded to 8 bytes.
size_t row_bytes(const Plan& plan, uint32_t partition);
// How many turns of such rows stand in the log at most. A master that is away for a while holds
// nobody up: small rows are many.
uint64_t rows_in_log(size_t row_bytes);
// What the log of such a run takes of memory.
size_t turn_log_bytes(const Plan& plan, uint32_t partition);

// Threads: any. It follows the run on the thread that finishes turns, where it allocates nothing.
class TurnLog {
 public:
  // Something is to be reported. `urgent`: somebody may be waiting for it; else more is to come by
  // itself. Called on the thread that finishes turns; must not block.
  using News = std::function<void(bool urgent)>;

  // `worker` and `run` outlive it; the run is connected, and not started.
  TurnLog(DeviceHost& worker, HostedPartition& run, News news);
  // From here on it follows. It is called back until the run has failed, and is not advanced.
  void start() { follow(); }

  // Allows the run the steps below `limit`, as soon as there is room for them.
  void grant(uint64_t limit);
  // As Run has them. What was granted beyond is granted no more.
  uint64_t hold();
  void fence(uint64_t limit);
  // True if every step that was granted is finished, or the run has failed.
  bool idle() const;
  uint64_t granted() const;

  // Moves what is new to `report`, at most `most` bytes of rows: as many whole ones as there are,
  // or a part of one that is larger than a report. False if there is nothing new. The failure comes
  // with the last of the turns, and once. REQUIRES: most > 0.
  bool take(RunReport& report, size_t most);

 private:
  static constexpr uint64_t kWindow = kFetchDepth / 2;

  void follow();
  void ended();
  bool copy_rows();
  void take_rows(RunReport& report, size_t most);
  void copy_row(uint64_t turn);
  uint64_t next_limit();

  DeviceHost& worker_;
  HostedPartition& run_;
  const News news_;
  const uint64_t first_step_;
  const size_t row_bytes_;
  std::vector<std::pair<uint32_t, size_t>> fetches_;  // of this partition: index, bytes
  uint64_t room_ = 0;                                 // rows
  std::vector<std::byte> ring_;                       // row t is at t % room_

  mutable std::mutex mutex_;
  uint64_t granted_;       // a step
  uint64_t limit_;         // a step: what the run has of it
  uint64_t copied_ = 0;    // turns
  uint64_t reported_ = 0;  // turns, or rows taken
  size_t row_taken_ = 0;   // of the next row, bytes
  bool following_ = true;  // somebody is in follow(), or it will be called
  bool failed_ = false, failure_reported_ = false;
};

}  // namespace leat
