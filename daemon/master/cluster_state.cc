#include "daemon/master/cluster_state.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

Status stopping() { return cancelled("the master is stopping"); }

}  // namespace

ClusterState::ClusterState(const ClusterStateOptions& options, std::function<uint64_t()> random,
                           const Clock& clock, ClusterHands& hands)
    : clock_(clock),
      hands_(hands),
      table_(options.jobs, std::move(random)),
      members_(options.members),
      thread_("jobs", options.tick, [this] { tick(); }) {}

// Once it has returned, reads of the state show all restored jobs.
void ClusterState::start(const std::vector<StoredJob>& jobs,
                         std::set<std::string, std::less<>> drained, uint64_t generation) {
  std::unique_lock lock(mutex_);
  members_.drain_names(std::move(drained));
  JobActions actions = table_.restore(jobs, moment_of(clock_), generation);
  lock.unlock();
  post([this, actions = std::move(actions)]() mutable { perform(std::move(actions)); });
}

void ClusterState::settle(std::chrono::milliseconds most) {
  const auto settled = std::make_shared<std::promise<void>>();
  auto answered = settled->get_future();
  post([this, settled] {
    settles_ = settled;
    if (tickets_.empty()) settled->set_value();
  });
  (void)answered.wait_for(most);
}

void ClusterState::stop() {
  thread_.stop();
  for (auto& [ticket, done] : std::exchange(tickets_, {})) done(stopping());
  for (Watcher& watcher : std::exchange(watchers_, {})) watcher.done(stopping());
}

// Requests ----------------------------------------------------------------------------------------

void ClusterState::post(std::function<void()> task) { (void)thread_.post(std::move(task)); }

void ClusterState::handle(JobEvent event) {
  post([this, event = std::move(event)]() mutable { apply(std::move(event)); });
}

// `done` is told also if the thread has stopped.
void ClusterState::ask(Done<JobView> done, std::function<JobEvent(uint64_t ticket)> event) {
  const bool posted = thread_.post([this, done, event = std::move(event)] {
    if (settles_ != nullptr) return done(stopping());
    tickets_[++last_ticket_] = done;
    apply(event(last_ticket_));
  });
  if (!posted) done(stopping());
}

void ClusterState::submit(Submission submission, Done<JobView> done) {
  ask(std::move(done), [submission = std::move(submission)](uint64_t ticket) mutable {
    return SubmitAsked{ticket, std::move(submission)};
  });
}

void ClusterState::cancel(std::string id, std::string by, Done<JobView> done) {
  ask(std::move(done), [id = std::move(id), by = std::move(by)](uint64_t ticket) {
    return CancelAsked{ticket, id, by};
  });
}

void ClusterState::remove(std::string id, Done<JobView> done) {
  ask(std::move(done), [id = std::move(id)](uint64_t ticket) { return RemoveAsked{ticket, id}; });
}

void ClusterState::watch(std::string id, uint64_t seen,
                         std::chrono::steady_clock::time_point deadline, Done<JobView> done) {
  const bool posted = thread_.post([this, id = std::move(id), seen, deadline, done]() mutable {
    Watcher watcher{std::move(id), seen, deadline, std::move(done)};
    if (!answer(watcher)) watchers_.push_back(std::move(watcher));
  });
  if (!posted) done(stopping());
}

void ClusterState::fault_due(FaultAsked fault, std::function<void(Status)> done) {
  ask([done = std::move(done)](const Result<JobView>& view) { done(view.status()); },
      [fault = std::move(fault)](uint64_t ticket) mutable {
        fault.ticket = ticket;
        return std::move(fault);
      });
}

void ClusterState::drain(std::string name, bool draining, Done<NodeView> done) {
  const bool posted = thread_.post([this, name = std::move(name), draining, done] {
    std::unique_lock lock(mutex_);
    auto events = members_.drain(name, draining, moment_of(clock_));
    lock.unlock();
    if (!events.ok()) return done(events.status());
    apply(std::move(*events));
    for (NodeView& node : nodes()) {
      if (node.worker.info.worker.name == name) return done(std::move(node));
    }
    NodeView gone;  // nothing is known of it but that it may come back
    gone.worker.info.worker.name = name;
    gone.worker.state = WorkerState::lost;
    done(std::move(gone));
  });
  if (!posted) done(stopping());
}

void ClusterState::retire(WorkerRef worker, std::function<void(Status)> done) {
  const bool posted = thread_.post([this, worker = std::move(worker), done] {
    std::unique_lock lock(mutex_);
    auto events = members_.retire(worker, moment_of(clock_));
    lock.unlock();
    if (events.ok()) apply(std::move(*events));
    done(events.status());
  });
  if (!posted) done(stopping());
}

void ClusterState::join(WorkerInfo info, std::function<void(Status)> done) {
  const bool posted = thread_.post([this, info = std::move(info), done] {
    std::unique_lock lock(mutex_);
    auto events = members_.join(info, moment_of(clock_));
    lock.unlock();
    if (events.ok()) apply(std::move(*events));
    done(events.status());
  });
  if (!posted) done(stopping());
}

void ClusterState::heard(Heartbeat heartbeat) {
  post([this, heartbeat = std::move(heartbeat)] {
    const std::lock_guard lock(mutex_);
    (void)members_.heard(heartbeat, moment_of(clock_));  // who is no member was told so already
  });
}

void ClusterState::lose(WorkerRef worker, std::string reason) {
  post([this, worker = std::move(worker), reason = std::move(reason)] { expel({worker, reason}); });
}

// Events and actions ------------------------------------------------------------------------------

void ClusterState::apply(JobEvent event) {
  const auto* written = std::get_if<JournalWritten>(&event);
  const JournalWritten write = written != nullptr ? *written : JournalWritten();
  std::unique_lock lock(mutex_);
  JobActions actions = table_.handle(std::move(event), moment_of(clock_));
  lock.unlock();
  if (written != nullptr) this->written(write);
  perform(std::move(actions));
  answer_watchers();
}

void ClusterState::apply(Membership::Events events) {
  if (events.empty()) return;
  publish_members();
  for (JobEvent& event : events) {
    if (const auto* lost = std::get_if<WorkerLost>(&event)) {
      hands_.worker_lost(lost->worker, lost->reason);
    }
    apply(std::move(event));
  }
}

void ClusterState::written(const JournalWritten& event) {
  const auto found = changes_.find(event.write);
  if (found == changes_.end()) return;
  const std::string id = std::move(found->second);
  changes_.erase(found);
  if (!event.status.ok()) return;
  if (const auto view = job(id); view.ok()) hands_.job_changed(*view);
}

void ClusterState::perform(JobActions actions) {
  struct Performer {
    ClusterState& state;
    void operator()(WriteJournal& action) { state.perform(std::move(action)); }
    void operator()(StartRunners& action) { state.hands_.start_runners(std::move(action)); }
    void operator()(StopRunners& action) { state.hands_.stop_runners(std::move(action)); }
    void operator()(RunJob& action) { state.hands_.run_job(std::move(action)); }
    void operator()(YieldRun& action) { state.hands_.yield_run(std::move(action)); }
    void operator()(EndRun& action) { state.hands_.end_run(std::move(action)); }
    void operator()(RemoveJob& action) { state.hands_.remove_job(std::move(action)); }
    void operator()(ExpelWorker& action) { state.expel(action); }
    void operator()(Answer& action) { state.perform(std::move(action)); }
  };
  for (JobAction& action : actions) std::visit(Performer{*this}, action);
}

void ClusterState::perform(WriteJournal action) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&action.record)) {
    changes_[action.write] = submitted->id;
  } else if (const auto* changed = std::get_if<JobChanged>(&action.record)) {
    changes_[action.write] = changed->id;
  }
  hands_.write(std::move(action));
}

void ClusterState::perform(Answer action) {
  const auto found = tickets_.find(action.ticket);
  if (found == tickets_.end()) return;
  const auto done = std::move(found->second);
  tickets_.erase(found);
  done(std::move(action.view));
  if (settles_ != nullptr && tickets_.empty()) settles_->set_value();
}

void ClusterState::expel(const ExpelWorker& action) {
  std::unique_lock lock(mutex_);
  auto events = members_.lose(action.worker, action.reason, moment_of(clock_));
  lock.unlock();
  apply(std::move(events));
}

void ClusterState::publish_members() {
  std::unique_lock lock(mutex_);
  if (members_.version() == published_version_) return;
  published_version_ = members_.version();
  const auto workers = members_.workers(moment_of(clock_));
  lock.unlock();
  hands_.members_changed(workers);
}

void ClusterState::tick() {
  std::unique_lock lock(mutex_);
  auto events = members_.tick(moment_of(clock_));
  lock.unlock();
  apply(std::move(events));
  apply(Tick());
  watched_version_ = 0;  // deadlines
  answer_watchers();
}

void ClusterState::answer_watchers() {
  if (watchers_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (watched_version_ == table_.version()) return;
    watched_version_ = table_.version();
  }
  for (auto at = watchers_.begin(); at != watchers_.end();) {
    at = answer(*at) ? watchers_.erase(at) : std::next(at);
  }
}

bool ClusterState::answer(Watcher& watcher) {
  auto view = job(watcher.id);
  const bool late = watcher.deadline <= std::chrono::steady_clock::now();
  if (view.ok() && view->version <= watcher.seen && !late) return false;
  watcher.done(std::move(view));
  return true;
}

// Views -------------------------------------------------------------------------------------------

std::vector<JobView> ClusterState::jobs() const {
  const std::lock_guard lock(mutex_);
  return table_.jobs();
}

Result<JobView> ClusterState::job(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  return table_.find(id);
}

std::string ClusterState::job_of_request(const std::string& request_id) const {
  const std::lock_guard lock(mutex_);
  return table_.job_of_request(request_id);
}

std::vector<NodeView> ClusterState::nodes() const {
  const std::lock_guard lock(mutex_);
  std::vector<NodeView> nodes;
  for (WorkerView& worker : members_.workers(moment_of(clock_))) {
    const bool lives = worker.state != WorkerState::lost;
    std::string job = lives ? table_.job_on(worker.info.worker.name) : "";
    nodes.push_back({std::move(worker), std::move(job)});
  }
  return nodes;
}

std::optional<WorkerInfo> ClusterState::member(const WorkerRef& worker) const {
  const std::lock_guard lock(mutex_);
  const WorkerInfo* info = members_.find(worker.name);
  if (info == nullptr || info->worker != worker) return std::nullopt;
  return *info;
}

uint64_t ClusterState::membership_version() const {
  const std::lock_guard lock(mutex_);
  return members_.version();
}

Status ClusterState::journal_status() const {
  const std::lock_guard lock(mutex_);
  return table_.journal_status();
}

}  // namespace leat
