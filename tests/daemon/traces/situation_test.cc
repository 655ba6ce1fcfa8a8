// The reasons that follow from made-up situations of a job.
#include "daemon/traces/situation.h"

#include "tests/catch.h"

namespace leat {
namespace {

using Part = PartitionSituation;
using State = Part::State;

// A job on workers w0, w1, ... that computes everywhere.
Situation running(size_t workers) {
  Situation s;
  s.job.id = "job-1";
  s.job.num_workers = static_cast<uint32_t>(workers);
  s.job.condition.state = JobState::running;
  s.now_ms = 10'000;
  for (size_t w = 0; w < workers; ++w) {
    const std::string name = "w" + std::to_string(w);
    NodeView node;
    node.worker.info.worker.name = name;
    node.job = s.job.id;
    s.nodes.push_back(node);
    s.job.condition.workers.push_back(name);
    RunnerSituation runner;
    runner.worker = name;
    runner.registered = runner.answers = runner.worker_answers = runner.has_process = true;
    runner.process_state = 'S';
    runner.quiet = 0.1;
    s.runners.push_back(runner);
    Part part;
    part.run_name = "train";
    part.trains = true;
    part.worker = name;
    part.device = "cpu:0";
    part.state = State::working;
    part.step = 7;
    part.finished = 7;
    part.allowed = 100;
    part.unchanged = 5;
    s.partitions.push_back(part);
  }
  return s;
}

void waits(Situation& s, size_t waiter, size_t peer, State state = State::receives) {
  s.partitions[waiter].state = state;
  s.partitions[waiter].node = "sum/bucket 3";
  s.partitions[waiter].peer = peer;
}

void check(const Situation& s, std::string_view kind, const std::string& subject) {
  const Diagnosis found = find_culprit(s);
  INFO(found.sentence);
  CHECK(found.kind == kind);
  CHECK(found.subject == subject);
  CHECK(!found.sentence.empty());
  CHECK(!found.chain.empty());
}

TEST_CASE("the client of a session keeps it if it has no call open") {
  Situation s = running(2);
  for (Part& part : s.partitions) part.state = State::idle;
  s.session = SessionSituation{1, 12};
  check(s, culprit::kClient, "job-1");
  CHECK(find_culprit(s).sentence.find("has asked for nothing for 12.0 s") != std::string::npos);
  s.session->clients = 0;
  check(s, culprit::kClient, "job-1");
  CHECK(find_culprit(s).sentence.find("No client holds the session") != std::string::npos);
  // A dead runner comes first.
  s.runners[1].process_state = 'T';
  s.runners[1].answers = false;
  s.runners[1].quiet = 2;
  check(s, culprit::kRunner, "w1");
  // A step that it waits for is a matter of the devices.
  s = running(2);
  s.session = SessionSituation{1, -1};
  waits(s, 0, 1);
  check(s, culprit::kCompute, "w1");
}

TEST_CASE("a job whose devices wait for the master may wait for its disk") {
  Situation s = running(2);
  for (Part& part : s.partitions) {
    part.state = State::idle;
    part.allowed = part.finished;
  }
  s.disk = DiskWait{"to sync '/state/jobs/job-1/metrics.jsonl'", 2.5};
  check(s, culprit::kDisk, "master");
  CHECK(find_culprit(s).sentence ==
        "The job waits for the master's disk, which has taken 2.5 s so far to sync "
        "'/state/jobs/job-1/metrics.jsonl'.");
  SECTION("an operation that has just begun is no reason") {
    s.disk->seconds = 0.1;
    check(s, culprit::kMaster, "master");
  }
  SECTION("its steps do not wait for the journal") {
    s.disk.reset();
    s.journal_disk = DiskWait{"to write the journal", 9};
    check(s, culprit::kMaster, "master");
  }
  s.runners[1].call = "taking a snapshot";
  s.runners[1].call_seconds = 3;
  SECTION("a runner that does not answer comes first") { check(s, culprit::kRunner, "w1"); }
  s.runners[1].call = "writing a snapshot";
  s.runners[1].call_writes_files = true;
  SECTION("but not one that writes beside the steps") { check(s, culprit::kDisk, "master"); }
  SECTION("the master may wait for that, too") {
    s.disk.reset();
    check(s, culprit::kDisk, "w1");
  }
}

TEST_CASE("a job whose devices compute does not wait for the master's disk") {
  Situation s = running(1);
  s.disk = s.journal_disk = DiskWait{"to write the journal", 9};
  check(s, culprit::kCompute, "w0");
}

TEST_CASE("a job that cannot begin before the journal is written waits for the disk") {
  Situation s = running(1);
  s.runners.clear();
  s.partitions.clear();
  s.journal_disk = DiskWait{"to write the journal", 4};
  s.job.condition.state = JobState::starting;
  check(s, culprit::kDisk, "master");
  s.job.condition.state = JobState::queued;
  s.job.number = 7;
  s.nodes[0].job.clear();
  check(s, culprit::kDisk, "master");
  // Other reasons come first: no free worker has its data, a job stands before it, or all workers
  // are taken.
  s.job.condition.reason = "no worker has the data set 'faces'";
  check(s, culprit::kDevices, "workers");
  s.job.condition.reason.clear();
  JobView other;
  other.number = 3;
  other.condition.state = JobState::queued;
  s.jobs = {other};
  check(s, culprit::kQueue, "queue");
  s.nodes[0].job = "job-0";
  check(s, culprit::kQueue, "job-0");
}

TEST_CASE("a job that has evaluated another as far as it has come waits for it") {
  Situation s = running(1);
  s.partitions.clear();
  s.job.condition.reason = std::string(kWaitsForCheckpoint) + "cnn-1', which is PAUSED";
  check(s, culprit::kJob, "cnn-1");
}

TEST_CASE("a chain of waits leads to the worker that waits for no other") {
  Situation s = running(4);
  waits(s, 0, 1);
  waits(s, 1, 2, State::sends);
  waits(s, 2, 3);
  s.partitions[3].op = "MatMul";
  s.partitions[3].node = "mm";
  SECTION("which computes") {
    check(s, "compute", "w3");
    const Diagnosis found = find_culprit(s);
    REQUIRE(found.chain.size() == 4);
    CHECK(found.chain[0] == "w0 cpu:0 at step 7 waits for 'sum/bucket 3' of w1 cpu:0.");
    CHECK(found.chain[3] == "w3 cpu:0 at step 7 runs MatMul 'mm'.");
  }
  SECTION("which reads data") {
    s.partitions[3].reads_data = true;
    check(s, "input", "w3");
  }
  SECTION("which is blocked in a queue") {
    s.partitions[3].state = State::blocked;
    check(s, "blocked", "w3");
  }
  SECTION("whose runner is stopped") {
    s.runners[3].process_state = 'T';
    s.runners[3].answers = s.partitions[3].answers = false;
    s.runners[3].quiet = 1.4;
    check(s, "runner", "w3");
  }
  SECTION("whose worker is stopped") {
    s.runners[3].worker_answers = false;
    s.nodes[3].worker.silent = std::chrono::milliseconds(1'500);
    check(s, "worker", "w3");
  }
}

TEST_CASE("a value that was sent and has not come is a matter of the link") {
  Situation s = running(3);
  waits(s, 2, 1);
  s.partitions[2].peer_is_done = true;
  s.partitions[2].unchanged = 6;
  check(s, "link", "w1 - w2");
  // Two that wait for each other have both sent.
  s = running(2);
  waits(s, 0, 1);
  waits(s, 1, 0);
  check(s, "link", "w0 - w1");
}

TEST_CASE("devices that may not go on wait for the master, or for a call to a runner") {
  Situation s = running(2);
  for (Part& part : s.partitions) {
    part.state = State::idle;
    part.allowed = part.finished;
  }
  check(s, "master", "master");
  s.runners[1].call = "reading a snapshot";
  s.runners[1].call_seconds = 4;
  check(s, "runner", "w1");
  // No word of a call decides the kind.
  s.runners[1].call = "copying a data set";
  check(s, "runner", "w1");
  s.partitions.clear();
  check(s, "runner", "w1");
  s.runners[1].call_reads_data = true;
  check(s, "input", "w1");
}

TEST_CASE("a wait for an unknown device is no wait for the master") {
  Situation s = running(1);
  waits(s, 0, Part::kNobody);
  check(s, "blocked", "w0");
  CHECK(find_culprit(s).sentence ==
        "w0 waits for 5.0 s for 'sum/bucket 3', and the master does not know at which device.");
}

TEST_CASE("a time that rounds to nothing is left out") {
  Situation s = running(1);
  s.partitions[0].unchanged = 0.01;
  s.partitions[0].op = "MatMul";
  s.partitions[0].node = "mm";
  CHECK(find_culprit(s).sentence == "w0 computes MatMul 'mm'.");
  s.partitions[0].reads_data = true;
  CHECK(find_culprit(s).sentence == "w0 reads data in MatMul 'mm'.");
  s.partitions[0].unchanged = 2;
  CHECK(find_culprit(s).sentence == "w0 reads data in MatMul 'mm', without an end for 2.0 s.");
}

TEST_CASE("a disk that is full is named before all waits") {
  Situation s = running(2);
  waits(s, 0, 1);
  s.journal = resource_exhausted("journal: No space left on device");
  check(s, "disk", "master");
  s = running(2);
  s.job.condition.reason = "waits for room: a limit";
  check(s, "disk", "master");
  s.job.condition.reason = "the graph 'No space left' has changed";
  check(s, "compute", "w0");
}

TEST_CASE("a job in the queue tells what it waits for") {
  Situation s = running(3);
  s.job.condition.state = JobState::queued;
  s.job.condition.workers.clear();
  s.partitions.clear();
  s.runners.clear();
  for (NodeView& node : s.nodes) node.job.clear();
  SECTION("workers that do not exist") {
    s.job.num_workers = 5;
    check(s, "devices", "workers");
  }
  SECTION("another job") {
    s.nodes[1].job = "job-0";
    check(s, "queue", "job-0");
  }
  SECTION("a job before it") {
    JobView other;
    other.number = 1;
    s.job.number = 2;
    s.jobs = {other, s.job};
    check(s, "queue", "queue");
  }
  SECTION("the quota of its user, whether workers are free or not") {
    s.job.condition.reason =
        "waits for 2 workers: 'ann' may hold 3 workers together (quotas.workers), and holds 2";
    check(s, "queue", "quota");
    for (NodeView& node : s.nodes) node.job = "job-0";
    check(s, "queue", "quota");
  }
  SECTION("a drained worker") {
    s.nodes[2].worker.state = WorkerState::draining;
    check(s, "drained", "w2");
  }
  SECTION("a lost worker") {
    s.nodes[0].worker.state = WorkerState::lost;
    check(s, "worker", "w0");
  }
  SECTION("an elastic job needs fewer") {
    s.job.num_workers = 5;
    s.job.min_workers = 4;
    check(s, "devices", "workers");
  }
}

TEST_CASE("a job that is paused waits for a user to resume it") {
  Situation s = running(2);
  s.job.condition.reason = "paused by ann";
  for (const JobState state : {JobState::paused, JobState::pausing}) {
    s.job.condition.state = state;
    check(s, "paused", "job-1");
    CHECK(find_culprit(s).advice == "leat resume job-1 lets it go on.");
  }
}

TEST_CASE("a job that recovers waits for the worker that it lost, or for its runner") {
  Situation s = running(2);
  s.job.condition.state = JobState::recovering;
  s.job.condition.reason = "worker 'w1' was lost";
  s.runners[1].registered = false;
  check(s, "start", "w1");
  s.job.position = 1;
  s.nodes[1].worker.state = WorkerState::lost;
  s.nodes[1].job.clear();
  check(s, "worker", "w1");
  CHECK(find_culprit(s).chain.front() == "The job recovers: worker 'w1' was lost");
  s.nodes[1].worker.state = WorkerState::draining;
  check(s, "drained", "w1");
}

TEST_CASE("a job that recovers and has its workers does not wait for others") {
  Situation s = running(2);
  s.job.condition.state = JobState::recovering;
  s.job.condition.reason = "waits a while, since it failed before it had come farther";
  s.job.position = 1;
  check(s, "start", "master");
  // After a restart of the master, a worker that has not come back is in no node.
  s.nodes.pop_back();
  check(s, "worker", "w1");
}

TEST_CASE("a job that starts waits for the runner that is not there") {
  Situation s = running(2);
  s.job.condition.state = JobState::starting;
  s.partitions.clear();
  s.runners[1].registered = s.runners[1].answers = false;
  check(s, "start", "w1");
  s.runners[1].process_state = 'T';
  s.runners[1].quiet = 2;
  check(s, "runner", "w1");
  s.job.condition.state = JobState::recovering;
  s.job.condition.reason = "w1's runner was killed by signal 9";
  CHECK(find_culprit(s).chain.front().find("killed by signal 9") != std::string::npos);
}

TEST_CASE("a job that has ended says so") {
  Situation s = running(1);
  s.job.condition.state = JobState::failed;
  s.job.condition.reason = "the loss is NaN";
  check(s, "ended", "job-1");
}

TEST_CASE("a job that moves gets the reason that most looks have") {
  Situation s = running(2);
  for (Part& part : s.partitions) part.unchanged = 0.01;
  CHECK(moves(s));
  s.runners[0].process_state = 'T';
  CHECK_FALSE(moves(s));
  Diagnosis link, compute;
  link.kind = "link";
  link.subject = "w0 - w1";
  link.sentence = "The link.";
  compute.kind = "compute";
  const std::vector<Diagnosis> looks{link, compute, link};
  const Diagnosis found = most_common(looks, 12.5);
  CHECK(found.kind == "link");
  CHECK(found.sentence == "The job goes on. In 2 of 3 looks: The link.");
  CHECK(found.chain.front() == "The job goes on, with 12.5 steps/s.");
}

}  // namespace
}  // namespace leat
