// Tests steps of one session that run side by side: in flight, blocked, cancelled, late and
// isolated.
#include <sched.h>

#include <thread>

#include "tests/daemon/session_cases.h"

namespace leat {
namespace {

using namespace testing;
using std::chrono::milliseconds;

using QueueFixture = QueueSession<InProcess>;

}  // namespace

TEST_CASE("a step that is blocked in a queue holds up no other step", "[cluster]") {
  blocked_steps<InProcess>();
}
TEST_CASE("a hundred steps in flight from eight threads all end", "[cluster]") {
  hundred_steps<InProcess>();
}
TEST_CASE("eight threads run callables of different shapes at once", "[cluster]") {
  eight_threads<InProcess>();
}
TEST_CASE("a plan that is pushed out of the cache lives as long as its steps", "[cluster]") {
  dropped_plans<InProcess>();
}
TEST_CASE("a step past its deadline says what it waits for, and the session goes on", "[cluster]") {
  late_steps<InProcess>();
}
TEST_CASE("a step is cancelled by whoever holds it, or lets it go", "[cluster]") {
  cancelled_steps<InProcess>();
}

TEST_CASE("closing a session ends its steps with its name", "[cluster]") {
  SessionChoices options;
  options.name = "notebook";
  QueueFixture f(4, options);
  std::vector<StepHandle> steps;
  std::atomic<int> finished{0};
  for (int i = 0; i < 5; ++i)
    steps.push_back(must(f.session->start({}, {"taken"}, {}, {}, [&] { ++finished; })));
  std::thread waiting([&] {
    check_says(steps[0].wait().status(), Code::cancelled,
               "session 'notebook' was closed during step 0");
  });
  f.session->close();
  waiting.join();
  // A step may be over before its caller is notified.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (finished < 5 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  CHECK(finished == 5);
  for (size_t i = 1; i < steps.size(); ++i) {
    CHECK(steps[i].over());
    check_says(steps[i].wait().status(), Code::cancelled, "session 'notebook' was closed");
  }
  check_says(f.put(1), Code::failed_precondition, "session 'notebook' is closed");
  check_says(f.session->extend(1, f.graph.get()).status(), Code::failed_precondition, "is closed");
  check_says(f.session->make_callable({{}, {"taken"}, {}}).status(), Code::failed_precondition,
             "is closed");
  f.session->close();
  // The queue is whole after that: another session of the job uses it.
  auto next = must(Session::open(*f.place.hosts, {}));
  must(next->extend(0, f.graph.get()));
  must(next->run({{"element", number(9)}}, {}, {"put"}));
  CHECK(must(next->run({}, {"taken"}, {}))[0].int_at(0) == 9);
}

namespace {

// "v" is on worker 0. "increase" reads it there, waits at a gate on worker 1, and writes v + 1.
// "pair" writes "n" to v and to "w" on worker 1.
struct TwoWorkers {
  TwoWorkers() : catalogue(gated_catalogue(gate)), hosts(make_local_hosts(2, 1)), graph(catalogue) {
    GraphBuilder& g = graph.g;
    const std::string first = "job:worker/task:0", second = "job:worker/task:1";
    const ValueId v = graph.variable("v", 1, first), w = graph.variable("w", 1, second);
    const ValueId read = graph.value("value of v", "leat.Read", {v}, {}, first);
    graph.value("value of w", "leat.Read", {w}, {}, second);
    const ValueId gated = graph.value("gated", "test.Gate", {read}, {}, second);
    const ValueId more = graph.value("more", "Add", {gated, g.constant(floats({1}))}, {}, second);
    graph.effect("increase", "leat.Assign", {v, more});
    graph.effect("add ten", "leat.AssignAdd", {v, g.constant(floats({10}))});
    const ValueId n = g.input("n", DType::f32, Shape{1});
    const ValueId u = graph.variable("u", 1, first);
    graph.effect("add to u", "leat.AssignAdd", {u, g.constant(floats({1}))});
    graph.effect("set v", "leat.Assign", {v, n});
    graph.effect("set w", "leat.Assign", {w, n});
    session = must(Session::open(*hosts, {}));
    must(session->extend(0, graph.get()));
    must(session->run({{"n", floats({0})}}, {}, {"set v", "set w"}));
  }
  float v() { return floats(must(session->run({}, {"value of v"}, {}))[0])[0]; }

  Gate gate;
  Catalogue catalogue;
  std::unique_ptr<HostGroup> hosts;
  SessionGraph graph;
  std::unique_ptr<Session> session;
};

}  // namespace

TEST_CASE("a step has the variables that it touches to itself", "[cluster]") {
  TwoWorkers f;
  const auto increase = must(f.session->make_callable({{}, {}, {"increase"}}));
  f.gate.open = false;
  StepHandle step = must(f.session->start_callable(increase, {}));
  while (f.gate.reached == 0) sched_yield();  // v was read, and is not written yet
  SECTION("others wait for their turn, and name the step that they wait for") {
    check_says(f.session->run({}, {}, {"add ten"}, in(milliseconds(500))).status(),
               Code::deadline_exceeded,
               "waits for variable 'v' on job:worker/task:0/cpu:0, which step 1 of session "
               "'session' writes");
    StepHandle other = must(f.session->start({}, {}, {"add ten"}));
    CHECK_FALSE(other.over());
    f.gate.open = true;
    must(step.wait());
    must(other.wait());
    CHECK(f.v() == 11);
  }
  SECTION("a step on other variables goes on") {
    must(f.session->run({}, {}, {"add to u"}));
    CHECK_FALSE(step.over());
  }
  SECTION("a step without isolation loses the write in between") {
    const auto apart = must(f.session->make_callable({{}, {}, {"add ten"}, false}));
    must(f.session->run_callable(apart, {}));
    CHECK_FALSE(step.over());
    f.gate.open = true;
    must(step.wait());
    CHECK(f.v() == 1);
  }
  SECTION("closing ends those that wait for a turn too") {
    StepHandle other = must(f.session->start({}, {}, {"add ten"}));
    std::thread closing([&] { f.session->close(); });
    while (!other.over()) sched_yield();
    f.gate.open = true;  // a running kernel is not interrupted
    closing.join();
    check_says(other.wait().status(), Code::cancelled, "was closed");
    check_says(step.wait().status(), Code::cancelled, "was closed");
  }
  f.gate.open = true;
}

TEST_CASE("no increment across workers is lost", "[cluster]") {
  TwoWorkers f;
  const auto increase = must(f.session->make_callable({{}, {}, {"increase"}}));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) failed += f.session->run_callable(increase, {}).ok() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(f.v() == 100);
}

TEST_CASE("readers on several workers see a whole step or nothing of it", "[cluster]") {
  TwoWorkers f;
  auto other = must(Session::open(*f.hosts, {}));  // tickets belong to the job
  must(other->extend(0, f.graph.get()));
  const auto set = must(f.session->make_callable({{"n"}, {}, {"set v", "set w"}}));
  const auto get = must(other->make_callable({{}, {"value of v", "value of w"}, {}}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 40; ++i) {
        const float n = static_cast<float>(100 * t + i);
        if (!f.session->run_callable(set, {floats({n})}).ok()) ++wrong;
      }
    });
    threads.emplace_back([&] {
      for (int i = 0; i < 40; ++i) {
        const auto seen = other->run_callable(get, {});
        if (!seen.ok() || !(*seen)[0].identical((*seen)[1])) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace leat
