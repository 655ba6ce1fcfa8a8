// Follows one run: gives it the steps that the master allows, and keeps its finished turns until
// they are reported. The fetches are copied as each turn ends (see fetched_rows.h), so the run
// continues while reports are on their way.
//
// The master may allow steps far ahead of the reports that it has received. The run never gets more
// than kFetchDepth / 2 turns beyond those whose fetches are copied, so slow reports slow the run
// down. A run without fetches gets all allowed steps at once.
#pragma once

#include <functional>
#include <mutex>

#include "daemon/runner/fetched_rows.h"
#include "daemon/wire/run_report.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// LiveRun owns it. The class keeps three numbers in step: the limit that the master has granted,
// the limit that the run has, and the turns whose fetches are copied.
// Threads: any. It follows the run on the thread that finishes turns, where it allocates nothing.
class TurnLog {
 public:
  // Called when there is something to report. `urgent`: the master may be waiting for it; otherwise
  // more news will follow. Called on the thread that finishes turns; must not block.
  using News = std::function<void(bool urgent)>;

  // `host` and `run` outlive it; the run is connected, and not started.
  TurnLog(DeviceHost& host, HostedPartition& run, News news);
  // Follows the run from now on. The run calls the log back, so the log must exist until the run
  // has failed or is not advanced any more.
  void start() { follow(); }

  // Allows the run the steps below `limit`, as soon as there is room for their fetches. A limit
  // below an earlier one has no effect.
  void grant(uint64_t limit);
  // As Run's functions of these names. Steps that were granted beyond the new limit are taken back.
  uint64_t hold();
  void fence(uint64_t limit);
  // True if every granted step is finished, or the run has failed.
  bool idle() const;
  // The steps below this one are granted.
  uint64_t granted() const;

  // Moves news to `report`: see FetchedRows::take(). Returns false if there are none. A failure is
  // reported once, with the last turns. REQUIRES: most > 0. `most`: bytes of rows.
  bool take(RunReport& report, size_t most);

 private:
  static constexpr uint64_t kWindow = kFetchDepth / 2;

  void follow();
  // The run has failed: the failure goes into a report after the last turn.
  void ended();
  // The limit to give the run now; 0 if it needs none. REQUIRES: the mutex is held.
  uint64_t next_limit();

  DeviceHost& host_;
  HostedPartition& run_;
  const News news_;
  const uint64_t first_step_;

  mutable std::mutex mutex_;
  FetchedRows rows_;
  uint64_t granted_;       // the steps below this one
  uint64_t limit_;         // the run has the steps below this one
  bool following_ = true;  // a thread is in follow(), or the run will call it
  bool failed_ = false, failure_reported_ = false;
};

}  // namespace leat
