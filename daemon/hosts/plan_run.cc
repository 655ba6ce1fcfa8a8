#include "daemon/hosts/plan_run.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"

namespace leat {

PlanRun::PlanRun(std::shared_ptr<const Plan> plan, uint64_t first_step,
                 std::vector<std::unique_ptr<PartitionRun>> partitions)
    : plan_(std::move(plan)), first_step_(first_step), runs_(std::move(partitions)) {
  // These are the partitions that fetch, ascending and each once. Without fetches, all count as
  // such.
  for (const PlanBorder& fetch : plan_->fetches) fetching_.push_back(fetch.partition);
  std::sort(fetching_.begin(), fetching_.end());
  fetching_.erase(std::unique(fetching_.begin(), fetching_.end()), fetching_.end());
  for (uint32_t p = 0; p < runs_.size() && plan_->fetches.empty(); ++p) fetching_.push_back(p);
}

// A partition may still push into the slots of another one, so all stop before the first is freed.
PlanRun::~PlanRun() {
  abort(cancelled("the run was released"));
  stop();
}

Status PlanRun::connect(const RunOptions& options) {
  for (const auto& run : runs_) LEAT_RETURN_IF_ERROR(run->prepared());
  // An endpoint is known only when its partition is prepared, and each partition needs those of
  // all.
  std::vector<Endpoint> endpoints;
  for (const auto& run : runs_) endpoints.push_back(run->endpoint());
  for (const auto& run : runs_) run->connect(endpoints, options);
  for (const auto& run : runs_) LEAT_RETURN_IF_ERROR(run->connected());
  return {};
}

Status PlanRun::feed(uint32_t i, const Tensor& value) {
  for (auto& run : runs_) LEAT_RETURN_IF_ERROR(run->feed(i, value));
  return {};
}

void PlanRun::extend(uint64_t limit) {
  for (auto& run : runs_) run->extend(limit);
}

// The partitions that fetch take part in every step, so no other partition finishes a step that
// they do not. The others are fenced at the highest limit of those.
Result<uint64_t> PlanRun::hold() {
  uint64_t limit = first_step_;
  for (const uint32_t p : fetching_) {
    LEAT_ASSIGN_OR_RETURN(const uint64_t left, runs_[p]->hold());
    limit = std::max(limit, left);
  }
  for (auto& run : runs_) run->fence(limit);
  return limit;
}

bool PlanRun::snapshot_in_passing(uint64_t step,
                                  const std::map<std::string, std::vector<std::string>>& names) {
  std::map<std::string, std::vector<size_t>> partitions;  // by task: those that hold variables
  std::map<std::string, size_t> any;                      // by task
  for (size_t p = 0; p < runs_.size(); ++p) {
    const std::string task = task_of(plan_->partitions[p].device);
    any.emplace(task, p);
    if (plan_->partitions[p].resource_bytes() > 0) partitions[task].push_back(p);
  }
  // All are found before the first is asked, since no order can be taken back.
  std::vector<std::pair<size_t, const std::vector<std::string>*>> asked;
  for (const auto& [task, own] : names) {
    const auto found = any.find(task);
    if (found == any.end() || partitions[task].size() > 1) return false;
    asked.emplace_back(partitions[task].empty() ? found->second : partitions[task][0], &own);
  }
  return std::all_of(asked.begin(), asked.end(), [&](const auto& one) {
    return runs_[one.first]->snapshot_in_passing(step, *one.second);
  });
}

bool PlanRun::finished_everywhere(uint64_t step) const {
  return std::all_of(runs_.begin(), runs_.end(), [&](const auto& run) {
    return run->finished().value() >= step - first_step_;
  });
}

uint64_t PlanRun::window() const {
  uint64_t window = ~uint64_t{0};
  for (const auto& run : runs_) window = std::min(window, run->window());
  return window;
}

void PlanRun::renumber(uint64_t step) {
  for (auto& run : runs_) run->renumber(step);
}

void PlanRun::stop() {
  // All are told before the first wait, so that they end side by side.
  for (auto& run : runs_) run->release();
  for (auto& run : runs_) run->stop();
}

Status PlanRun::wait(uint64_t step, std::chrono::steady_clock::time_point deadline, bool all) {
  const uint64_t turns = step + 1 - first_step_;
  const auto wait_for = [&](size_t p) {
    const Status status = runs_[p]->finished().wait(turns, deadline);
    // A run that failed with deadline_exceeded keeps its own message.
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

// A run that fails is settled, too.
bool PlanRun::settled(uint64_t step, std::chrono::steady_clock::time_point until) const {
  for (uint32_t p : fetching_) {
    const Timeline& finished = runs_[p]->finished();
    if (!finished.wait(step + 1 - first_step_, until).ok()) return finished.failed();
  }
  return true;
}

uint64_t PlanRun::finished() const {
  uint64_t turns = ~uint64_t{0};
  for (uint32_t p : fetching_) turns = std::min(turns, runs_[p]->finished().value());
  return first_step_ + turns;
}

Tensor PlanRun::fetched(uint32_t i, uint64_t step) {
  const PlanBorder& fetch = plan_->fetches[i];
  Tensor copy(fetch.dtype, fetch.shape);
  if (copy.bytes() > 0)
    std::memcpy(copy.raw(), runs_[fetch.partition]->fetched(i, step), copy.bytes());
  return copy;
}

double PlanRun::fetched_scalar(uint32_t i, uint64_t step) {
  const PlanBorder& fetch = plan_->fetches[i];
  // The fetch is a float or a double with one element.
  const void* data = runs_[fetch.partition]->fetched(i, step);
  return fetch.dtype == DType::f64 ? *static_cast<const double*>(data)
                                   : *static_cast<const float*>(data);
}

void PlanRun::abort(const Status& cause) {
  for (auto& run : runs_) run->abort(cause);
}

void PlanRun::add_input(std::map<std::string, InputNumbers>& sums) const {
  for (size_t p = 0; p < runs_.size(); ++p)
    sums[task_of(plan_->partitions[p].device)].add(runs_[p]->input());
}

std::string PlanRun::profile() {
  std::string text;
  for (auto& run : runs_) text += run->profile();
  return text;
}

// Asks all partitions in parallel, because each may take until its deadline.
std::string PlanRun::waits_for() {
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
