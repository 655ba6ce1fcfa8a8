// Tests runs on runners that do what the test says: the master's calls, and the culprit that it
// names.
#include <chrono>
#include <mutex>
#include <thread>

#include "daemon/remote/remote_hosts.h"
#include "daemon/remote/run_looks.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/remote/scripted_runner.h"
#include "tests/daemon/session_testing.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using testing::check_says;
using testing::ScriptedReport;
using testing::ScriptedRunner;
using Steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Returns a plan with only the parts that the master reads: feed "x" (float[n]) of task 0, its
// fetches "loss" and "v", and fetch "w" of task 1.
std::shared_ptr<const Plan> two_part_plan(int64_t n = 2) {
  Plan plan;
  plan.name = "two";
  for (int task = 0; task < 2; ++task) {
    Partition partition;
    partition.device = cat("job:worker/task:", task, "/cpu:0");
    PlanValue x;
    x.type.dtype = DType::f32;
    x.type.shape = Shape{n};
    x.name = "x";
    partition.values.push_back(x);
    partition.feeds.push_back(task == 0 ? 0 : kNone);
    partition.arena_bytes = 4096;
    plan.partitions.push_back(std::move(partition));
  }
  plan.feeds.push_back({"x", DType::f32, Shape{n}, 0});
  plan.fetches.push_back({"loss", DType::f32, Shape{}, 0});
  plan.fetches.push_back({"v", DType::f64, Shape{2}, 0});
  plan.fetches.push_back({"w", DType::f32, Shape{3}, 1});
  return std::make_shared<const Plan>(std::move(plan));
}

// Fake runners, and the cluster that they form.
struct Fakes {
  explicit Fakes(uint32_t count = 2) : loop(must(RpcLoop::start())) {
    for (uint32_t task = 0; task < count; ++task)
      nodes.push_back(std::make_unique<ScriptedRunner>(*loop, task));
    RemoteHostsOptions options;
    options.assembly = 0;  // so that a run's number is the one that its master gave it
    options.transport = "tcp";
    hosts_ = make_remote_hosts(*loop, remotes(), std::move(options));
  }
  ScriptedRunner& node(size_t task) { return *nodes[task]; }
  HostGroup& hosts() { return *hosts_; }
  Result<std::unique_ptr<PlanRun>> run(std::shared_ptr<const Plan> plan) {
    return hosts().run(std::move(plan), "small", {"test", 1, 10});
  }
  // A run that trains, which can be recorded.
  std::unique_ptr<PlanRun> train() {
    RunOptions options;
    options.name = "train";
    options.trains = true;
    return must(hosts().run(two_part_plan(), "small", options));
  }
  std::vector<std::shared_ptr<RemoteHost>> remotes() const {
    std::vector<std::shared_ptr<RemoteHost>> out;
    for (const auto& node : nodes) out.push_back(node->remote());
    return out;
  }

  std::unique_ptr<RpcLoop> loop;
  std::vector<std::unique_ptr<ScriptedRunner>> nodes;
  std::unique_ptr<HostGroup> hosts_;
};

Bytes row_of(const std::vector<std::pair<const void*, size_t>>& fetches) {
  Bytes row;
  for (const auto& [data, size] : fetches) {
    const auto* begin = static_cast<const std::byte*>(data);
    row.insert(row.end(), begin, begin + size);
    row.resize((row.size() + 7) / 8 * 8);
  }
  return row;
}
Bytes row_of_task_0(float loss, double v0, double v1) {
  const double v[] = {v0, v1};
  return row_of({{&loss, sizeof loss}, {v, sizeof v}});
}
Bytes row_of_task_1(float w) {
  const float values[] = {w, w + 1, w + 2};
  return row_of({{values, sizeof values}});
}

Steady::time_point in(std::chrono::milliseconds time) { return Steady::now() + time; }

}  // namespace

TEST_CASE("all runners prepare before one connects, and connect at the same time", "[cluster]") {
  Fakes fakes;
  // Links behave like this: no end is connected before the other one is there.
  fakes.node(0).ends("connect", std::nullopt);
  fakes.node(1).ends("connect", std::nullopt);
  std::vector<std::string> before;
  fakes.node(1).when("upload", [&] { before = fakes.node(0).calls(); });
  std::thread opener([&] {
    fakes.node(0).await_calls("connect");
    fakes.node(1).await_calls("connect");
    CHECK(fakes.node(0).calls() ==
          std::vector<std::string>{"prepare 1 0", "upload", "connect 1 test tcp to 2"});
    CHECK(fakes.node(1).calls() ==
          std::vector<std::string>{"prepare 1 1", "upload", "connect 1 test tcp to 2"});
    fakes.node(1).remote()->lost(unavailable("the test goes on"));
  });
  const Status status = fakes.run(two_part_plan()).status();
  opener.join();
  for (const std::string& call : before) CHECK_FALSE(call.starts_with("connect"));
  check_says(status, Code::unavailable, "the runner on node-1 was lost: the test goes on");
}

TEST_CASE("a run is extended, fed, renumbered and released in the order of the calls",
          "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  must(run->feed(0, testing::floats({1, 2})));
  run->extend(11);
  fakes.node(1).await_calls("extend 1 11");
  must(fakes.node(0).report({1, 1, 0, {row_of_task_0(0.5, 1, 2)}, {}, false}));
  must(fakes.node(1).report({1, 1, 0, {row_of_task_1(7)}, {}, false}));
  must(run->wait(10, in(30s), true));
  CHECK(run->fetched_scalar(0, 10) == 0.5);
  CHECK(run->fetched(1, 10).at(1) == 2);
  CHECK(run->fetched(2, 10).at(2) == 9);
  run->renumber(100);
  run->extend(12);
  fakes.node(1).await_calls("extend 1 12");
  fakes.node(0).await_calls("extend 1 12");
  run.reset();
  CHECK(fakes.node(0).calls() ==
        std::vector<std::string>{"prepare 1 0", "upload", "connect 1 test tcp to 2",
                                 "extend 1 11 feed 0 of 8", "renumber 1 100", "extend 1 12",
                                 "abort 1 cancelled: the run was released", "release 1"});
}

TEST_CASE("a large feed goes before the step, and a wrong one goes nowhere", "[cluster]") {
  Fakes fakes;
  const int64_t n = 100'000;
  auto run = must(fakes.run(two_part_plan(n)));
  must(run->feed(0, Tensor(DType::f32, Shape{n})));
  run->extend(11);
  fakes.node(0).await_calls("extend 1 11");
  const auto calls = fakes.node(0).calls();
  CHECK(std::vector<std::string>(calls.begin() + 3, calls.end()) ==
        std::vector<std::string>{"feed 1 0 of 400000", "upload", "extend 1 11"});
  check_says(run->feed(0, Tensor(DType::f32, Shape{2})), Code::invalid_argument,
             "feed 'x': expected float[100000], received float[2]");
}

TEST_CASE("one call extends a run at a time, and the last limit is the one that counts",
          "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  std::mutex mutex;
  std::unique_lock held(mutex);
  fakes.node(0).when("extend", [&] { const std::lock_guard wait(mutex); });
  for (uint64_t limit = 11; limit <= 200; ++limit) run->extend(limit);
  held.unlock();
  fakes.node(0).await_calls("extend 1 200");
  CHECK(fakes.node(0).await_calls("extend") <= 3);
}

TEST_CASE("rows that come twice count once, and rows that cannot be end the run", "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  run->extend(13);
  const Bytes a = row_of_task_0(1, 0, 0), b = row_of_task_0(2, 0, 0);
  must(fakes.node(0).report({1, 1, 0, {a}, {}, false}));
  must(fakes.node(0).report({1, 2, 0, {a, b}, {}, false}));
  must(fakes.node(1).report({1, 2, 0, {row_of_task_1(1), row_of_task_1(2)}, {}, false}));
  must(run->wait(11, in(30s)));
  CHECK(run->finished() == 12);
  CHECK(run->fetched_scalar(0, 11) == 2);
  must(fakes.node(0).report({99, 2, 0, {a}, {}, false}));  // of a run that has ended
  SECTION("one is left out") {
    check_says(fakes.node(0).report({1, 4, 3, {a}, {}, false}), Code::invalid_argument,
               "a report of 4 turns: expected at most 3");
  }
  SECTION("one is ahead") {
    check_says(fakes.node(0).report({1, 3, 3, {a}, {}, false}), Code::invalid_argument,
               "the fetches of turn 3 from byte 0: expected turn 2 of 3, from byte 0");
  }
  SECTION("one is larger") {
    check_says(fakes.node(0).report({1, 3, 2, {Bytes(32)}, {}, false}), Code::invalid_argument,
               "the fetches of turn 2: expected 24 bytes, received 32; while taking a report of "
               "node-0");
  }
  SECTION("one is cut, and another one follows") {
    check_says(fakes.node(0).report({1, 3, 2, {Bytes(8), b}, {}, false}), Code::invalid_argument,
               "the fetches of turn 3 from byte 0: expected turn 2 of 3, from byte 8");
  }
  SECTION("a part of one is left out") {
    must(fakes.node(0).report({1, 2, 2, {Bytes(8)}, {}, false}));
    check_says(fakes.node(0).report({1, 3, 2, {Bytes(8)}, {}, false, 16}), Code::invalid_argument,
               "the fetches of turn 2 from byte 16: expected turn 2 of 3, from byte 8");
  }
  CHECK(run->wait(12, in(30s)).code() == Code::invalid_argument);
  fakes.node(1).await_calls("abort 1 invalid_argument");
}

TEST_CASE("a row may come in parts, each of them twice", "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  run->extend(11);
  const Bytes row = row_of_task_0(7, 8, 9);
  const auto part = [&](size_t from, size_t size) {
    const auto begin = row.begin() + static_cast<ptrdiff_t>(from);
    return Bytes(begin, begin + static_cast<ptrdiff_t>(size));
  };
  must(fakes.node(1).report({1, 1, 0, {row_of_task_1(1)}, {}, false}));
  must(fakes.node(0).report({1, 0, 0, {part(0, 5)}, {}, false}));
  must(fakes.node(0).report({1, 0, 0, {part(0, 5)}, {}, false}));
  CHECK(run->finished() == 10);
  must(fakes.node(0).report({1, 0, 0, {part(5, 11)}, {}, false, 5}));
  must(fakes.node(0).report({1, 1, 0, {part(16, 8)}, {}, false, 16}));
  must(fakes.node(0).report({1, 1, 0, {part(16, 8)}, {}, false, 16}));
  must(run->wait(10, in(30s)));
  CHECK(run->fetched_scalar(0, 10) == 7);
  CHECK(run->fetched(1, 10).identical(Tensor::of<double>({2}, {8, 9})));
}

TEST_CASE("a runner that is lost ends whatever is being done, and is named", "[cluster]") {
  const auto plan = two_part_plan();
  for (const char* phase : {"prepare", "upload", "connect", "step", "extend", "variables"}) {
    INFO(phase);
    Fakes fakes;
    const auto lose = [&] { fakes.node(1).remote()->lost(unavailable("its heart stopped")); };
    const auto begun = Steady::now();
    const std::string what = phase;
    Status status;
    if (what == "prepare" || what == "upload" || what == "connect") {
      fakes.node(1).ends(what, std::nullopt);
      fakes.node(1).when(what, lose);
      status = fakes.run(plan).status();
    } else if (what == "variables") {
      fakes.node(1).ends("readVariables", std::nullopt);
      fakes.node(1).when("readVariables", lose);
      status = fakes.node(1).remote()->read_variables("small").status();
    } else {
      auto run = must(fakes.run(plan));
      fakes.node(1).ends("extend", std::nullopt);
      if (what == "extend") fakes.node(1).when("extend", lose);
      run->extend(20);
      fakes.node(1).await_calls("extend");
      // Another runner reports its end first, which is not the cause.
      must(fakes.node(0).report({1, 0, 0, {}, unavailable("the link to node-1 closed"), false}));
      if (what == "step") lose();
      status = run->wait(10, in(30s));
      fakes.node(0).await_calls("abort 1 unavailable: the runner on node-1 was lost");
    }
    check_says(status, Code::unavailable, "the runner on node-1 was lost: its heart stopped");
    if (what == "step") check_says(status, Code::unavailable, "; the link to node-1 closed; while");
    check_promised(begun, 2s);
    CHECK(fakes.node(1).remote()->inspect({}, {}).status().code() == Code::unavailable);
    CHECK(fakes.run(plan).status().code() == Code::unavailable);
  }
}

TEST_CASE("the loss of a runner ends a run at once while no thread is at work on it", "[cluster]") {
  Fakes fakes;
  fakes.node(1).ends("prepare", std::nullopt);
  std::thread losing([&] {
    fakes.node(1).await_calls("prepare");
    fakes.node(1).remote()->lost(unavailable("its heart stopped"));
    // The report comes too late. If the run had work to do, it would wait for it.
    ScriptedReport report;
    report.failure = unavailable("node-1 closed the connection");
    CHECK(fakes.node(0).report(report).ok());
  });
  const Status status = fakes.run(two_part_plan()).status();
  losing.join();
  check_says(status, Code::unavailable, "the runner on node-1 was lost: its heart stopped");
  CHECK_THAT(status.message(), !Catch::Contains("closed the connection"));
}

TEST_CASE("of what goes wrong on several runners the cause is told, and not what came of it",
          "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  run->extend(20);
  SECTION("the cause comes later") {
    must(fakes.node(0).report({1, 0, 0, {}, cancelled("a peer failed"), true}));
    must(fakes.node(1).report({1,
                               2,
                               0,
                               {row_of_task_1(0), row_of_task_1(0)},
                               invalid_argument("Relu 'r': was told to fail"),
                               false}));
    check_says(run->wait(10, in(30s)), Code::invalid_argument,
               "Relu 'r': was told to fail; while running step 12 of 'two' on node-1");
  }
  SECTION("only consequences come") {
    const auto begun = Steady::now();
    must(fakes.node(0).report({1, 0, 0, {}, cancelled("a peer failed"), true}));
    must(fakes.node(1).report({1, 0, 0, {}, unavailable("the link to node-0 closed"), false}));
    check_says(run->wait(10, in(30s)), Code::unavailable, "the link to node-0 closed");
    CHECK(Steady::now() - begun >= 190ms);
  }
  SECTION("a call fails") {
    fakes.node(1).ends("extend", failed_precondition("it has ended"));
    run->extend(21);
    check_says(run->wait(10, in(30s)), Code::failed_precondition,
               "it has ended; while extending on node-1");
  }
  fakes.node(0).await_calls("abort 1");
  fakes.node(1).await_calls("abort 1");
}

TEST_CASE("a step that does not finish in time names the runners that wait or do not answer",
          "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  run->extend(11);
  fakes.node(0).waits_for("waits for the value of 'x' from node-1");
  fakes.node(1).ends("describe", std::nullopt);
  const Status status = run->wait(10, in(10ms));
  check_says(status, Code::deadline_exceeded, "step 10 did not finish in time: node-0: waits for");
  check_says(status, Code::deadline_exceeded, "node-1 does not answer");
}

TEST_CASE("a recording that one runner does not begin is refused with its error", "[cluster]") {
  Fakes fakes;
  const auto run = fakes.train();
  const size_t refusing = GENERATE(0, 1);
  // The code that the master itself has for a runner that does not answer.
  fakes.node(refusing).ends("record", deadline_exceeded("its disk is slow"));
  const Status status = record_steps(fakes.remotes(), 1, Steady::now() + 10ms).status();
  check_says(status, Code::deadline_exceeded, "its disk is slow; while beginning a recording on");
}

// The recording of a runner that was to begin at turn `first`, but began in the middle of turn
// `begin`.
RecordedPartition recorded_turns(uint64_t first, uint64_t end, uint64_t begin) {
  RecordedPartition part;
  part.first = first;
  part.end = end;
  for (uint64_t turn = begin; turn < end; ++turn) {
    RecordedEvent event;
    event.turn = turn;
    event.begin = static_cast<int64_t>(10 * turn);
    event.end = event.begin + 10;
    part.events.push_back(event);
  }
  return part;
}

TEST_CASE("a recording that a runner begins too late is made again", "[cluster]") {
  Fakes fakes;
  const auto run = fakes.train();
  run->extend(100);
  const size_t late = GENERATE(0, 1);
  // The run is in turn 0 at every look: the first try records the turns [2, 5), the second [6, 9).
  fakes.node(1 - late).records({recorded_turns(2, 5, 2), recorded_turns(6, 9, 6)});
  fakes.node(late).records({recorded_turns(2, 5, 4), recorded_turns(6, 9, 7)});
  for (size_t task = 0; task < 2; ++task) {
    ScriptedReport report;
    report.turns = 9;
    report.rows.assign(9, task == 0 ? row_of_task_0(0.5, 1, 2) : row_of_task_1(7));
    REQUIRE(fakes.node(task).report(report).ok());
  }
  const StepRecording recording = must(record_steps(fakes.remotes(), 3, in(30s)));
  CHECK(fakes.node(0).await_calls("record 2 to 5") == 1);
  CHECK(fakes.node(0).await_calls("record 6 to 9") == 1);
  // A turn that all have recorded from its begin is enough.
  CHECK(recording.whole_first() == 8);
  CHECK(recording.whole_end() == 9);
}

TEST_CASE("workers that see different data are named before anything is trained", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", false));
  auto fakes = std::make_unique<Fakes>();
  fakes->node(1).features_print("2 bytes");
  const auto created =
      small.trainer(small.job({"num_workers=2"}), {small.path("run")}, std::move(fakes->hosts_));
  check_says(created.status(), Code::failed_precondition,
             "'train-x.npy': expected the same data on all workers, node-0 has 1 byte, node-1 has "
             "2 bytes");
}

TEST_CASE("calls end when the rpc thread does", "[cluster]") {
  Fakes fakes;
  auto run = must(fakes.run(two_part_plan()));
  run->extend(11);
  fakes.loop->stop();
  CHECK(run->wait(10, in(30s)).code() == Code::cancelled);
  CHECK(fakes.node(0).remote()->read_variables("small").status().code() == Code::cancelled);
}

}  // namespace leat
