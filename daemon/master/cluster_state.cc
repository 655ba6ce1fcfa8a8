#include "daemon/master/cluster_state.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

Status stopping() { return cancelled("the master is stopping"); }

}  // namespace

ClusterState::ClusterState(const ClusterStateOptions& options, std::function<uint64_t()> random,
                           const Clock& clock, ClusterHands& hands)
    : hands_(hands),
      tables_(options.jobs, options.members, std::move(random), clock),
      watchers_([this](const std::string& id) { return tables_.job(id); }),
      thread_("jobs", options.tick, [this] { tick(); }) {}

// Once it has returned, reads of the state show all restored jobs.
void ClusterState::start(const std::vector<StoredJob>& jobs,
                         std::set<std::string, std::less<>> drained, uint64_t generation) {
  // The tables are filled on the calling thread; the actions belong to the thread "jobs".
  JobActions actions = tables_.restore(jobs, std::move(drained), generation);
  post([this, actions = std::move(actions)]() mutable { perform(std::move(actions)); });
}

void ClusterState::settle(std::chrono::milliseconds most) {
  // The promise is shared with the task, which may run after `most` is over.
  const auto settled = std::make_shared<std::promise<void>>();
  auto answered = settled->get_future();
  post([this, settled] { tickets_.settle(settled); });
  (void)answered.wait_for(most);
}

void ClusterState::stop() {
  // After the thread has ended, its tickets and watchers belong to this one.
  thread_.stop();
  tickets_.cancel(stopping());
  watchers_.cancel(stopping());
}

// Requests ----------------------------------------------------------------------------------------

void ClusterState::post(std::function<void()> task) { (void)thread_.post(std::move(task)); }

void ClusterState::handle(JobEvent event) {
  post([this, event = std::move(event)]() mutable { apply(std::move(event)); });
}

// `done` is told also if the thread has stopped.
void ClusterState::ask(Done<JobView> done, std::function<JobEvent(uint64_t ticket)> event) {
  const bool posted = thread_.post([this, done, event = std::move(event)] {
    // A request that comes after settle() is refused, since its answer might come after the stop.
    if (tickets_.settling()) return done(stopping());
    apply(event(tickets_.open(done)));
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

void ClusterState::pause(std::string id, bool undo, std::string by, Done<JobView> done) {
  ask(std::move(done), [id = std::move(id), undo, by = std::move(by)](uint64_t ticket) {
    return PauseAsked{ticket, id, undo, by};
  });
}

void ClusterState::remove(std::string id, Done<JobView> done) {
  ask(std::move(done), [id = std::move(id)](uint64_t ticket) { return RemoveAsked{ticket, id}; });
}

void ClusterState::watch(std::string id, uint64_t seen,
                         std::chrono::steady_clock::time_point deadline, Done<JobView> done) {
  const bool posted = thread_.post([this, id = std::move(id), seen, deadline, done]() mutable {
    watchers_.add({std::move(id), seen, deadline, std::move(done)});
  });
  if (!posted) done(stopping());
}

void ClusterState::fault_due(FaultAsked fault, std::function<void(Status)> done) {
  // A fault is asked for like a request of a client, because it waits for the journal, too.
  ask([done = std::move(done)](const Result<JobView>& view) { done(view.status()); },
      [fault = std::move(fault)](uint64_t ticket) mutable {
        fault.ticket = ticket;
        return std::move(fault);
      });
}

void ClusterState::drain(std::string name, bool draining, Done<NodeView> done) {
  const bool posted = thread_.post([this, name = std::move(name), draining, done] {
    auto events = tables_.change_members(
        [&](Membership& members, const Moment& now) { return members.drain(name, draining, now); });
    if (!events.ok()) return done(events.status());
    apply(std::move(*events));
    // The answer is read after the events, so it shows what they did to the worker.
    for (NodeView& node : tables_.nodes()) {
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
    auto events = tables_.change_members(
        [&](Membership& members, const Moment& now) { return members.retire(worker, now); });
    if (events.ok()) apply(std::move(*events));
    done(events.status());
  });
  if (!posted) done(stopping());
}

void ClusterState::join(WorkerInfo info, std::function<void(Status)> done) {
  const bool posted = thread_.post([this, info = std::move(info), done] {
    auto events = tables_.change_members(
        [&](Membership& members, const Moment& now) { return members.join(info, now); });
    if (events.ok()) apply(std::move(*events));
    done(events.status());
  });
  if (!posted) done(stopping());
}

void ClusterState::heard(Heartbeat heartbeat) {
  post([this, heartbeat = std::move(heartbeat)] {
    // A worker that is not a member was told so already.
    (void)tables_.change_members(
        [&](Membership& members, const Moment& now) { return members.heard(heartbeat, now); });
  });
}

void ClusterState::lose(WorkerRef worker, std::string reason) {
  post([this, worker = std::move(worker), reason = std::move(reason)] { expel({worker, reason}); });
}

// Events and actions ------------------------------------------------------------------------------

void ClusterState::apply(JobEvent event) {
  // The event is moved into the table, so what is needed of it afterwards is copied before.
  const auto* written = std::get_if<JournalWritten>(&event);
  const JournalWritten write = written != nullptr ? *written : JournalWritten();
  JobActions actions = tables_.handle(std::move(event));
  // The hands hear of a change that is written before they perform its actions, so that the job's
  // log has the change before its consequences.
  if (written != nullptr) this->written(write);
  perform(std::move(actions));
  watchers_.answer(tables_.jobs_version());
}

void ClusterState::apply(Membership::Events events) {
  if (events.empty()) return;
  // The heart server gets the new members first: a lost worker is refused from then on.
  if (const auto workers = tables_.changed_members()) hands_.members_changed(*workers);
  for (JobEvent& event : events) {
    if (const auto* lost = std::get_if<WorkerLost>(&event)) {
      hands_.worker_lost(lost->worker, lost->reason);
    }
    apply(std::move(event));
  }
}

void ClusterState::written(const JournalWritten& event) {
  // Other records than changes of jobs, such as faults, are not in the map.
  const auto found = changes_.find(event.write);
  if (found == changes_.end()) return;
  const std::string id = std::move(found->second);
  changes_.erase(found);
  if (!event.status.ok()) return;
  if (const auto view = tables_.job(id); view.ok()) hands_.job_changed(*view);
}

void ClusterState::perform(JobActions actions) {
  // There is one function for each kind of action; a new kind does not compile without one.
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
    void operator()(Answer& action) { state.tickets_.answer(std::move(action)); }
  };
  for (JobAction& action : actions) std::visit(Performer{*this}, action);
}

void ClusterState::perform(WriteJournal action) {
  // The number of the write leads from the journal's answer back to the job.
  if (const auto* submitted = std::get_if<JobSubmitted>(&action.record)) {
    changes_[action.write] = submitted->id;
  } else if (const auto* changed = std::get_if<JobChanged>(&action.record)) {
    changes_[action.write] = changed->id;
  }
  hands_.write(std::move(action));
}

void ClusterState::expel(const ExpelWorker& action) {
  // The table asks for it, or the worker's connection has ended. No events come for a worker that
  // is not a member any more, so both may happen.
  apply(tables_.change_members([&](Membership& members, const Moment& now) {
    return members.lose(action.worker, action.reason, now);
  }));
}

void ClusterState::tick() {
  // The members come first, so that the table's own tick knows which workers were found silent.
  apply(tables_.change_members(
      [](Membership& members, const Moment& now) { return members.tick(now); }));
  apply(Tick());
  watchers_.answer_late();
}

}  // namespace leat
