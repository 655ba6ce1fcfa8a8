// The situation of made-up runs: which device waits for which other one.
#include "daemon/master/run_situations.h"

#include "tests/catch.h"

namespace leat {
namespace {

using State = RunSight::State;
using PlanKind = PlanInstruction::Kind;

// Two devices; the first sends the value "sum" to the second.
std::shared_ptr<const Plan> plan_of_two() {
  auto plan = std::make_shared<Plan>();
  for (const char* device : {"job:worker/task:0/cpu:0", "job:worker/task:1/cpu:0"}) {
    plan->partitions.emplace_back();
    plan->partitions.back().device = device;
    plan->partitions.back().instructions.resize(2);
  }
  plan->edges.emplace_back();
  plan->edges[0].name = "sum";
  plan->edges[0].from = 0;
  plan->edges[0].to = 1;
  plan->partitions[0].instructions[1].kind = PlanKind::send;
  plan->partitions[0].instructions[1].edge = 0;
  plan->partitions[1].instructions[0].kind = PlanKind::receive;
  plan->partitions[1].instructions[0].edge = 0;
  return plan;
}

RunnerLook look_at(const std::string& worker, uint32_t partition, State state,
                   uint32_t instruction) {
  RunLook run;
  run.part.run = 3;
  run.part.partition = partition;
  run.plan = plan_of_two();
  run.name = "train";
  run.trains = run.connected = true;
  run.standing.sight.state = state;
  run.standing.sight.instruction = instruction;
  run.standing.sight.turn = run.standing.sight.finished = 7;
  run.standing.sight.allowed = 100;
  RunnerLook look;
  look.facts.node = worker;
  look.answers = true;
  look.runs.push_back(run);
  return look;
}

Situation of_two() {
  Situation s;
  s.job.condition.state = JobState::running;
  s.job.condition.workers = {"w0", "w1"};
  s.runners.resize(2);
  s.runners[0].worker = "w0";
  s.runners[1].worker = "w1";
  for (const std::string& worker : s.job.condition.workers) {
    NodeView node;
    node.worker.info.worker.name = worker;
    s.nodes.push_back(node);
  }
  return s;
}

TEST_CASE("a partition that waits knows the partition at the other end") {
  Situation s = of_two();
  add_runs({look_at("w0", 0, State::working, kNone), look_at("w1", 1, State::receives, 0)}, s);
  REQUIRE(s.partitions.size() == 2);
  CHECK(s.partitions[1].node == "sum");
  CHECK(s.partitions[1].peer == 0);
  CHECK_FALSE(s.partitions[1].peer_is_done);
  CHECK(s.partitions[0].node.empty());
  CHECK(find_culprit(s).subject == "w0");
}

TEST_CASE("a partition of which no runner has told is one that does not answer") {
  Situation s = of_two();
  add_runs({look_at("w1", 1, State::receives, 0)}, s);
  REQUIRE(s.partitions.size() == 2);
  CHECK(s.partitions[0].peer == 1);
  CHECK(s.partitions[1].worker == "w0");
  CHECK_FALSE(s.partitions[1].answers);
  const Diagnosis found = find_culprit(s);
  CHECK(found.kind == "runner");
  CHECK(found.subject == "w0");
}

TEST_CASE("the oldest call to a runner tells whether it reads the data") {
  for (const bool reads : {true, false}) {
    Situation s = of_two();
    RunnerLook look;
    look.facts.node = "w1";
    look.calls.push_back(
        {reads ? std::string(kInspectingData) : "preparing", std::chrono::milliseconds(1'500)});
    add_runs({look}, s);
    CHECK(s.runners[1].call_reads_data == reads);
    CHECK(s.runners[1].call_seconds == Approx(1.5));
    CHECK(find_culprit(s).kind == (reads ? "input" : "runner"));
  }
}

}  // namespace
}  // namespace leat
