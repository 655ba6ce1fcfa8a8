// Random schedules of every event that jobs can have. The cluster's workers, runners and journal
// are simulated, and the invariants are checked after every event. A failure prints its seed.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "daemon/jobs/job_table.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr int kWorkers = 5;
constexpr uint32_t kLargestJob = 4;

struct SimulatedRunner {
  std::string job;
  uint64_t assembly = 0;
  uint64_t from = 0;  // the first assembly whose news counts
  enum { starting, advancing, there, stopping } phase = starting;
};

struct SimulatedWorker {
  uint64_t incarnation = 0;
  bool alive = false;
  bool draining = false;
  std::vector<SimulatedRunner> runners;  // there must never be two
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed), quick_(seed % 2 == 0) {
    if (pick(2) == 0) limits_.retention.max_bytes = pick(200);
    if (pick(2) == 0) limits_.retention.max_age = milliseconds(pick(20000));
    limits_.retention.max_jobs = static_cast<int64_t>(pick(7));
    limits_.max_unfinished = 12;
    limits_.keep_survivors = milliseconds(pick(20000));
    boot();
  }

  // Does one random event.
  void step() {
    // In half of the schedules most jobs get to run before the next thing happens.
    for (int i = 0; quick_ && i < 2 * kWorkers; ++i) write_one(), runner_moves();
    switch (pick(22)) {
      case 0:
        return submit();
      case 1:
        return pick(2) == 0 ? cancel() : pause(pick(2) == 0);
      case 2:
      case 3:
        return start_worker(pick_worker());
      case 4:
        return kill_worker(pick_worker());
      case 5:
        return send_of(pick_worker(), [&](WorkerRef worker) {
          return WorkerStuck{worker, "no progress for 10 s"};
        });
      case 6:
        return drain(pick_worker(), pick(2) == 0);
      case 7:
      case 8:
      case 9:
        return runner_moves();
      case 10:
        return runner_dies();
      case 11:
        return job_ends(pick(3));
      case 12:
        return progress();
      case 13:
        journal_works_ = pick(4) != 0;
        return;
      case 14:
        return tick(milliseconds(pick(3000)));
      case 15:
        return pick(5) == 0 ? crash() : tick(milliseconds(250));
      case 16:
        return stale_news();
      case 17:
        return job_yields();
      case 18:
        return pick(2) == 0 ? remove() : weigh();
      default:
        return write_one();
    }
  }

  // Ends all faults: from now on workers and runners obey.
  void heal() {
    journal_works_ = true;
    for (int i = 0; i < kWorkers; ++i) {
      start_worker(name(i));
      drain(name(i), false);
    }
  }
  bool calm_step() {
    while (!writes_.empty()) write_one();
    for (auto& [name, worker] : workers_) {
      if (!worker.alive) start_worker(name);
    }
    for (int i = 0; i < 2 * kWorkers; ++i) runner_moves();
    for (const JobView& job : table_->jobs()) {
      if (job.condition.state == JobState::paused)
        send(PauseAsked{open_ticket(), job.id, true, ""});
    }
    job_yields();
    job_ends(0);
    tick(milliseconds(250));
    // A removal waits while the journal refuses writes.
    bool ended = writes_.empty() && open_tickets_.empty() &&
                 static_cast<int64_t>(jobs()) <= limits_.retention.max_jobs;
    for (const JobView& job : table_->jobs()) ended = ended && has_ended(job.condition.state);
    return ended && table_->leases().free() == kWorkers;
  }
  size_t open_tickets() const { return open_tickets_.size(); }
  size_t driven() const { return driven_.size(); }
  size_t jobs() const { return table_->jobs().size(); }

  // The number of jobs that ran when a master died, and succeeded under a later one.
  size_t outlived() const { return outlived_; }
  // The number of runners that were kept for another assembly.
  size_t kept() const { return kept_; }
  // The number of runs that yielded at a fence, and of assemblies with fewer workers than the job's
  // most.
  size_t yielded() const { return yielded_; }
  size_t smaller() const { return smaller_; }
  // The number of jobs that were removed by request.
  size_t removed() const { return removed_; }

  // Checks what must hold after every event. Returns the first error, "" if there is none.
  std::string broken() {
    if (!broken_.empty()) return broken_;
    const std::vector<JobView> jobs = table_->jobs();
    for (const JobView& job : jobs) check_job(job);
    if (jobs.size() != journal_.size()) note("a job is lost, or was never written");
    for (const auto& [name, worker] : workers_) check_worker(name, worker);
    return broken_;
  }

 private:
  static std::string name(int i) { return cat("w", i); }
  uint64_t pick(uint64_t below) { return random_() % below; }
  std::string pick_worker() { return name(static_cast<int>(pick(kWorkers))); }
  void note(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }
  std::string holder(const std::string& worker) const {
    const std::vector<std::string> jobs = table_->jobs_on(worker);
    return jobs.empty() ? "" : jobs.front();
  }

  void check_job(const JobView& job) {
    const StoredJob* stored = journal_.find(job.id);
    if (stored == nullptr) return note(job.id + " is seen but not written");
    JobCondition seen = job.condition;
    if (seen.reason.starts_with(stored->condition.reason)) seen.reason = stored->condition.reason;
    if (!(seen == stored->condition)) note(job.id + " is seen otherwise than written");
    if (!has_ended(seen.state)) return;
    if (seen.state == JobState::failed && seen.reason.starts_with("the master")) {
      note(job.id + " fails since the master restarted");
    }
    const auto [ended, first] = ended_.emplace(job.id, seen);
    if (!(ended->second == seen)) note(job.id + " has changed after its end");
  }

  void check_worker(const std::string& name, const SimulatedWorker& worker) {
    if (worker.runners.size() > 1) note(name + " has runners of two assemblies");
    const uint64_t* incarnation = table_->leases().incarnation_of(name);
    const bool member = incarnation != nullptr;
    if (member != worker.alive || (member && *incarnation != worker.incarnation)) {
      note(name + " is not what the table of leases says");
    }
    for (const SimulatedRunner& runner : worker.runners) {
      if (holder(name) != runner.job) note(name + " runs a job that does not lease it");
    }
    const std::string job = holder(name);
    if (job.empty()) return;
    const auto view = table_->find(job);
    if (!view.ok()) return note(name + " is leased by a job that is not there");
    // A terminal job keeps a worker only for a runner that is being stopped.
    if (has_ended(view->condition.state) && worker.runners.empty())
      note(name + ": lease without end");
  }

  // Events ----------------------------------------------------------------------------------------

  void send(JobEvent event) { run(table_->handle(std::move(event), moment_of(clock_))); }

  template <typename Make>
  void send_of(const std::string& name, Make&& make) {
    const SimulatedWorker& worker = workers_[name];
    if (worker.alive) send(make(WorkerRef{name, worker.incarnation}));
  }

  void submit() {
    const uint64_t ticket = open_ticket();
    const uint64_t id = pick(3) == 0 ? pick(last_request_ + 1) : ++last_request_;
    // Sometimes a repeated request has other content.
    Submission submission =
        make_submission(cat("request-", id), "job", 1 + static_cast<uint32_t>(id % kLargestJob),
                        pick(10) == 0 ? "other\n" : "same\n");
    if (id % 3 == 0) submission.min_workers = (1 + submission.num_workers) / 2;
    submission.terms.priority = static_cast<int64_t>(id % 4) - 1;
    submission.terms.preemptible = id % 2 == 0;
    submission.terms.paused = id % 7 == 0;
    submission.terms.user = id % 5 == 0 ? "ann" : "bob";
    if (id % 3 == 1) submission.terms.max_run_time = milliseconds(20000);
    send(SubmitAsked{ticket, std::move(submission)});
  }
  void cancel() {
    const auto jobs = table_->jobs();
    if (jobs.empty()) return;
    send(CancelAsked{open_ticket(), jobs[pick(jobs.size())].id, "somebody"});
  }
  void pause(bool undo) {
    const auto jobs = table_->jobs();
    if (jobs.empty()) return;
    const std::string id = jobs[pick(jobs.size())].id;
    if (!has_ended(table_->find(id)->condition.state))
      send(PauseAsked{open_ticket(), id, undo, ""});
  }
  // Removes a job in any state. A live one refuses.
  void remove() {
    const auto jobs = table_->jobs();
    if (jobs.empty()) return;
    const uint64_t ticket = open_ticket();
    removals_.insert(ticket);
    send(RemoveAsked{ticket, jobs[pick(jobs.size())].id});
  }
  void weigh() {
    const auto jobs = table_->jobs();
    if (!jobs.empty()) send(JobWeighed{jobs[pick(jobs.size())].id, pick(100)});
  }
  uint64_t open_ticket() {
    open_tickets_.insert(++last_ticket_);
    return last_ticket_;
  }

  // Starts a worker, perhaps while the old one lives, as when the news of its end is late.
  void start_worker(const std::string& name) {
    SimulatedWorker& worker = workers_[name];
    if (worker.alive && pick(4) != 0) return;
    worker = {++last_incarnation_, true, false, {}};
    send(WorkerJoined{{name, worker.incarnation}});
  }
  void kill_worker(const std::string& name) {
    SimulatedWorker& worker = workers_[name];
    if (!worker.alive) return;
    worker.alive = false;
    worker.runners.clear();
    send(WorkerLost{{name, worker.incarnation}, "its connection closed"});
  }
  void drain(const std::string& name, bool draining) {
    workers_[name].draining = draining;
    send_of(name, [&](WorkerRef worker) { return WorkerDraining{worker, draining}; });
  }

  // Moves a runner on: a starting one has started, and a stopping one has ended.
  void runner_moves() {
    const std::string name = pick_worker();
    SimulatedWorker& worker = workers_[name];
    if (worker.runners.empty()) return;
    SimulatedRunner& runner = worker.runners.front();
    const WorkerRef ref{name, worker.incarnation};
    if (runner.phase == SimulatedRunner::starting || runner.phase == SimulatedRunner::advancing) {
      runner.phase = SimulatedRunner::there;
      runner.from = runner.assembly;
      send(RunnerStarted{runner.job, runner.assembly, ref});
    } else if (runner.phase == SimulatedRunner::stopping) {
      const SimulatedRunner gone = runner;
      worker.runners.clear();
      send(RunnerExited{gone.job, gone.assembly, ref, "has ended"});
    }
  }
  void runner_dies() {
    const std::string name = pick_worker();
    SimulatedWorker& worker = workers_[name];
    if (worker.runners.empty()) return;
    const SimulatedRunner gone = worker.runners.front();
    worker.runners.clear();
    // While it moves to another assembly, reports may name either.
    const uint64_t assembly = pick(2) == 0 ? gone.from : gone.assembly;
    send(RunnerExited{gone.job, assembly, {name, worker.incarnation}, "was killed by signal 9"});
  }

  void job_ends(uint64_t how) {
    std::vector<std::pair<std::string, uint64_t>> running(running_.begin(), running_.end());
    if (running.empty()) return;
    const auto [job, assembly] = running[pick(running.size())];
    running_.erase({job, assembly});
    if (how == 0) return send(JobFinished{job, assembly, "weights"});
    send(JobBroke{job, assembly,
                  how == 1 ? unavailable("a peer is gone") : internal_error("a bug")});
  }
  // A run that was asked to yield does so.
  void job_yields() {
    if (yielding_.empty()) return;
    const auto [asked, save] = *yielding_.begin();
    yielding_.erase(yielding_.begin());
    if (running_.erase(asked) == 0) return;
    ++yielded_;
    send(RunYielded{asked.first, asked.second, pick(100), save});
  }
  void progress() {
    for (const auto& [job, assembly] : running_) {
      return send(ProgressMade{job, assembly, {.step = pick(100), .steps = 100}});
    }
  }
  // Sends news of earlier assemblies and processes.
  void stale_news() {
    const auto jobs = table_->jobs();
    if (jobs.empty()) return;
    const JobView& job = jobs[pick(jobs.size())];
    const std::string name = pick_worker();
    const SimulatedWorker& worker = workers_[name];
    if (worker.alive && !worker.runners.empty() && pick(2) == 0) {
      const SimulatedRunner& runner = worker.runners.front();  // of this assembly or the one before
      return send(
          RunnerExited{runner.job, pick(runner.from), {name, worker.incarnation}, "late news"});
    }
    const WorkerRef past{pick_worker(), 1 + pick(last_incarnation_ + 1)};
    if (past.incarnation == workers_[past.name].incarnation) return;
    const uint64_t assembly = job.condition.assembly;
    switch (pick(4)) {
      case 0:
        return send(WorkerLost{past, "late news"});
      case 1:
        return send(RunnerStarted{job.id, assembly, past});
      case 2:
        return send(RunnerExited{job.id, assembly, past, "late news"});
      default:
        return send(JobFinished{job.id, assembly + 1 + pick(2), "late news"});
    }
  }

  void tick(milliseconds by) {
    clock_.advance(by);
    send(Tick{});
  }

  void write_one() {
    if (writes_.empty()) return;
    const WriteJournal write = std::move(writes_.front());
    writes_.pop_front();
    if (journal_works_) append(write.record);
    send(JournalWritten{write.write, journal_works_ ? Status() : resource_exhausted("disk full")});
  }
  void append(const JournalRecord& record) {
    if (const auto* changed = std::get_if<JobChanged>(&record)) {
      if (changed->condition.state == JobState::succeeded) outlived_ += ran_.erase(changed->id);
      assemblies_[changed->id] = changed->condition.assembly;
    }
    if (const auto* forgotten = std::get_if<JobForgotten>(&record)) {
      const StoredJob* job = journal_.find(forgotten->id);
      if (job == nullptr || !has_ended(job->condition.state)) {
        note(forgotten->id + " is dropped before its end");
      }
      ended_.erase(forgotten->id);  // a later job may have the same id
    }
    journal_.append(record);
  }

  // The master dies, and only some of the writes in progress are on disk. Its runners die, and
  // workers connect again.
  void crash() {
    for (uint64_t written = pick(writes_.size() + 1); written > 0; --written) {
      append(writes_.front().record);
      writes_.pop_front();
    }
    writes_.clear();
    open_tickets_.clear();
    running_.clear();
    yielding_.clear();
    driven_.clear();
    for (const StoredJob& job : journal_.replay()) {
      if (job.condition.state == JobState::running) ran_.insert(job.id);
    }
    for (auto& [name, worker] : workers_) worker.alive = false, worker.runners.clear();
    boot();
  }
  void boot() {
    table_ = std::make_unique<JobTable>(limits_, [this] { return random_(); });
    run(table_->restore(journal_.replay(), moment_of(clock_)));
  }

  // Actions ---------------------------------------------------------------------------------------

  void run(const JobActions& actions) {
    std::vector<WorkerRef> expelled;
    for (const JobAction& action : actions) {
      if (const auto* write = std::get_if<WriteJournal>(&action)) {
        writes_.push_back(*write);
      } else if (const auto* start = std::get_if<StartRunners>(&action)) {
        start_runners(*start);
      } else if (const auto* go = std::get_if<RunJob>(&action)) {
        go_job(*go);
      } else if (const auto* yield = std::get_if<YieldRun>(&action)) {
        if (!driven_.contains({yield->job, yield->assembly})) note(yield->job + " yields no run");
        yielding_[{yield->job, yield->assembly}] = yield->save;
      } else if (const auto* end = std::get_if<EndRun>(&action)) {
        end_run(*end);
      } else if (const auto* stop = std::get_if<StopRunners>(&action)) {
        stop_runners(*stop);
      } else if (const auto* expel = std::get_if<ExpelWorker>(&action)) {
        expelled.push_back(expel->worker);
      } else if (const auto* answer = std::get_if<Answer>(&action)) {
        take_answer(*answer);
      } else if (journal_.find(std::get<RemoveJob>(action).id) != nullptr) {
        note("a job is removed that the journal still has");
      }
    }
    for (const WorkerRef& worker : expelled) {
      if (workers_[worker.name].incarnation == worker.incarnation) kill_worker(worker.name);
    }
  }

  void start_runners(const StartRunners& start) {
    if (assemblies_[start.job] != start.assembly)
      note(start.job + " starts in an assembly not written");
    if (start.kept.size() != start.workers.size()) note(start.job + " does not say who is kept");
    const auto view = table_->find(start.job);
    const size_t most = view->num_workers;
    const size_t least = view->min_workers > 0 ? view->min_workers : most;
    if (start.workers.size() < least || start.workers.size() > most)
      note(start.job + " starts on too few workers, or on too many");
    if (start.workers.size() < most) ++smaller_;
    for (size_t task = 0; task < start.workers.size(); ++task) {
      const WorkerRef& ref = start.workers[task];
      SimulatedWorker& worker = workers_[ref.name];
      if (!worker.alive || worker.incarnation != ref.incarnation) {
        note(start.job + " starts on a worker that is gone");
      } else if (start.kept[task]) {
        advance(start, worker, {start.job, task});
      } else {
        worker.runners.push_back(
            {start.job, start.assembly, start.assembly, SimulatedRunner::starting});
        tasks_[{ref.name, ref.incarnation}] = {start.job, task};
      }
    }
  }
  void advance(const StartRunners& start, SimulatedWorker& worker,
               const std::pair<std::string, size_t>& task) {
    const auto kept = std::find_if(
        worker.runners.begin(), worker.runners.end(), [&](const SimulatedRunner& runner) {
          return runner.job == start.job && runner.assembly < start.assembly &&
                 runner.phase == SimulatedRunner::there;
        });
    if (kept == worker.runners.end()) return note(start.job + " keeps a runner that is not there");
    for (const auto& [name, other] : workers_) {
      if (&other != &worker) continue;
      auto& had = tasks_[{name, worker.incarnation}];
      if (had.first != task.first || (had != task && had.second < start.workers.size()))
        note(start.job + " gives a kept runner another task");
      had = task;
    }
    kept->assembly = start.assembly;
    kept->phase = SimulatedRunner::advancing;
    ++kept_;
  }
  void go_job(const RunJob& go) {
    for (const WorkerRef& ref : go.workers) {
      const SimulatedWorker& worker = workers_[ref.name];
      const bool there = worker.incarnation == ref.incarnation && worker.runners.size() == 1 &&
                         worker.runners[0].job == go.job &&
                         worker.runners[0].assembly == go.assembly;
      // The runner may have died while RUNNING was being written. Then the job breaks because of
      // that.
      if (there && worker.runners[0].phase != SimulatedRunner::there) {
        note(go.job + " runs on runners that are not there, or are to stop");
      }
    }
    if (!driven_.insert({go.job, go.assembly}).second) note(go.job + " runs twice in an assembly");
    running_.insert({go.job, go.assembly});
  }
  void end_run(const EndRun& end) {
    if (driven_.erase({end.job, end.assembly}) != 1) note(end.job + " ends a run that is none");
    running_.erase({end.job, end.assembly});
  }
  void stop_runners(const StopRunners& stop) {
    if (driven_.contains({stop.job, stop.assembly}) && table_->find(stop.job).ok() &&
        stop.workers.size() > 1) {
      note(stop.job + " loses runners while it is driven");
    }
    for (const WorkerRef& ref : stop.workers) {
      SimulatedWorker& worker = workers_[ref.name];
      if (worker.incarnation != ref.incarnation) continue;
      for (SimulatedRunner& runner : worker.runners) {
        const bool meant = runner.job == stop.job && runner.assembly <= stop.assembly;
        if (meant) runner.phase = SimulatedRunner::stopping;
      }
    }
  }
  void take_answer(const Answer& answer) {
    if (open_tickets_.erase(answer.ticket) != 1) note("a request is answered twice");
    if (!answer.view.ok()) return;
    const bool written = journal_.find(answer.view->id) != nullptr;
    const bool removal = removals_.erase(answer.ticket) == 1;
    if (removal) ++removed_;
    if (removal && written) note(answer.view->id + " is removed but not forgotten");
    if (!removal && !written) note(answer.view->id + " is acknowledged but not written");
  }

  std::mt19937_64 random_;
  const bool quick_;
  JobTableLimits limits_;
  ManualClock clock_;
  MemoryJournal journal_;
  bool journal_works_ = true;
  std::deque<WriteJournal> writes_;
  std::map<std::string, SimulatedWorker> workers_;
  std::set<std::pair<std::string, uint64_t>> driven_;          // between RunJob and EndRun
  std::map<std::pair<std::string, uint64_t>, bool> yielding_;  // were asked to yield, and to save
  std::set<std::pair<std::string, uint64_t>> running_;         // of these, not done or broken
  std::map<std::string, uint64_t> assemblies_;                 // as last written
  std::map<std::string, JobCondition> ended_;                  // as first seen
  std::set<uint64_t> open_tickets_, removals_;
  std::set<std::string> ran_;  // jobs that ran when a master died
  // The task and the job of each worker's last runner.
  std::map<std::pair<std::string, uint64_t>, std::pair<std::string, size_t>> tasks_;
  size_t outlived_ = 0;
  size_t kept_ = 0, yielded_ = 0, smaller_ = 0;
  uint64_t last_ticket_ = 0;
  size_t removed_ = 0;
  uint64_t last_request_ = 0;
  uint64_t last_incarnation_ = 0;
  std::unique_ptr<JobTable> table_;
  std::string broken_;
};

TEST_CASE("under random schedules no job is lost, no worker leased twice, and all ends well",
          "[minutes]") {
  constexpr uint64_t kSeeds = kSlowness > 1 ? 300 : 1000;
  constexpr int kSteps = 250;
  constexpr int kCalmSteps = 2000;
  size_t outlived = 0, kept = 0, yielded = 0, smaller = 0, removed = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("seed " << seed);
    Simulation simulation(seed);
    for (int i = 0; i < kSteps; ++i) {
      INFO("step " << i);
      simulation.step();
      const std::string broken = simulation.broken();
      if (!broken.empty()) FAIL(broken);
    }
    simulation.heal();
    int calm = 0;
    while (calm < kCalmSteps && !simulation.calm_step()) {
      const std::string broken = simulation.broken();
      if (!broken.empty()) FAIL(broken);
      ++calm;
    }
    REQUIRE(calm < kCalmSteps);
    REQUIRE(simulation.open_tickets() == 0);
    REQUIRE(simulation.driven() == 0);
    outlived += simulation.outlived();
    kept += simulation.kept();
    yielded += simulation.yielded();
    smaller += simulation.smaller();
    removed += simulation.removed();
  }
  CHECK(outlived > 0);
  CHECK(kept > kSeeds);
  CHECK(yielded > kSeeds / 20);
  CHECK(smaller > kSeeds / 4);
  CHECK(removed > kSeeds / 10);
}

}  // namespace
}  // namespace leat
