#include "daemon/session/session_core.h"

#include <pthread.h>

#include <algorithm>

#include "daemon/session/graph_version.h"
#include "devices/base/text.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

// Registered runs of one plan that are kept for the next step.
constexpr size_t kIdleRuns = 16;

// Ids stay what they are in later versions, so one plan serves all versions that have them.
std::string key_of(const Borders& borders, bool isolated) {
  return cat(join(borders.feeds, ","), ">", join(borders.fetches, ","), ";",
             join(borders.targets, ","), isolated ? "" : " apart");
}

// True if a plan was made for feeds of these types and shapes.
bool fits(const Plan& plan, std::span<const Tensor> feeds) {
  if (plan.feeds.size() != feeds.size()) return false;
  for (size_t i = 0; i < feeds.size(); ++i) {
    if (feeds[i].dtype() != plan.feeds[i].dtype || !(feeds[i].shape() == plan.feeds[i].shape))
      return false;
  }
  return true;
}

}  // namespace

SessionCore::SessionCore(HostGroup& hosts, SessionOptions options)
    : hosts_(hosts),
      options_(std::move(options)),
      job_(hosts.session_job(options_.job)),
      callables_(cat("session '", options_.name, "'")),
      plans_(options_.plans),
      watcher_([this] {
        pthread_setname_np(pthread_self(), "session");
        watch();
      }) {}

// The thread stops after close(), since it is the one that ends failed steps.
SessionCore::~SessionCore() {
  close();
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  watcher_.join();
}

Status SessionCore::closed_status() const {
  return failed_precondition(cat("session '", options_.name, "' is closed"));
}

// --- the graph -----------------------------------------------------------------------------------

Result<uint64_t> SessionCore::extend(uint64_t version, const Graph& graph) {
  // One extension at a time. The gate below may take long, and steps go on meanwhile, because
  // mutex_ is free.
  std::lock_guard extending(extending_);
  std::shared_ptr<const GraphVersion> old;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return closed_status();
    old = version_;
  }
  const uint64_t current = old ? old->version : 0;
  if (version != current) {
    return failed_precondition(cat("session '", options_.name, "': expected to extend version ",
                                   current, " of the graph, received version ", version));
  }
  const auto checked = [&]() -> Result<std::shared_ptr<const GraphVersion>> {
    if (old) LEAT_RETURN_IF_ERROR(check_appends(old->graph, graph));
    Graph next = graph;
    LEAT_RETURN_IF_ERROR(validate(next));
    LEAT_ASSIGN_OR_RETURN(GraphNames names, GraphNames::of(next));
    return std::make_shared<const GraphVersion>(
        GraphVersion{current + 1, std::move(next), std::move(names)});
  };
  auto made = checked();
  if (!made.ok()) {
    return made.status().while_doing(
        cat("extending session '", options_.name, "' from version ", current));
  }
  std::lock_guard lock(mutex_);
  if (closed_) return closed_status();
  // Steps in flight and callables keep the version that they were resolved in.
  version_ = std::move(*made);
  return current + 1;
}

uint64_t SessionCore::version() const {
  std::lock_guard lock(mutex_);
  return version_ ? version_->version : 0;
}

Result<ResolvedSignature> SessionCore::resolve(const Signature& signature) const {
  ResolvedSignature out;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return closed_status();
    out.version = version_;
  }
  if (!out.version) {
    return failed_precondition(
        cat("session '", options_.name, "': expected a graph, it has not been extended yet"));
  }
  auto borders = out.version->names.resolve(out.version->graph, signature);
  if (!borders.ok())
    return borders.status().while_doing(cat("running a step of session '", options_.name, "'"));
  out.borders = std::move(*borders);
  out.isolated = signature.isolated;
  out.key = key_of(out.borders, out.isolated);
  return out;
}

Result<CallableId> SessionCore::add_callable(ResolvedSignature signature) {
  std::lock_guard lock(mutex_);
  if (closed_) return closed_status();
  return callables_.add(std::move(signature));
}

Status SessionCore::release_callable(CallableId id) {
  std::lock_guard lock(mutex_);
  return closed_ ? closed_status() : callables_.release(id);
}

// --- plans ---------------------------------------------------------------------------------------

std::shared_ptr<PlanEntry> SessionCore::find_entry(const std::string& key) {
  std::lock_guard lock(mutex_);
  return plans_.find(key);
}

Result<std::shared_ptr<PlanEntry>> SessionCore::entry_for(const ResolvedSignature& signature,
                                                          std::span<const Tensor> feeds,
                                                          Clock::time_point deadline) {
  LEAT_RETURN_IF_ERROR(check_feeds(signature.version->graph, signature.borders.feeds, feeds));
  std::string key = signature.key;
  for (const Tensor& feed : feeds) key += cat(" ", feed.shape());
  if (auto found = find_entry(key)) return found;
  // All sessions of the job share its variables, so their plans are made one after the other. The
  // wait counts against the deadline of the step.
  std::unique_lock compiling(job_->compiling, deadline);
  if (!compiling.owns_lock()) {
    return deadline_exceeded(cat("session '", options_.name, "' waited for another plan of job '",
                                 options_.job, "' to be made"));
  }
  if (auto found = find_entry(key)) return found;
  StepPlanOptions options;
  options.isolated = signature.isolated;
  options.plan.name = options_.name;
  options.plan.strategy = options_.strategy;
  options.plan.shards = options_.shards;
  options.plan.workers = options_.workers;
  auto made =
      make_step_plan(hosts_, *job_, signature.version->graph, signature.borders, feeds, options);
  if (!made.ok()) {
    return made.status().while_doing(cat("compiling a step of session '", options_.name, "'"));
  }
  auto entry = std::make_shared<PlanEntry>();
  entry->key = std::move(key);
  entry->made = std::move(*made);
  PlanCache::Steps dropped;  // freed without the lock
  std::lock_guard lock(mutex_);
  dropped = plans_.insert(entry);
  return entry;
}

// --- steps ---------------------------------------------------------------------------------------

void SessionCore::free_idle() {
  PlanCache::Steps dropped;  // freed without the lock
  std::lock_guard lock(mutex_);
  dropped = plans_.take_idle();
}

// An idle run of the plan, else a new one.
Result<std::shared_ptr<SessionStep>> SessionCore::step_of(const std::shared_ptr<PlanEntry>& entry) {
  {
    std::lock_guard lock(mutex_);
    if (closed_) return closed_status();
    if (!entry->idle.empty()) {
      auto step = std::move(entry->idle.back());
      entry->idle.pop_back();
      return step;
    }
  }
  RunOptions options;
  options.name = cat("session '", options_.name, "'");
  options.seed = options_.seed;
  auto run = hosts_.run(entry->made.plan, options_.job, options);
  // Idle runs hold memory on the hosts. Without them there may be room for this one.
  if (run.status().code() == Code::resource_exhausted) {
    free_idle();
    run = hosts_.run(entry->made.plan, options_.job, options);
  }
  if (!run.ok()) return run.status();
  if (options_.on_plan) LEAT_RETURN_IF_ERROR(options_.on_plan(*entry->made.plan));
  return std::make_shared<SessionStep>(*this, entry, std::move(*run));
}

Result<StepHandle> SessionCore::launch(const std::shared_ptr<PlanEntry>& entry,
                                       std::span<const Tensor> feeds, Clock::time_point deadline,
                                       Session::Finished finished) {
  LEAT_ASSIGN_OR_RETURN(auto step, step_of(entry));
  LEAT_RETURN_IF_ERROR(step->feed(feeds));
  SessionStep* launched = step.get();
  {
    std::lock_guard lock(mutex_);
    if (closed_) return closed_status();
    // The number is given under the lock, so close() either sees this step or has refused it.
    launched->begin({steps_.next_number(), deadline, std::move(finished)});
    steps_.add(std::move(step));
    // The session's thread sleeps until a later deadline, and must look again.
    if (deadline < wakes_at_) changed_.notify_all();
  }
  launched->launch();
  return StepHandle(*launched);
}

Result<StepHandle> SessionCore::start(const ResolvedSignature& signature,
                                      std::span<const Tensor> feeds, Session::Deadline deadline,
                                      Session::Finished finished) {
  const Clock::time_point until = deadline_of(deadline);
  LEAT_ASSIGN_OR_RETURN(auto entry, entry_for(signature, feeds, until));
  return launch(entry, feeds, until, std::move(finished));
}

Result<StepHandle> SessionCore::start_callable(CallableId id, std::span<const Tensor> feeds,
                                               Session::Deadline deadline,
                                               Session::Finished finished) {
  const Clock::time_point until = deadline_of(deadline);
  std::shared_ptr<Callable> callable;
  std::shared_ptr<PlanEntry> entry;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return closed_status();
    LEAT_ASSIGN_OR_RETURN(callable, callables_.find(id));
    // A callable mostly gets feeds of the same shapes again: its last plan is found without a key.
    entry = callable->last;
    if (entry && entry->cached && fits(*entry->made.plan, feeds))
      plans_.touch(*entry);
    else
      entry = nullptr;
  }
  if (!entry) {
    LEAT_ASSIGN_OR_RETURN(entry, entry_for(callable->signature, feeds, until));
    std::lock_guard lock(mutex_);
    callable->last = entry;
  }
  return launch(entry, feeds, until, std::move(finished));
}

void SessionCore::set_next_number(uint64_t number) {
  std::lock_guard lock(mutex_);
  steps_.set_next_number(number);
}

void SessionCore::give_back(SessionStep& step) {
  std::shared_ptr<SessionStep> freed;  // outside the lock
  std::lock_guard lock(mutex_);
  freed = steps_.remove(step);
  PlanEntry& entry = *freed->entry();
  // A run that failed cannot step again. One of a dropped plan would never be found.
  if (freed->reusable() && entry.cached && !closed_ && entry.idle.size() < kIdleRuns)
    entry.idle.push_back(std::move(freed));
}

void SessionCore::retire(SessionStep& step) {
  std::lock_guard lock(mutex_);
  failed_.push_back(&step);
  changed_.notify_all();
}

std::vector<StepsInFlight::Numbered> SessionCore::in_flight() const {
  std::lock_guard lock(mutex_);
  return steps_.all();
}

void SessionCore::close() {
  std::map<CallableId, std::shared_ptr<Callable>> callables;
  {
    std::lock_guard lock(mutex_);
    // No new step starts from here on, so the list below is complete.
    closed_ = true;
    callables = callables_.clear();
  }
  const auto steps = in_flight();
  for (const auto& each : steps) {
    each.step->end(each.number, cancelled(cat("session '", options_.name, "' was closed during ",
                                              each.step->subject(each.number))));
  }
  // All were told to end before the first wait, so they end at the same time.
  for (const auto& each : steps) each.step->wait();
  free_idle();
}

// Stops the steps that have failed, and ends those whose deadline has passed.
void SessionCore::watch() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (stop_) return;
    if (failed_.empty()) {
      wakes_at_ = steps_.first_deadline();
      if (wakes_at_ == Clock::time_point::max())
        changed_.wait(lock);
      else if (wakes_at_ > Clock::now())
        changed_.wait_until(lock, wakes_at_);
    }
    auto late = steps_.late(Clock::now());
    // A failed step stays in steps_ until it is over, so the plain pointers are valid.
    std::vector<SessionStep*> failed;
    failed.swap(failed_);
    lock.unlock();
    for (const auto& each : late) each.step->expire(each.number);
    // Without the lock: both calls block on hosts, and finish() may call back into the session's
    // user.
    for (SessionStep* step : failed) step->retire();
    // This may free a step, which ends a run on hosts.
    late.clear();
    lock.lock();
  }
}

}  // namespace leat
