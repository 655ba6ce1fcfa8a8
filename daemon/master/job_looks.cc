#include "daemon/master/job_looks.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "daemon/master/cluster_state.h"
#include "daemon/master/journal_thread.h"
#include "daemon/master/workforce.h"
#include "daemon/remote/run_looks.h"
#include "daemon/wire/recording_file.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;
using Part = PartitionSituation;

constexpr auto kLook = milliseconds(900);  // the time that runners and workers have to answer
// Further looks at a job that moves.
constexpr int kMoreLooks = 14;
constexpr auto kMoreLook = milliseconds(200);
constexpr auto kBetween = milliseconds(35);
constexpr uint64_t kMostSteps = 1'000;

// The workers' answers about the processes of a job's runners. The callbacks share it. Threads:
// any.
struct Processes {
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = 0;
  std::map<std::string, Result<ProcessView>> by_worker;
};

std::shared_ptr<Processes> ask_workers(Workforce& workforce, const JobView& job,
                                       const std::vector<NodeView>& nodes, milliseconds deadline) {
  const auto all = std::make_shared<Processes>();
  for (const NodeView& node : nodes) {
    const WorkerRef& worker = node.worker.info.worker;
    const auto& of_job = job.condition.workers;
    if (std::find(of_job.begin(), of_job.end(), worker.name) == of_job.end()) continue;
    {
      const std::lock_guard lock(all->mutex);
      ++all->open;
    }
    workforce.look(worker, job.id, job.condition.assembly, deadline,
                   [all, name = worker.name](Result<ProcessView> view) {
                     const std::lock_guard lock(all->mutex);
                     all->by_worker.emplace(name, std::move(view));
                     --all->open;
                     all->changed.notify_all();
                   });
  }
  return all;
}

std::map<std::string, Result<ProcessView>> take(Processes& all, Steady::time_point until) {
  std::unique_lock lock(all.mutex);
  all.changed.wait_until(lock, until, [&] { return all.open == 0; });
  return all.by_worker;
}

RunnerSituation runner_of(const std::string& worker,
                          const std::map<std::string, Result<ProcessView>>& processes) {
  RunnerSituation runner;
  runner.worker = worker;
  const auto found = processes.find(worker);
  if (found == processes.end()) return runner;
  const Code code = found->second.status().code();
  runner.worker_answers = found->second.ok() || code == Code::failed_precondition;
  if (!found->second.ok()) return runner;
  runner.has_process = true;
  runner.process_state = found->second->state;
  runner.quiet = 1e-3 * static_cast<double>(found->second->quiet_ms);
  return runner;
}

// "cpu:0" of "job:worker/task:1/cpu:0".
std::string short_name(const std::string& device) {
  return device.substr(device.rfind('/') == std::string::npos ? 0 : device.rfind('/') + 1);
}

Part::State state_of(RunSight::State state) {
  switch (state) {
    case RunSight::State::idle:
      return Part::State::idle;
    case RunSight::State::working:
      return Part::State::working;
    case RunSight::State::receives:
      return Part::State::receives;
    case RunSight::State::sends:
      return Part::State::sends;
    case RunSight::State::blocked:
      break;
  }
  return Part::State::blocked;
}

const PlanInstruction* instruction_of(const RunLook& look) {
  const auto& instructions = look.plan->partitions[look.part.partition].instructions;
  const uint32_t at = look.standing.sight.instruction;
  return at < instructions.size() ? &instructions[at] : nullptr;
}

Part partition_of(const RunLook& look, const std::string& worker, uint64_t first_step) {
  const RunSight& sight = look.standing.sight;
  Part part;
  part.run = look.part.run;
  part.run_name = look.name;
  part.trains = look.trains;
  part.worker = worker;
  part.device = short_name(look.plan->partitions[look.part.partition].device);
  part.answers = look.answer.ok();
  part.state = state_of(sight.state);
  part.step = first_step + sight.turn;
  part.finished = sight.finished;
  part.allowed = sight.allowed;
  part.unchanged = 1e-3 * static_cast<double>(look.standing.unchanged_ms);
  if (const PlanInstruction* at = part.answers ? instruction_of(look) : nullptr) {
    const bool transfer = part.state == Part::State::receives || part.state == Part::State::sends;
    part.node =
        transfer && at->edge < look.plan->edges.size() ? look.plan->edges[at->edge].name : at->name;
    part.op = at->op && !transfer ? at->op->full_name() : "";
    part.reads_data = part.op == "leat.ReadBatch";
  }
  return part;
}

// The instruction of that kind on an edge.
uint32_t find_transfer(const Partition& partition, PlanInstruction::Kind kind, uint32_t edge) {
  for (uint32_t i = 0; i < partition.instructions.size(); ++i) {
    if (partition.instructions[i].kind == kind && partition.instructions[i].edge == edge) return i;
  }
  return kNone;
}

// True if the peer has gone past its end of the transfer that `look` waits for.
bool is_done(const RunLook& look, const RunLook& peer, uint32_t edge) {
  const RunSight& mine = look.standing.sight;
  const RunSight& its = peer.standing.sight;
  const bool receives = mine.state == RunSight::State::receives;
  // A slot has room for the values of kSlotDepth turns.
  if (!receives && mine.turn < kSlotDepth) return false;
  const uint64_t turn = receives ? mine.turn : mine.turn - kSlotDepth;
  if (its.turn != turn) return its.turn > turn;
  const bool waits = its.state == RunSight::State::receives ||
                     its.state == RunSight::State::sends || its.state == RunSight::State::blocked;
  if (!waits) return its.finished > turn;
  const Partition& partition = look.plan->partitions[peer.part.partition];
  const auto kind = receives ? PlanInstruction::Kind::send : PlanInstruction::Kind::retire;
  const uint32_t there = find_transfer(partition, kind, edge);
  return there != kNone && its.instruction != kNone && its.instruction > there;
}

// Finds the peers of partitions that wait. `looks` are in the order of the partitions.
void connect(const std::vector<const RunLook*>& looks, std::vector<Part>& partitions) {
  for (size_t i = 0; i < partitions.size(); ++i) {
    Part& part = partitions[i];
    if (part.state != Part::State::receives && part.state != Part::State::sends) continue;
    const PlanInstruction* at = part.answers ? instruction_of(*looks[i]) : nullptr;
    if (!at || at->edge >= looks[i]->plan->edges.size()) continue;
    const PlanEdge& edge = looks[i]->plan->edges[at->edge];
    const uint32_t other = part.state == Part::State::receives ? edge.from : edge.to;
    for (size_t p = 0; p < partitions.size(); ++p) {
      if (partitions[p].run != part.run || looks[p]->part.partition != other) continue;
      part.peer = p;
      part.peer_is_done = partitions[p].answers && is_done(*looks[i], *looks[p], at->edge);
    }
  }
}

void add_runs(const std::vector<RunnerLook>& runners, Situation& situation) {
  std::vector<const RunLook*> looks;
  for (const RunnerLook& runner : runners) {
    for (const RunLook& look : runner.runs) {
      if (!look.connected) continue;
      looks.push_back(&look);
      situation.partitions.push_back(partition_of(look, runner.facts.node, look.first_step));
    }
    for (RunnerSituation& each : situation.runners) {
      if (each.worker != runner.facts.node) continue;
      each.registered = true;
      each.answers = runner.answers;
      if (runner.calls.empty()) continue;
      each.call = runner.calls.front().doing;
      each.call_seconds = 1e-3 * static_cast<double>(runner.calls.front().since.count());
    }
  }
  connect(looks, situation.partitions);
}

// The runners of the job's assembly that the master has.
std::vector<std::shared_ptr<RemoteHost>> runners_of(Workforce& workforce, const JobView& job) {
  std::vector<std::shared_ptr<RemoteHost>> hosts;
  for (uint32_t task = 0; task < job.condition.workers.size(); ++task) {
    auto host = workforce.runner(job.id, job.condition.assembly, task);
    if (host.ok()) hosts.push_back(std::move(*host));
  }
  return hosts;
}

bool has_runners(JobState state) {
  return state == JobState::starting || state == JobState::running ||
         state == JobState::recovering || state == JobState::cancelling;
}

// Steps of the training that were done in all looks so far, for the speed.
uint64_t finished_steps(const Situation& situation) {
  uint64_t finished = 0;
  for (const Part& part : situation.partitions) {
    if (part.trains) finished = std::max(finished, part.finished);
  }
  return finished;
}

}  // namespace

void JobLooks::why(std::string id, Done<Diagnosis> done) {
  (void)why_.post([this, id = std::move(id), done] { done(diagnose(id)); });
}

void JobLooks::record(std::string id, uint64_t steps, Steady::time_point deadline,
                      Done<std::vector<std::byte>> done) {
  (void)recorder_.post(
      [this, id = std::move(id), steps, deadline, done] { done(record_now(id, steps, deadline)); });
}

void JobLooks::stop() {
  why_.stop();
  recorder_.stop();
}

Result<Situation> JobLooks::look(const std::string& id, milliseconds deadline) const {
  const auto until = Steady::now() + deadline;
  Situation situation;
  LEAT_ASSIGN_OR_RETURN(situation.job, parts_.state->tables().job(id));
  situation.now_ms = moment_of(parts_.clock).wall_ms;
  situation.nodes = parts_.state->tables().nodes();
  situation.journal = parts_.state->tables().journal_status();
  if (situation.job.condition.state == JobState::queued)
    situation.jobs = parts_.state->tables().jobs();
  if (!has_runners(situation.job.condition.state)) return situation;
  const auto processes = ask_workers(*parts_.workforce, situation.job, situation.nodes, deadline);
  const auto hosts = runners_of(*parts_.workforce, situation.job);
  const std::vector<RunnerLook> runners = look_at_runs(hosts, deadline);
  const auto found = take(*processes, until);
  for (const std::string& worker : situation.job.condition.workers)
    situation.runners.push_back(runner_of(worker, found));
  add_runs(runners, situation);
  return situation;
}

// A job that moves is looked at several times: what most looks have in common is what it waits for.
Result<Diagnosis> JobLooks::diagnose(const std::string& id) const {
  const auto begun = Steady::now();
  LEAT_ASSIGN_OR_RETURN(const Situation first, look(id, kLook));
  if (!moves(first)) return find_culprit(first);
  std::vector<Diagnosis> looks{find_culprit(first)};
  const uint64_t before = finished_steps(first);
  uint64_t after = before;
  for (int i = 0; i < kMoreLooks; ++i) {
    std::this_thread::sleep_for(kBetween);
    LEAT_ASSIGN_OR_RETURN(const Situation next, look(id, kMoreLook));
    // It has stopped between two looks, or it has ended.
    if (!moves(next)) return find_culprit(next);
    looks.push_back(find_culprit(next));
    after = std::max(after, finished_steps(next));
    if (Steady::now() - begun > kLook) break;
  }
  const double seconds = std::chrono::duration<double>(Steady::now() - begun).count();
  return most_common(looks, static_cast<double>(after - before) / seconds);
}

Result<std::vector<std::byte>> JobLooks::record_now(const std::string& id, uint64_t steps,
                                                    Steady::time_point deadline) const {
  if (steps < 1 || steps > kMostSteps) {
    return invalid_argument(cat("record: expected 1 to ", kMostSteps, " steps, received ", steps));
  }
  LEAT_ASSIGN_OR_RETURN(const JobView job, parts_.state->tables().job(id));
  if (job.condition.state != JobState::running) {
    return failed_precondition(cat("job '", job.id, "' is ", name_of(job.condition.state),
                                   "; expected one that is RUNNING"));
  }
  const auto hosts = runners_of(*parts_.workforce, job);
  LEAT_ASSIGN_OR_RETURN(StepRecording recording, record_steps(hosts, steps, deadline));
  recording.job = job.id;
  return write_recording(recording);
}

}  // namespace leat
