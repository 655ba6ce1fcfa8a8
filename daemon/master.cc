#include "daemon/master.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "daemon/session/session_job.h"
#include "devices/base/text.h"

namespace leat {

Result<std::shared_ptr<const Plan>> Master::compile(JobGraph graph, const PlanOptions& options) {
  if (options.workers < 1 || static_cast<size_t>(options.workers) > workers_.size()) {
    return invalid_argument(
        cat("workers: expected 1 to ", workers_.size(), ", received ", options.workers));
  }
  CompileRequest request;
  request.name = options.name;
  request.borders = graph.borders();
  request.strategy = options.strategy;
  request.shards = options.shards;
  request.servers = options.servers;
  request.variable_servers = options.variable_servers;
  request.asynchronous_worker = options.asynchronous_worker;
  request.quorum = options.quorum;
  request.recoverable = options.recoverable;
  request.skips_not_finite = options.skips_not_finite;
  for (int w = 0; w < options.workers; ++w)
    request.devices.push_back(workers_[static_cast<size_t>(w)]->device_name());
  request.device_memory_bytes = workers_[0]->memory_bytes();
  LEAT_ASSIGN_OR_RETURN(Plan plan, leat::compile(std::move(graph.graph), request));
  return std::make_shared<const Plan>(std::move(plan));
}

WorkerLink* Master::worker_of(const std::string& device) const {
  const auto it = std::find_if(workers_.begin(), workers_.end(),
                               [&](WorkerLink* w) { return w->device_name() == device; });
  return it == workers_.end() ? nullptr : *it;
}

Result<std::unique_ptr<MasterRun>> Master::run(std::shared_ptr<const Plan> plan,
                                               const std::string& job, const RunOptions& options) {
  std::lock_guard registering(registering_);
  std::unique_ptr<MasterRun> run(new MasterRun());
  run->plan_ = plan;
  run->first_step_ = options.first_step;
  LEAT_RETURN_IF_ERROR(prepare(*run, job));
  std::vector<Endpoint> endpoints;
  for (auto& part : run->runs_) endpoints.push_back(part->endpoint());
  for (auto& part : run->runs_) part->connect(endpoints, options);
  for (auto& part : run->runs_) LEAT_RETURN_IF_ERROR(part->connected());
  for (const PlanBorder& fetch : plan->fetches) run->fetching_.push_back(fetch.partition);
  std::sort(run->fetching_.begin(), run->fetching_.end());
  run->fetching_.erase(std::unique(run->fetching_.begin(), run->fetching_.end()),
                       run->fetching_.end());
  for (uint32_t p = 0; p < run->runs_.size() && plan->fetches.empty(); ++p)
    run->fetching_.push_back(p);
  return run;
}

// Gives each worker its partition: all of them at once.
Status Master::prepare(MasterRun& run, const std::string& job) {
  const uint64_t number = ++runs_;
  for (uint32_t p = 0; p < run.plan_->partitions.size(); ++p) {
    const std::string& device = run.plan_->partitions[p].device;
    WorkerLink* worker = worker_of(device);
    if (!worker) return unavailable(cat("device ", device, ": no worker has it"));
    LEAT_ASSIGN_OR_RETURN(auto prepared, worker->prepare(run.plan_, p, job, number));
    run.runs_.push_back(std::move(prepared));
  }
  for (auto& part : run.runs_) LEAT_RETURN_IF_ERROR(part->prepared());
  return {};
}

std::shared_ptr<SessionJob> Master::session_job(const std::string& job) {
  std::lock_guard lock(mutex_);
  auto& found = session_jobs_[job];
  if (!found) found = std::make_shared<SessionJob>();
  return found;
}

// A partition may still be pushing into the slots of another: all stop before one is freed.
MasterRun::~MasterRun() {
  abort(cancelled("the run was released"));
  stop();
}

Status MasterRun::feed(uint32_t i, const Tensor& value) {
  for (auto& run : runs_) LEAT_RETURN_IF_ERROR(run->feed(i, value));
  return {};
}

void MasterRun::extend(uint64_t limit) {
  for (auto& run : runs_) run->extend(limit);
}

// Who fetches takes part in every step, so that nobody ends one that it does not.
Result<uint64_t> MasterRun::hold() {
  uint64_t limit = first_step_;
  for (const uint32_t p : fetching_) {
    LEAT_ASSIGN_OR_RETURN(const uint64_t left, runs_[p]->hold());
    limit = std::max(limit, left);
  }
  for (auto& run : runs_) run->fence(limit);
  return limit;
}

bool MasterRun::snapshot_in_passing(uint64_t step,
                                    const std::map<std::string, std::vector<std::string>>& names) {
  size_t asked = 0;
  for (size_t p = 0; p < runs_.size(); ++p) {
    const auto own = names.find(plan_->partitions[p].device);
    if (own == names.end()) continue;
    if (!runs_[p]->snapshot_in_passing(step, own->second)) return false;
    ++asked;
  }
  return asked == names.size();
}

bool MasterRun::finished_everywhere(uint64_t step) const {
  return std::all_of(runs_.begin(), runs_.end(), [&](const auto& run) {
    return run->finished().value() >= step - first_step_;
  });
}

uint64_t MasterRun::window() const {
  uint64_t window = ~uint64_t{0};
  for (const auto& run : runs_) window = std::min(window, run->window());
  return window;
}

void MasterRun::renumber(uint64_t step) {
  for (auto& run : runs_) run->renumber(step);
}

void MasterRun::stop() {
  for (auto& run : runs_) run->release();
  for (auto& run : runs_) run->stop();
}

Status MasterRun::wait(uint64_t step, std::chrono::steady_clock::time_point deadline, bool all) {
  const uint64_t turns = step + 1 - first_step_;
  const auto wait_for = [&](size_t p) {
    const Status status = runs_[p]->finished().wait(turns, deadline);
    if (status.code() != Code::deadline_exceeded || runs_[p]->finished().failed()) return status;
    return deadline_exceeded(cat("step ", step, " did not finish in time: ", waits_for()));
  };
  if (all) {
    for (size_t p = 0; p < runs_.size(); ++p) LEAT_RETURN_IF_ERROR(wait_for(p));
  } else {
    for (uint32_t p : fetching_) LEAT_RETURN_IF_ERROR(wait_for(p));
  }
  return {};
}

bool MasterRun::settled(uint64_t step, std::chrono::steady_clock::time_point until) const {
  for (uint32_t p : fetching_) {
    const Timeline& finished = runs_[p]->finished();
    if (!finished.wait(step + 1 - first_step_, until).ok()) return finished.failed();
  }
  return true;
}

uint64_t MasterRun::finished() const {
  uint64_t turns = ~uint64_t{0};
  for (uint32_t p : fetching_) turns = std::min(turns, runs_[p]->finished().value());
  return first_step_ + turns;
}

Tensor MasterRun::fetched(uint32_t i, uint64_t step) {
  const PlanBorder& fetch = plan_->fetches[i];
  Tensor copy(fetch.dtype, fetch.shape);
  if (copy.bytes() > 0)
    std::memcpy(copy.raw(), runs_[fetch.partition]->fetched(i, step), copy.bytes());
  return copy;
}

double MasterRun::fetched_scalar(uint32_t i, uint64_t step) {
  const PlanBorder& fetch = plan_->fetches[i];
  const void* data = runs_[fetch.partition]->fetched(i, step);
  return fetch.dtype == DType::f64 ? *static_cast<const double*>(data)
                                   : *static_cast<const float*>(data);
}

void MasterRun::abort(const Status& cause) {
  for (auto& run : runs_) run->abort(cause);
}

std::string MasterRun::profile() {
  std::string text;
  for (auto& run : runs_) text += run->profile();
  return text;
}

// All are asked at once: each may take as long as a worker that does not answer.
std::string MasterRun::waits_for() {
  std::vector<std::future<std::string>> asked;
  for (auto& run : runs_)
    asked.push_back(std::async(std::launch::async, [&run] { return run->waits_for(); }));
  std::vector<std::string> lines;
  for (auto& answer : asked) {
    std::string line = answer.get();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines.empty() ? "every worker is computing" : join(lines, "; ");
}

}  // namespace leat
