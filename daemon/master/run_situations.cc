#include "daemon/master/run_situations.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "ops/definitions/input.h"
#include "scheduler/graph/device_name.h"
#include "transport/slots.h"

namespace leat {
namespace {

using Part = PartitionSituation;

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
    part.reads_data = part.op == kReadBatch;
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

// The worker of a device of the job; "" for a name that is no device's.
std::string worker_of(const Situation& situation, const std::string& device) {
  for (const std::string& part : split_name(device, '/')) {
    const std::vector<std::string> word = split_name(part, ':');
    if (word.size() != 2 || word[0] != "task") continue;
    const auto& workers = situation.job.condition.workers;
    const size_t task = std::strtoull(word[1].c_str(), nullptr, 10);
    if (task < workers.size()) return workers[task];
  }
  return "";
}

// A partition of the same run of which no runner has told.
Part unknown_part(const Situation& situation, const RunLook& of, uint32_t partition) {
  const std::string& device = of.plan->partitions[partition].device;
  Part part;
  part.run = of.part.run;
  part.run_name = of.name;
  part.trains = of.trains;
  part.worker = worker_of(situation, device);
  part.device = short_name(device);
  part.answers = false;
  return part;
}

// Finds the peers of partitions that wait. `looks` are in the order of the partitions.
void connect_parts(const std::vector<const RunLook*>& looks, Situation& situation) {
  std::vector<Part>& partitions = situation.partitions;
  for (size_t i = 0; i < looks.size(); ++i) {
    const RunLook& look = *looks[i];
    const Part::State state = partitions[i].state;
    if (state != Part::State::receives && state != Part::State::sends) continue;
    const PlanInstruction* at = partitions[i].answers ? instruction_of(look) : nullptr;
    if (!at || at->edge >= look.plan->edges.size()) continue;
    const PlanEdge& edge = look.plan->edges[at->edge];
    const uint32_t other = state == Part::State::receives ? edge.from : edge.to;
    size_t peer = Part::kNobody;
    for (size_t p = 0; p < looks.size(); ++p) {
      if (looks[p]->part.run == look.part.run && looks[p]->part.partition == other) peer = p;
    }
    if (peer == Part::kNobody) {
      peer = partitions.size();
      partitions.push_back(unknown_part(situation, look, other));
    } else if (partitions[peer].answers) {
      partitions[i].peer_is_done = is_done(look, *looks[peer], at->edge);
    }
    partitions[i].peer = peer;
  }
}

void add_calls(const RunnerLook& look, RunnerSituation& runner) {
  runner.registered = true;
  runner.answers = look.answers;
  if (look.calls.empty()) return;
  const PendingCall& oldest = look.calls.front();
  runner.call = oldest.doing;
  runner.call_reads_data = oldest.doing == kInspectingData;
  runner.call_writes_files = oldest.doing == kWritingSnapshot;
  runner.call_seconds = 1e-3 * static_cast<double>(oldest.since.count());
}

}  // namespace

void add_runs(const std::vector<RunnerLook>& looks, Situation& situation) {
  std::vector<const RunLook*> runs;
  for (const RunnerLook& runner : looks) {
    for (const RunLook& run : runner.runs) {
      if (!run.connected) continue;
      runs.push_back(&run);
      situation.partitions.push_back(partition_of(run, runner.facts.node, run.first_step));
    }
    for (RunnerSituation& each : situation.runners) {
      if (each.worker == runner.facts.node) add_calls(runner, each);
    }
  }
  connect_parts(runs, situation);
}

}  // namespace leat
