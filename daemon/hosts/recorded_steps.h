// Some steps of a training, recorded by the hosts of this process: `leat train --trace`.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "daemon/traces/recording.h"
#include "scheduler/runtime/device_host.h"

namespace leat {

// Threads: any. The hosts outlive their partitions here, which finish() and take() remove.
class RecordedSteps {
 public:
  // Records `count` steps of the job after the first `done` ones, which are steps to come.
  void want(uint64_t done, uint64_t count);

  // A partition of the training, connected and before its first step.
  void begin(DeviceHost& host, const std::shared_ptr<HostedPartition>& partition);
  // Its steps are over, and it is about to go. Other partitions than those of begin() are ignored.
  void finish(const HostedPartition& partition);
  // All that was recorded, of partitions that have begun to. The times are of this machine's steady
  // clock.
  StepRecording take();

 private:
  struct Begun {
    DeviceHost* host;
    std::shared_ptr<HostedPartition> partition;
  };
  void record(HostedPartition& partition) const;
  void add(const Begun& begun);

  std::mutex mutex_;
  uint64_t done_ = 0, count_ = 0;
  std::vector<Begun> begun_;
  StepRecording recording_;
};

}  // namespace leat
