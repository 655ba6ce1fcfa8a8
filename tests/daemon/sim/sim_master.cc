#include "tests/daemon/sim/sim_master.h"

#include <algorithm>

#include "devices/base/text.h"
#include "tests/daemon/sim/sim_run.h"

namespace leat::sim {
namespace {

using std::chrono::milliseconds;

constexpr Ms kTick = 100;
constexpr Ms kExitNews = 100, kExitDeadline = 2'000;

}  // namespace

SimMaster::SimMaster(Cluster& cluster)
    : cluster_(cluster),
      world_(cluster.world),
      files_(std::make_unique<CrashFiles>()),
      disk_(std::make_unique<SimDisk>(files_, health, cluster.mutation)) {
  process.name = "master";
  if (cluster.has_real_journal) real_ = std::make_unique<SimJournal>(health);
}

SimMaster::~SimMaster() = default;

void SimMaster::boot() {
  if (process.alive) return;
  if (!open_journal()) return world_.after(500, [this] { boot(); });
  process = {"master", process.life + 1, true, 0};
  journal_broken_ = false;
  in_the_air_.clear();
  world_.trace("the master starts");
  life_ = std::make_unique<Life>();
  JobTableLimits limits;
  limits.start_timeout = milliseconds(8000);
  limits.grow_after = milliseconds(200);
  life_->table = std::make_unique<JobTable>(limits, [this] { return world_.pick(UINT64_MAX); });
  life_->members = std::make_unique<Membership>(MembershipLimits());
  run(life_->table->restore(journal_.replay(), moment_of(world_.clock()), ++generation_));
  tick();
}

void SimMaster::kill(bool loses_power) {
  if (!process.alive) return;
  world_.trace("the master is killed", loses_power ? ", and loses its power" : "");
  process.alive = false;
  cluster_.network.died(process);
  // The batch that was being written is on disk or not, as a whole.
  const bool is_written = world_.chance(50);
  if (real_ != nullptr) {
    if (!journal_broken_)
      for (const WriteJournal& write : in_the_air_) maybe_there_.push_back(write.record);
    real_->crash(journal_broken_ ? std::vector<JournalRecord>() : maybe_there_, loses_power,
                 world_.pick(UINT64_MAX));
  } else if (is_written) {
    for (const WriteJournal& write : in_the_air_) append(write.record);
  }
  if (loses_power) {
    const size_t before = files_->operations();
    for (const auto& [job, run] : life_->runs)
      if (run->writing) (void)write_checkpoint(*run, run->writing->first, run->writing->second);
    const size_t done = before + world_.pick(files_->operations() - before + 1);
    files_ = std::make_unique<CrashFiles>(files_->after_crash(done, world_.pick(UINT64_MAX)));
  }
  life_.reset();
}

// Returns false if the disk does not yet allow it.
bool SimMaster::open_journal() {
  if (real_ == nullptr) return true;
  const auto jobs = real_->open();
  if (!jobs.ok()) {
    const Code code = jobs.status().code();
    if (code != Code::unavailable && code != Code::resource_exhausted)
      world_.broken("the journal is refused: ", jobs.status().message());
    return false;
  }
  const auto records = std::exchange(maybe_there_, {});
  if (*jobs == journal_.replay()) return true;
  for (const JournalRecord& record : records) append(record);
  if (*jobs != journal_.replay()) world_.broken("the journal holds other jobs than were written");
  return true;
}

// Writes all of the records or none. After a failed sync the outcome is unknown.
Status SimMaster::append_to_real(const std::vector<JournalRecord>& records) {
  const Status status = real_->append(records);
  if (status.ok() || status.code() == Code::resource_exhausted || journal_broken_) return status;
  journal_broken_ = true;  // until the master starts again
  maybe_there_ = records;
  return status;
}

// Events and actions ------------------------------------------------------------------------------

void SimMaster::handle(JobEvent event) {
  if (cluster_.mutation == Mutation::assembly_unchecked) {
    std::visit(
        [&](auto& each) {
          if constexpr (requires { each.assembly, each.job; }) {
            const auto view = life_->table->find(each.job);
            if (view.ok()) each.assembly = view->condition.assembly;
          }
        },
        event);
  }
  run(life_->table->handle(std::move(event), moment_of(world_.clock())));
}

void SimMaster::apply(const Membership::Events& events) {
  for (const JobEvent& event : events) {
    if (const auto* lost = std::get_if<WorkerLost>(&event)) worker_lost(lost->worker, lost->reason);
    handle(event);
  }
}

void SimMaster::run(const JobActions& actions) {
  for (const JobAction& action : actions)
    std::visit([this](const auto& each) { perform(each); }, action);
}

void SimMaster::tick() {
  apply(life_->members->tick(moment_of(world_.clock())));
  handle(Tick{});
  check_views();
  world_.after(process, kTick, [this] { tick(); });
}

// Checks that the journal has everything that clients may see, and that ended jobs do not change.
void SimMaster::check_views() {
  for (const JobView& job : life_->table->jobs()) {
    const StoredJob* stored = journal_.find(job.id);
    if (stored == nullptr) {
      world_.broken(job.id, " is seen but not written");
      continue;
    }
    const JobCondition& seen = job.condition;
    if (seen.state != stored->condition.state || seen.assembly != stored->condition.assembly)
      world_.broken(job.id, " is seen otherwise than written");
    if (!has_ended(seen.state)) continue;
    const auto [first, fresh] = ended_.emplace(job.id, seen);
    if (!(first->second == seen)) world_.broken(job.id, " has changed after its end");
    if (!fresh) continue;
    const Request& request = cluster_.request_of(job.id);
    if (seen.state == JobState::succeeded &&
        seen.result.weights_sha256 != result_of(request.twin.back()))
      world_.broken(job.id, " ends with other weights than its twin");
    if (seen.state == JobState::failed) world_.broken(job.id, " has failed: ", seen.reason);
    if (seen.state == JobState::cancelled && !request.cancelled)
      world_.broken(job.id, " is cancelled, and nobody has asked for it");
  }
}

void SimMaster::perform(const WriteJournal& action) {
  life_->writes.push_back(action);
  if (cluster_.mutation == Mutation::acknowledged_unwritten) {
    world_.after(process, 0, [this, write = action.write] {
      handle(JournalWritten{write, Status()});
    });
  }
  write_pending();
}

void SimMaster::write_pending() {
  if (life_->writing || life_->writes.empty()) return;
  life_->writing = true;
  in_the_air_ = std::exchange(life_->writes, {});
  world_.after(process, world_.between(1, 8) + health.slow,
               [this] { written(std::exchange(in_the_air_, {})); });
}

void SimMaster::written(std::vector<WriteJournal> batch) {
  if (real_ != nullptr) {
    std::vector<JournalRecord> records;
    for (const WriteJournal& each : batch) records.push_back(each.record);
    const Status all = append_to_real(records);
    life_->writing = false;
    write_pending();
    for (size_t i = 0; i < batch.size(); ++i) {
      // A record that cannot be written must not refuse the others of its batch.
      const Status status = all.ok() || batch.size() == 1 ? all : append_to_real({records[i]});
      if (status.ok()) append(records[i]);
      handle(JournalWritten{batch[i].write, status});
    }
    return;
  }
  Status status;
  if (health.failing) journal_broken_ = true;  // until the master starts again
  if (journal_broken_) status = unavailable("input/output error");
  if (status.ok() && health.full) status = resource_exhausted("no space left on device");
  const bool told = cluster_.mutation == Mutation::acknowledged_unwritten;
  if (status.ok() || told)
    for (const WriteJournal& each : batch) append(each.record);
  life_->writing = false;
  write_pending();
  if (told) return;
  for (const WriteJournal& each : batch) handle(JournalWritten{each.write, status});
}

void SimMaster::append(const JournalRecord& record) {
  if (const auto* changed = std::get_if<JobChanged>(&record)) {
    const JobCondition& to = changed->condition;
    world_.trace("journal: ", changed->id, " ", name_of(to.state), " assembly ", to.assembly,
                 " on ", join(to.workers, ","), " ", to.reason);
    if (to.state == JobState::paused) ++paused;
    if (to.reason.starts_with("makes way for")) ++made_way;
    if (cluster_.mutation == Mutation::acknowledged_unwritten &&
        journal_.find(changed->id) == nullptr)
      return world_.broken(changed->id, " changes and was never written");
  } else if (const auto* submitted = std::get_if<JobSubmitted>(&record)) {
    world_.trace("journal: ", submitted->id, " is submitted");
  }
  journal_.append(record);
}

void SimMaster::perform(const Answer& action) {
  const auto found = life_->tickets.find(action.ticket);
  if (found == life_->tickets.end()) return world_.broken("a request is answered twice");
  const Done done = std::move(found->second);
  life_->tickets.erase(found);
  done(action.view);
}

void SimMaster::perform(const RemoveJob& action) {
  if (journal_.find(action.id) != nullptr) world_.broken(action.id, " is removed, not forgotten");
}

void SimMaster::perform(const ExpelWorker& action) {
  if (cluster_.mutation == Mutation::lease_kept) return;
  apply(life_->members->lose(action.worker, action.reason, moment_of(world_.clock())));
}

void SimMaster::submit(const Submission& submission, Done done) {
  life_->tickets[++life_->last_ticket] = std::move(done);
  SubmitAsked asked{life_->last_ticket, submission};
  if (cluster_.mutation == Mutation::request_unknown)
    asked.submission.request_id += cat("-", cluster_.fresh());
  handle(std::move(asked));
}

void SimMaster::cancel(const std::string& id, Done done) {
  life_->tickets[++life_->last_ticket] = std::move(done);
  handle(CancelAsked{life_->last_ticket, id, "somebody"});
}

void SimMaster::pause(const std::string& id, bool undo, Done done) {
  life_->tickets[++life_->last_ticket] = std::move(done);
  handle(PauseAsked{life_->last_ticket, id, undo, "somebody"});
}

void SimMaster::drain(const std::string& worker, bool draining) {
  if (!process.alive) return;
  const auto events = life_->members->drain(worker, draining, moment_of(world_.clock()));
  if (events.ok()) apply(*events);
}

std::vector<JobView> SimMaster::jobs() const {
  return process.alive ? life_->table->jobs() : std::vector<JobView>();
}

// Workers -----------------------------------------------------------------------------------------

void SimMaster::worker_connects(SimWorker* worker, const WorkerRef& ref,
                                const std::vector<HeldRunner>& held, EndPtr end) {
  WorkerInfo info;
  info.worker = ref;
  info.address = "sim";
  info.devices.resize(1);
  info.runners = held;
  auto joined = life_->members->join(info, moment_of(world_.clock()));
  end->send([worker, ref, status = joined.status()] {
    if (worker->incarnation == ref.incarnation) worker->registered(status);
  });
  if (!joined.ok()) return;
  world_.trace(ref.name, " joins as ", ref.incarnation);
  end->on_closed = [this, ref] {
    apply(life_->members->lose(ref, "its connection has ended", moment_of(world_.clock())));
  };
  life_->workers[ref] = {worker, std::move(end)};
  for (const HeldRunner& each : held)
    life_->slots[{each.job, each.assembly}].try_emplace(
        each.task, Slot{worker, ref, nullptr, nullptr, each.assembly});
  apply(*joined);
}

Status SimMaster::heard(const Heartbeat& heartbeat) {
  return life_->members->heard(heartbeat, moment_of(world_.clock()));
}

// The worker is no member any more: closes its connections, and counts its runners as ended.
void SimMaster::worker_lost(const WorkerRef& worker, const std::string& reason) {
  world_.trace("master: ", worker.name, " of ", worker.incarnation, " is lost: ", reason);
  for (auto& [of, slots] : life_->slots) {
    std::erase_if(slots, [&, assembly = of](auto& each) {
      if (each.second.ref != worker) return false;
      if (each.second.end != nullptr) each.second.end->close();
      const auto run = life_->runs.find(assembly.first);
      if (run != life_->runs.end() && run->second->action.assembly == assembly.second)
        broke(*run->second, unavailable(cat("its worker was lost: ", reason)));
      return true;
    });
  }
  const auto found = life_->workers.find(worker);
  if (found == life_->workers.end()) return;
  found->second.end->close();
  life_->workers.erase(found);
}

void SimMaster::perform(const StartRunners& action) {
  for (uint64_t task = 0; task < action.workers.size(); ++task) {
    if (task < action.kept.size() && action.kept[task]) {
      keep_runner(action, task);
      continue;
    }
    const WorkerRef& ref = action.workers[task];
    const auto found = life_->workers.find(ref);
    if (found == life_->workers.end()) continue;  // the table will hear that the worker was lost
    SimWorker* worker = found->second.worker;
    life_->slots[{action.job, action.assembly}][task] = {worker, ref, nullptr, nullptr,
                                                         action.assembly};
    found->second.end->send([worker, ref, job = action.job, assembly = action.assembly, task] {
      if (worker->incarnation == ref.incarnation) worker->start(job, assembly, task);
    });
  }
}

// Moves a runner of an earlier assembly into this one: tells its worker first, then the runner.
void SimMaster::keep_runner(const StartRunners& action, uint64_t task) {
  const WorkerRef ref = action.workers[task];
  const std::string job = action.job;
  const uint64_t assembly = action.assembly;
  const auto found = life_->workers.find(ref);
  if (found == life_->workers.end()) return;
  for (auto& [of, slots] : life_->slots) {
    if (of.first != job) continue;
    const auto slot = std::find_if(slots.begin(), slots.end(),
                                   [&](const auto& each) { return each.second.ref == ref; });
    if (slot == slots.end()) continue;
    if (slot->first != task) ++resized;
    if (slot->second.runner == nullptr || !slot->second.end->is_open()) break;
    Slot moved = std::move(slot->second);
    slots.erase(slot);
    life_->slots[{job, assembly}][task] = moved;
    ++kept;
    // Tells the worker first, then the runner itself.
    SimWorker* worker = found->second.worker;
    return found->second.end->send([this, worker, slot = moved, job, assembly, task] {
      const Status status = worker->advance(job, assembly);
      worker->control()->send([this, slot, job, assembly, task, status] {
        if (!status.ok()) return stop(slot.ref, job, assembly, 0, "could not go on");
        slot.end->send([this, slot, job, assembly, task] {
          slot.runner->advance(assembly, task);
          slot.runner->master->send([this, slot, job, assembly, task] {
            const auto now = life_->slots.find({job, assembly});
            if (now == life_->slots.end() || !now->second.contains(task) ||
                now->second[task].runner != slot.runner)
              return;
            now->second[task].from = assembly;
            handle(RunnerStarted{job, assembly, slot.ref});
          });
        });
      });
    });
  }
  stop(ref, job, assembly, 0, "could not go on: its connection is gone");
}

void SimMaster::perform(const StopRunners& action) {
  for (const WorkerRef& worker : action.workers)
    stop(worker, action.job, action.assembly, action.grace.count(),
         "was stopped: " + action.reason);
}

void SimMaster::stop(const WorkerRef& ref, const std::string& job, uint64_t assembly, Ms grace,
                     const std::string& how) {
  const auto found = life_->workers.find(ref);
  if (found == life_->workers.end()) return;
  SimWorker* worker = found->second.worker;
  found->second.end->send([this, worker, ref, job, assembly, grace, how] {
    if (worker->incarnation != ref.incarnation) return;
    worker->stop(job, assembly, grace, [this, worker, ref, job, assembly, how] {
      worker->tell_master(
          [this, ref, job, assembly, how] { runner_exited(ref, job, assembly, how); });
    });
  });
}

void SimMaster::runner_connects(SimRunner& runner, EndPtr end) {
  auto& slots = life_->slots[{runner.job, runner.assembly}];
  const auto found = slots.find(runner.task);
  const WorkerRef ref{runner.worker.name, runner.worker.incarnation};
  if (found == slots.end() || found->second.ref != ref || found->second.runner != nullptr) {
    end->send([&runner] { runner.refused = true; });
    return end->close();
  }
  taken_up += runner.was_seated;
  end->send([&runner] {
    runner.was_seated = true;
    runner.alone_since = runner.refused_since = -1;
  });
  found->second.runner = &runner;
  found->second.end = end;
  end->on_closed = [this, &runner, ref] {
    const std::string job = runner.job;
    const auto slot_of = [this, &runner]() -> std::pair<const Assembly, std::map<uint64_t, Slot>>* {
      for (auto& each : life_->slots) {
        for (const auto& [task, slot] : each.second)
          if (slot.runner == &runner) return &each;
      }
      return nullptr;
    };
    world_.after(process, kExitNews, [this, slot_of] {
      auto* slots = slot_of();
      if (slots == nullptr) return;
      const auto run = life_->runs.find(slots->first.first);
      if (run != life_->runs.end() && run->second->action.assembly == slots->first.second)
        broke(*run->second, unavailable("its connection to the master has ended"));
    });
    world_.after(process, kExitDeadline, [this, slot_of, ref] {
      auto* slots = slot_of();
      if (slots == nullptr) return;
      stop(ref, slots->first.first, slots->first.second, 0, "lost its connection to the master");
    });
  };
  handle(RunnerStarted{runner.job, runner.assembly, ref});
}

void SimMaster::runner_exited(const WorkerRef& worker, const std::string& job, uint64_t assembly,
                              const std::string& how) {
  if (cluster_.mutation == Mutation::lease_kept && !how.starts_with("was killed")) return;
  for (auto& [of, slots] : life_->slots) {
    if (of.first != job) continue;
    std::erase_if(slots, [&, number = of.second](auto& each) {
      if (each.second.ref != worker || each.second.from > assembly) return false;
      const auto run = life_->runs.find(job);
      if (run != life_->runs.end() && run->second->action.assembly == number)
        broke(*run->second, unavailable(cat("its process ", how)));
      return true;
    });
  }
  std::erase_if(life_->slots, [](const auto& each) { return each.second.empty(); });
  handle(RunnerExited{job, assembly, worker, how});
}

// The end -----------------------------------------------------------------------------------------

std::string SimMaster::leftovers() const {
  if (!process.alive) return "the master is dead";
  for (const JobView& job : life_->table->jobs())
    if (!has_ended(job.condition.state))
      return cat(job.id, " is ", name_of(job.condition.state), " ", job.condition.reason);
  if (!life_->tickets.empty()) return "a request is not answered";
  if (!life_->writes.empty() || life_->writing) return "a record is not written";
  for (const auto& [assembly, slots] : life_->slots)
    if (!slots.empty()) return cat("a runner of ", assembly.first, " is not forgotten");
  if (life_->table->leases().free() != cluster_.workers.size())
    return cat(life_->table->leases().free(), " of ", cluster_.workers.size(), " workers are free");
  for (const auto& worker : cluster_.workers)
    if (!worker->runners.empty()) return cat(worker->runners.front()->process.name, " is there");
  return "";
}

}  // namespace leat::sim
