#include "tests/daemon/status/example_source.h"

#include <algorithm>
#include <chrono>

#include "devices/base/text.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kStart = 1'769'860'800'000;  // 2026-01-31 12:00:00 UTC

JobView running_job() {
  JobView job;
  job.number = 2;
  job.id = "fashion-mnist-cnn-7f3a";
  job.name = "fashion-mnist-cnn";
  job.num_workers = 2;
  job.submitted_ms = kStart + 1'000;
  job.condition.state = JobState::running;
  job.condition.since_ms = kStart + 5'250;
  job.condition.restarts = 1;
  job.condition.assembly = 2;
  job.condition.workers = {"worker-1", "worker-2"};
  ProgressReport& last = job.progress.last;
  last.step = 250;
  last.steps = 1000;
  last.epoch = 1;
  last.epochs = 4;
  last.samples_per_step = 128;
  last.loss = 0.5;
  last.accuracy = 0.875;
  last.val_loss = 0.625;
  last.val_accuracy = 0.75;
  job.progress.steps_per_second = 12.5;
  job.progress.samples_per_second = 1600;
  job.progress.eta_seconds = 60;
  job.history.put({1, 1, "worker 'worker-2' was lost", "worker-2", "", kStart + 2'000,
                   kStart + 5'000, 250, -1, 70, 64, RecoverySource::checkpoint});
  job.version = 17;
  return job;
}

JobView ended_job() {
  JobView job;
  job.number = 1;
  job.id = "fashion-mnist-mlp-0c41";
  job.name = "fashion-mnist-mlp";
  job.submitted_ms = kStart;
  job.condition.state = JobState::succeeded;
  job.condition.since_ms = kStart + 4'000;
  job.condition.result.weights_sha256 = std::string(64, 'a');
  job.version = 5;
  return job;
}

JobView waiting_job() {
  JobView job;
  job.number = 3;
  job.id = "gpt-0001";
  job.name = "gpt";
  job.num_workers = 8;
  job.submitted_ms = kStart + 9'000;
  job.condition.state = JobState::queued;
  job.condition.reason = "waits for 8 workers, 0 are free";
  job.condition.since_ms = kStart + 9'000;
  job.version = 18;
  return job;
}

NodeView node(const std::string& name, WorkerState state, const std::string& job) {
  NodeView node;
  node.worker.info.worker = {name, 0xfedcba9876543210};
  node.worker.info.address = "10.0.0.2:17463";
  node.worker.info.machine = "boot-1";
  node.worker.info.devices = {{"cpu", "cpu:0", uint64_t{16} << 30, 8, "A processor"}};
  node.worker.info.datasets = {"fashion-mnist"};
  node.worker.info.version = "0.1.0";
  node.worker.state = state;
  node.worker.since_ms = kStart;
  node.worker.silent = 125ms;
  node.worker.progress = 250;
  node.worker.traffic = {500, 501, 65536, 65537, 750, 751, 2};
  node.job = job;
  if (!job.empty()) node.jobs = {job};
  return node;
}

}  // namespace

ExampleSource::ExampleSource() {
  cluster_ = {"leat",
              "0123456789abcdef0123456789abcdef",
              "0.1.0",
              3,
              4,
              kStart,
              kStart + 65'000,
              "127.0.0.1:17461",
              "127.0.0.1:17460",
              {}};
  jobs_ = {ended_job(), running_job(), waiting_job()};
  nodes_ = {node("worker-1", WorkerState::ready, jobs_[1].id),
            node("worker-2", WorkerState::stuck, jobs_[1].id),
            node("worker-3", WorkerState::lost, "")};
  nodes_[2].worker.reason = "no heartbeat for 3.0 s";
  for (int i = 0; i < 5; ++i)
    lines_.push_back({kStart + 1000 * i, "worker-1", "line " + std::to_string(i)});
}

uint64_t ExampleSource::jobs_version() const {
  uint64_t version = 0;
  for (const JobView& job : jobs()) version = std::max(version, job.version);
  return version;
}

std::vector<JobView> ExampleSource::changed_jobs(uint64_t version) const {
  std::vector<JobView> changed = jobs();
  std::erase_if(changed, [&](const JobView& job) { return job.version <= version; });
  return changed;
}

Result<JobView> ExampleSource::job(std::string_view id) const {
  std::vector<JobView> found;
  for (const JobView& job : jobs_)
    if (job.id.starts_with(id)) found.push_back(job);
  if (found.empty()) return failed_precondition(cat("there is no job '", id, "'"));
  if (found.size() > 1) return invalid_argument(cat("'", id, "' begins the ids of ", found.size()));
  return found[0];
}

Result<LogPage> ExampleSource::log(std::string_view id, uint64_t from, size_t most) const {
  LEAT_RETURN_IF_ERROR(job(id).status());
  LogPage page;
  page.end = lines_.size();
  page.complete = complete_;
  page.first = std::min<uint64_t>(from, page.end);
  for (uint64_t i = page.first; i < page.end && page.lines.size() < most; ++i)
    page.lines.push_back(lines_[i]);
  return page;
}

}  // namespace leat
