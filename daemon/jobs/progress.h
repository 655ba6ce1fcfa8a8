// The progress of a job: its steps, its speed and the time that is left. A restarted master gets it
// again from the runners; for a job that has ended the journal has the last report.
//
// Threads: values.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "daemon/jobs/lost_assembly.h"
#include "daemon/metrics/epoch_result.h"
#include "devices/base/clock.h"

namespace leat {

// The runners' report. kNoNumber: nothing yet.
struct ProgressReport {
  uint64_t step = 0;   // steps done
  uint64_t steps = 0;  // of the job; 0: not known
  uint32_t epoch = 0;  // passes over the data
  uint32_t epochs = 0;
  uint64_t samples_per_step = 0;
  double loss = kNoNumber;  // mean over the steps of `epoch` that are done, as accuracy
  double accuracy = kNoNumber;
  double val_loss = kNoNumber;  // of the last validation
  double val_accuracy = kNoNumber;
  uint64_t first_step = 0;  // steps done when this assembly of the job began
  RecoverySource from = RecoverySource::unknown;
  // The run can continue without workers of this task and above; if it cannot, it fails. 0: it
  // needs all workers.
  uint32_t spared_from = 0;
  // Each worker holds only a part of the variables, which is lost with that worker.
  bool in_parts = false;
  // Of the data; 0: not known. Batches continue across epochs: an epoch ends with the step that
  // takes its last row.
  uint64_t rows_per_epoch = 0, rows_per_step = 0;
  EpochResult ended = {};  // the last epoch that has ended
  // In metrics.jsonl: the number of rows that are lost for good, and the last step up to which some
  // rows were changed.
  uint64_t metrics_missing = 0, metrics_changed_until = 0;
  uint64_t steps_skipped = 0;  // of the steps that are done
  bool idle = false;  // a lasting session whose client asks for nothing; the journal keeps it not
  // The step of the last validation with a row of its own, and of the newest checkpoint that this
  // assembly has written; 0: none.
  uint64_t validated_step = 0, checkpoint_step = 0;

  // By the name of each worker, the seconds for which steps of this assembly have waited for rows
  // of the data. The journal does not keep them.
  std::vector<NamedNumber> input_wait = {};
  // Likewise, how many steps ahead each worker asks for rows now.
  std::vector<NamedNumber> steps_ahead = {};
  // Of a job with audits: "steps" that were audited, "pairs" of a step and a shard, and
  // "differences", over all assemblies that this master knows. The journal does not keep them.
  std::vector<NamedNumber> audits = {};

  bool operator==(const ProgressReport& other) const;  // bit by bit: a NaN equals itself
};

// "3 rows of metrics.jsonl missing", for people; "" if nothing is lost.
std::string lost_metrics(const ProgressReport& report);

// A report as the journal keeps it, without the named metrics of its last epoch. New numbers are
// added at the end.
using ReportNumbers = std::array<uint64_t, 28>;
ReportNumbers numbers_of(const ProgressReport& report);
ProgressReport report_of(const ReportNumbers& numbers);

struct JobProgress {
  ProgressReport last;
  std::vector<EpochResult> epochs;  // the last that have ended, at most kMostEpochs; ascending
  double steps_per_second = kNoNumber;
  double samples_per_second = kNoNumber;
  double eta_seconds = kNoNumber;  // from the last report on
};

// Measures the rate over the last 20 seconds of reports, so that a burst of reports, a pause for a
// checkpoint or a slow first step do not make the number jump.
class ProgressMeter {
 public:
  void report(const ProgressReport& report, Clock::Steady now);
  // Takes a report from before this master started, which gives no rate.
  void restore(const ProgressReport& report);
  // The job has new runners: steps before and after them give no common rate.
  void restart() { samples_.clear(); }

  const ProgressReport& last() const { return last_; }
  std::optional<ProgressReport> last_if_any() const;
  JobProgress progress() const;

 private:
  struct Sample {
    Clock::Steady at;
    uint64_t step;
  };

  void note(const EpochResult& ended);

  ProgressReport last_;
  std::vector<EpochResult> epochs_;  // ascending
  std::deque<Sample> samples_;       // at most one in half a second, and the newest
};

}  // namespace leat
