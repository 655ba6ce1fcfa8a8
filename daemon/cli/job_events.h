// The events of a job that a program gets by --on-event: one JSON object on each line, with the
// keys "event" and "job". docs/cli.md lists them. Later versions only add events and keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/jobs/events.h"
#include "daemon/metrics/epoch_result.h"

namespace leat {

// Each returns a line with its '\n'. `step`: the steps of the job that are done.
std::string queued_event(const std::string& job);
std::string started_event(const std::string& job, int64_t step, int64_t steps);
std::string epoch_event(const std::string& job, const EpochResult& result);
// `numbers` by name: "val_loss".
std::string validation_event(const std::string& job, int64_t step,
                             const std::vector<std::pair<std::string, double>>& numbers);
std::string checkpoint_event(const std::string& job, int64_t step);
std::string recovered_event(const std::string& job, int64_t step, int64_t restarts);
// `how`: "succeeded", "failed" or "cancelled". `reason` and `weights_sha256` may be empty.
std::string ended_event(const std::string& job, std::string_view how, int64_t step,
                        const std::string& reason, const std::string& weights_sha256);

// Finds the events of a job of a cluster in its views. Several changes may lie between two views:
// no epoch is left out, and of validations and checkpoints the last one is told. The first view
// gives no events but that the job is queued or has started.
//
// Threads: one.
class JobEvents {
 public:
  // The events since the last call, in order. REQUIRES: the view's version is not older than that
  // of the last call.
  std::vector<std::string> take(const JobView& job);

 private:
  void take_progress(const JobView& job, std::vector<std::string>& lines);

  bool begun_ = false, queued_ = false, started_ = false, ended_ = false;
  uint64_t restarts_ = 0;
  uint32_t epoch_ = 0;                       // the last one that was told
  uint64_t validated_ = 0, checkpoint_ = 0;  // steps
};

}  // namespace leat
