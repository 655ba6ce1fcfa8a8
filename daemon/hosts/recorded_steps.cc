#include "daemon/hosts/recorded_steps.h"

#include <algorithm>
#include <utility>

#include "daemon/hosts/partition_recording.h"
#include "devices/base/text.h"

namespace leat {

void RecordedSteps::want(uint64_t done, uint64_t count) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  count_ = count;
  for (const Begun& each : begun_) record(*each.partition);
}

void RecordedSteps::begin(DeviceHost& host, const std::shared_ptr<HostedPartition>& partition) {
  const std::lock_guard lock(mutex_);
  begun_.push_back({&host, partition});
  record(*partition);
}

void RecordedSteps::record(HostedPartition& partition) const {
  const uint64_t first_step = partition.run().options().first_step;
  if (done_ + count_ <= first_step) return;
  partition.run().recorder().start(std::max(done_, first_step) - first_step,
                                   done_ + count_ - first_step);
}

void RecordedSteps::finish(const HostedPartition& partition) {
  const std::lock_guard lock(mutex_);
  const auto is_it = [&](const Begun& each) { return each.partition.get() == &partition; };
  const auto found = std::find_if(begun_.begin(), begun_.end(), is_it);
  if (found == begun_.end()) return;
  add(*found);
  begun_.erase(found);
}

StepRecording RecordedSteps::take() {
  const std::lock_guard lock(mutex_);
  for (const Begun& each : begun_) add(each);
  begun_.clear();
  return std::exchange(recording_, {});
}

// A training that goes back runs in new partitions, and its last recording counts.
void RecordedSteps::add(const Begun& begun) {
  RecordedPartition part = take_recording(*begun.host, *begun.partition);
  part.node = cat("worker-", begun.host->task());
  if (part.first >= part.end) return;
  std::erase_if(recording_.partitions,
                [&](const RecordedPartition& earlier) { return earlier.device == part.device; });
  recording_.partitions.push_back(std::move(part));
}

}  // namespace leat
