#include "tests/daemon/jobs/table_driver.h"

#include "devices/base/text.h"
#include "tests/catch.h"

namespace leat {

void MemoryJournal::append(const JournalRecord& record) {
  if (const auto* submitted = std::get_if<JobSubmitted>(&record)) {
    REQUIRE(!jobs_.contains(submitted->id));
    jobs_[submitted->id] = stored(*submitted);
  } else if (const auto* changed = std::get_if<JobChanged>(&record)) {
    REQUIRE(jobs_.contains(changed->id));
    StoredJob& job = jobs_.at(changed->id);
    if (!may_become(job.condition.state, changed->condition.state)) {
      FAIL(changed->id << " goes from " << name_of(job.condition.state) << " to "
                       << name_of(changed->condition.state));
    }
    job.become(changed->condition);
    for (const LostAssembly& each : changed->lost) job.history.put(each);
    if (changed->ended_with) job.ended_with = changed->ended_with;
  } else if (const auto* noted = std::get_if<JobNoted>(&record)) {
    REQUIRE(jobs_.contains(noted->id));
    for (const LostAssembly& each : noted->lost) jobs_.at(noted->id).history.put(each);
    for (const FiredFault& each : noted->fired) jobs_.at(noted->id).fired.push_back(each);
  } else {
    REQUIRE(jobs_.erase(std::get<JobForgotten>(record).id) == 1);
  }
}

std::vector<StoredJob> MemoryJournal::replay() const {
  std::map<uint64_t, StoredJob> by_number;
  for (const auto& [id, job] : jobs_) by_number[job.number] = job;
  std::vector<StoredJob> jobs;
  for (const auto& [number, job] : by_number) jobs.push_back(job);
  return jobs;
}

const StoredJob* MemoryJournal::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : &found->second;
}

Submission make_submission(const std::string& request_id, const std::string& name,
                           uint32_t num_workers, const std::string& text) {
  Submission submission;
  submission.request_id = request_id;
  submission.name = name;
  submission.text = text;
  submission.num_workers = num_workers;
  return submission;
}

TableDriver::TableDriver(const JobTableLimits& limits) : limits_(limits) { restart(); }

void TableDriver::restart() {
  held.clear();
  table = std::make_unique<JobTable>(limits_, [this] { return random_++; });
  run(table->restore(journal.replay(), moment_of(clock)));
}

void TableDriver::send(JobEvent event) { run(table->handle(std::move(event), moment_of(clock))); }

void TableDriver::run(JobActions actions) {
  for (const JobAction& action : actions) perform(action);
  if (running_) return;
  running_ = true;
  while (!events_.empty()) {
    JobEvent event = std::move(events_.front());
    events_.pop_front();
    send(std::move(event));
  }
  running_ = false;
}

void TableDriver::perform(const JobAction& action) {
  if (const auto* write = std::get_if<WriteJournal>(&action)) {
    if (hold_writes) return held.push_back(*write);
    if (write_status.ok()) journal.append(write->record);
    events_.push_back(JournalWritten{write->write, write_status});
  } else if (const auto* start = std::get_if<StartRunners>(&action)) {
    note("start", start->job, start->assembly, start->workers, start->kept);
  } else if (const auto* go = std::get_if<RunJob>(&action)) {
    note("run", go->job, go->assembly, go->workers);
  } else if (const auto* yield = std::get_if<YieldRun>(&action)) {
    note(yield->save ? "save and yield" : "yield", yield->job, yield->assembly, {});
  } else if (const auto* end = std::get_if<EndRun>(&action)) {
    note("end", end->job, end->assembly, {});
  } else if (const auto* stop = std::get_if<StopRunners>(&action)) {
    note("stop", stop->job, stop->assembly, stop->workers);
  } else if (const auto* expel = std::get_if<ExpelWorker>(&action)) {
    log_ += "expel " + expel->worker.name + "\n";
  } else if (const auto* answer = std::get_if<Answer>(&action)) {
    REQUIRE(answers.emplace(answer->ticket, answer->view).second);
  } else {
    log_ += "remove " + std::get<RemoveJob>(action).id + "\n";
  }
}

void TableDriver::release_writes() {
  hold_writes = false;
  const std::deque<WriteJournal> writes = std::exchange(held, {});
  for (const WriteJournal& write : writes) {
    if (write_status.ok()) journal.append(write.record);
    send(JournalWritten{write.write, write_status});
  }
}

void TableDriver::note(const std::string& verb, const std::string& job, uint64_t assembly,
                       const std::vector<WorkerRef>& workers, const std::vector<bool>& kept) {
  log_ += cat(verb, " ", job, " ", assembly);
  for (size_t i = 0; i < workers.size(); ++i)
    log_ += cat(" ", workers[i].name, i < kept.size() && kept[i] ? "*" : "");
  log_ += "\n";
}

void TableDriver::tick(std::chrono::milliseconds by) {
  clock.advance(by);
  send(Tick{});
}

void TableDriver::join(const std::string& worker, uint64_t incarnation) {
  send(WorkerJoined{{worker, incarnation}});
}

void TableDriver::lose(const std::string& worker, uint64_t incarnation) {
  send(WorkerLost{{worker, incarnation}, "its connection closed"});
}

std::string TableDriver::submit(const std::string& name, uint32_t num_workers,
                                uint32_t max_restarts, uint32_t min_workers) {
  Submission submission = make_submission(cat("request-", ticket_ + 1), name, num_workers);
  submission.max_restarts = max_restarts;
  submission.min_workers = min_workers;
  return submit(std::move(submission));
}

std::string TableDriver::submit(const std::string& name, uint32_t num_workers,
                                const QueueTerms& terms, uint32_t min_workers) {
  Submission submission = make_submission(cat("request-", ticket_ + 1), name, num_workers);
  submission.max_restarts = 3;
  submission.min_workers = min_workers;
  submission.terms = terms;
  return submit(std::move(submission));
}

std::string TableDriver::submit(Submission submission) {
  const uint64_t ticket = ++ticket_;
  send(SubmitAsked{ticket, std::move(submission)});
  REQUIRE(answers.contains(ticket));
  REQUIRE(answers.at(ticket).status().message() == "");
  return answers.at(ticket)->id;
}

void TableDriver::start_all(const std::string& id) {
  const auto view = table->find(id);
  REQUIRE(view.ok());
  for (const std::string& worker : view->condition.workers) {
    const uint64_t* incarnation = table->leases().incarnation_of(worker);
    const uint64_t of = incarnation == nullptr ? 1 : *incarnation;
    send(RunnerStarted{view->id, view->condition.assembly, {worker, of}});
  }
}

void TableDriver::exit_all(const std::string& id) {
  const auto view = table->find(id);
  REQUIRE(view.ok());
  for (const std::string& worker : view->condition.workers) {
    const uint64_t* incarnation = table->leases().incarnation_of(worker);
    if (incarnation == nullptr) continue;
    send(RunnerExited{view->id, view->condition.assembly, {worker, *incarnation}, "has ended"});
  }
}

std::string TableDriver::state(const std::string& id) const {
  const auto view = table->find(id);
  return view.ok() ? std::string(name_of(view->condition.state)) : view.status().message();
}

std::string TableDriver::holder(const std::string& worker) const {
  const std::vector<std::string> jobs = table->jobs_on(worker);
  return jobs.empty() ? "" : jobs.front();
}

std::string TableDriver::reason(const std::string& id) const {
  const auto view = table->find(id);
  return view.ok() ? view->condition.reason : view.status().message();
}

std::string TableDriver::done() { return std::exchange(log_, ""); }

std::string TableDriver::answer(uint64_t ticket) const {
  const auto found = answers.find(ticket);
  if (found == answers.end()) return "";
  if (!found->second.ok()) return found->second.status().to_string();
  return cat("ok ", name_of(found->second->condition.state));
}

}  // namespace leat
