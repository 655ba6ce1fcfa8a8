// Steps of a session side by side: in flight, blocked, cancelled, late, and isolated.
#include <sched.h>

#include <thread>

#include "tests/daemon/session_testing.h"

namespace leat {
namespace {

using namespace testing;
using std::chrono::milliseconds;

Tensor number(int64_t value) { return Tensor::scalar<int64_t>(value); }

struct QueueFixture {
  explicit QueueFixture(int64_t capacity = 4, SessionOptions options = {})
      : catalogue(standard_catalogue()),
        cluster(1, 1),
        graph(catalogue),
        session(must(Session::open(cluster.master(), std::move(options)))) {
    graph.queue(capacity);
    const ValueId x = graph.g.input("x", DType::f32, {graph.g.batch("N")});
    graph.value("y", "Neg", {x});
    must(session->extend(0, graph.get()));
  }
  StepHandle take() { return must(session->start({}, {"taken"}, {})); }
  Status put(int64_t value) {
    return session->run({{"element", number(value)}}, {}, {"put"}).status();
  }

  Catalogue catalogue;
  LocalCluster cluster;
  SessionGraph graph;
  std::unique_ptr<Session> session;
};

}  // namespace

TEST_CASE("a step that is blocked in a queue holds up no other step", "[cluster]") {
  QueueFixture f;
  StepHandle blocked = f.take();
  for (int i = 1; i <= 20; ++i) {
    const Tensor x(DType::f32, Shape{i % 3});
    CHECK(must(f.session->run({{"x", x}}, {"y"}, {}))[0].shape() == x.shape());
  }
  CHECK_FALSE(blocked.over());
  must(f.put(42));
  CHECK(must(blocked.wait())[0].int_at(0) == 42);
}

TEST_CASE("a hundred steps in flight from eight threads all end", "[cluster]") {
  constexpr int kThreads = 8, kSteps = 13;
  QueueFixture f(4);
  const auto taken = must(f.session->make_callable({{}, {"taken"}, {}}));
  std::atomic<int64_t> sum{0};
  std::atomic<int> started{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<StepHandle> steps;
      for (int i = 0; i < kSteps; ++i) {
        auto step = f.session->start_callable(taken, {});
        if (!step.ok()) {
          ++failed;
          continue;
        }
        steps.push_back(std::move(*step));
        ++started;
      }
      for (StepHandle& step : steps) {
        const auto value = step.wait();
        if (!value.ok())
          ++failed;
        else
          sum += (*value)[0].int_at(0);
      }
    });
  }
  while (started + failed < kThreads * kSteps) sched_yield();
  // All of them wait now, and nobody has put anything.
  CHECK(sum == 0);
  int64_t expected = 0;
  for (int i = 1; i <= kThreads * kSteps; ++i) {
    CHECK(f.put(i).ok());
    expected += i;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(sum == expected);
}

TEST_CASE("eight threads run callables of different shapes at once", "[cluster]") {
  SessionOptions options;
  options.plans = 2;  // so that plans come and go
  QueueFixture f(4, options);
  const auto negate = must(f.session->make_callable({{"x"}, {"y"}, {}}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const float value = static_cast<float>(100 * t + i);
        const std::vector<float> x(static_cast<size_t>(i % 4), value);
        const auto y = f.session->run_callable(negate, {floats(x)});
        if (!y.ok() || floats((*y)[0]) != std::vector<float>(x.size(), -value)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a plan that is pushed out of the cache lives as long as its steps", "[cluster]") {
  SessionOptions options;
  options.plans = 2;
  QueueFixture f(4, options);
  StepHandle blocked = f.take();
  for (int64_t n = 1; n <= 6; ++n)
    must(f.session->run({{"x", Tensor(DType::f32, Shape{n})}}, {"y"}, {}));
  must(f.put(5));
  CHECK(must(blocked.wait())[0].int_at(0) == 5);
  must(f.put(6));
  CHECK(must(f.take().wait())[0].int_at(0) == 6);
}

TEST_CASE("closing a session ends its steps with its name", "[cluster]") {
  SessionOptions options;
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
  // A step is over before whoever asked is told so.
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
  // What it left is whole: another session of the job goes on with the queue.
  auto next = must(Session::open(f.cluster.master(), {}));
  must(next->extend(0, f.graph.get()));
  must(next->run({{"element", number(9)}}, {}, {"put"}));
  CHECK(must(next->run({}, {"taken"}, {}))[0].int_at(0) == 9);
}

TEST_CASE("a step past its deadline says what it waits for, and the session goes on", "[cluster]") {
  QueueFixture f(1);
  const Status status = f.session->run({}, {"taken"}, {}, in(milliseconds(500))).status();
  check_says(status, Code::deadline_exceeded, "step 0 of session 'session' did not finish in time");
  check_says(status, Code::deadline_exceeded,
             "session 'session' on job:worker/task:0/cpu:0 is blocked in 'taken'");
  must(f.put(1));
  // The queue is full: the next one waits, for others to take.
  check_says(f.session->run({{"element", number(2)}}, {}, {"put"}, in(milliseconds(500))).status(),
             Code::deadline_exceeded, "is blocked in 'put'");
  CHECK(must(f.take().wait())[0].int_at(0) == 1);
}

TEST_CASE("a step is cancelled by whoever holds it, or lets it go", "[cluster]") {
  QueueFixture f;
  StepHandle step = f.take();
  step.cancel();
  check_says(step.wait().status(), Code::cancelled, "step 0 of session 'session' was cancelled");
  { const StepHandle dropped = f.take(); }
  must(f.put(3));
  CHECK(must(f.take().wait())[0].int_at(0) == 3);
}

namespace {

// "v" on worker 0; "increase" reads it there, goes through a gate on worker 1, and writes v + 1.
// "pair" writes "n" to v and to "w" on worker 1.
struct TwoWorkers {
  TwoWorkers() : catalogue(gated_catalogue(gate)), cluster(2, 1), graph(catalogue) {
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
    session = must(Session::open(cluster.master(), {}));
    must(session->extend(0, graph.get()));
    must(session->run({{"n", floats({0})}}, {}, {"set v", "set w"}));
  }
  float v() { return floats(must(session->run({}, {"value of v"}, {}))[0])[0]; }

  Gate gate;
  Catalogue catalogue;
  LocalCluster cluster;
  SessionGraph graph;
  std::unique_ptr<Session> session;
};

}  // namespace

TEST_CASE("a step has the variables that it touches to itself", "[cluster]") {
  TwoWorkers f;
  const auto increase = must(f.session->make_callable({{}, {}, {"increase"}}));
  f.gate.open = false;
  StepHandle step = must(f.session->start_callable(increase, {}));
  while (f.gate.reached == 0) sched_yield();  // v is read, and not written yet
  SECTION("others wait for their turn, and say for whom") {
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
  SECTION("what touches other variables goes on") {
    must(f.session->run({}, {}, {"add to u"}));
    CHECK_FALSE(step.over());
  }
  SECTION("who asks for no isolation gets none: the write in between is lost") {
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
    f.gate.open = true;  // kernels are not interrupted
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
  auto other = must(Session::open(f.cluster.master(), {}));  // tickets are the job's
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
