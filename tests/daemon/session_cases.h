// Test cases that hold for sessions in every place. Each case runs over each Place that includes
// it. A Place is a cluster of `workers` workers, and opens sessions on it:
//
//   static Catalogue catalogue()   of the ops and their kernels
//   typename Place::Session, Place::Step;   explicit Place(int workers);
//   std::unique_ptr<Session> open(SessionChoices);
//   Place::kShort             long enough for a step to come to where it waits
#pragma once

#include <sched.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ops/catalogue.h"
#include "tests/async_device.h"
#include "tests/daemon/session_testing.h"

namespace leat::testing {

struct SessionChoices {
  std::string name = "session";
  uint64_t seed = 0;
  size_t plans = 64;
};

// Sessions in this process.
struct InProcess {
  using Session = leat::Session;
  using Step = StepHandle;
  static constexpr auto kShort = std::chrono::milliseconds(500);

  static Catalogue catalogue() { return standard_catalogue(); }
  explicit InProcess(int workers, const MakeAccelerators& accelerators = {})
      : hosts(make_local_hosts(workers, 1, real_files(), accelerators)) {}
  std::unique_ptr<Session> open(const SessionChoices& choices) {
    SessionOptions options;
    options.name = choices.name;
    options.seed = choices.seed;
    options.plans = choices.plans;
    return must(Session::open(*hosts, options));
  }

  std::unique_ptr<HostGroup> hosts;
};

// The same on hosts with an accelerator each, which computes what it has kernels for: all but
// input and queues.
struct Accelerated : InProcess {
  static Catalogue catalogue() { return async_catalogue(); }
  explicit Accelerated(int workers)
      : InProcess(workers, [] {
          std::vector<std::unique_ptr<Device>> devices;
          devices.push_back(std::make_unique<AsyncDevice>());
          return devices;
        }) {}
};

// The basic graph in a session, with its variable set to 0.
template <typename Place>
struct BasicSession {
  explicit BasicSession(const SessionChoices& choices = {}, int workers = 1)
      : catalogue(Place::catalogue()),
        place(workers),
        graph(catalogue),
        session(place.open(choices)) {
    REQUIRE(must(session->extend(0, basic_graph(graph))) == 1);
    must(session->run({}, {}, {"init"}));
  }
  std::vector<float> value() { return floats(must(session->run({}, {"value"}, {}))[0]); }
  Status fails(const Feeds& feeds, const std::vector<std::string>& fetches,
               const std::vector<std::string>& targets = {}) {
    return session->run(feeds, fetches, targets).status();
  }

  Catalogue catalogue;
  Place place;
  SessionGraph graph;
  std::unique_ptr<typename Place::Session> session;
};

inline Tensor matrix(const std::vector<float>& values) {
  return Tensor::of<float>(Shape{static_cast<int64_t>(values.size() / 2), 2}, values);
}

inline Tensor number(int64_t value) { return Tensor::scalar<int64_t>(value); }

// A session with a queue, and with "y" that is -x (float[N]).
template <typename Place>
struct QueueSession {
  explicit QueueSession(int64_t capacity = 4, const SessionChoices& choices = {})
      : catalogue(Place::catalogue()), place(1), graph(catalogue), session(place.open(choices)) {
    graph.queue(capacity);
    const ValueId x = graph.g.input("x", DType::f32, {graph.g.batch("N")});
    graph.value("y", "Neg", {x});
    must(session->extend(0, graph.get()));
  }
  typename Place::Step take() { return must(session->start({}, {"taken"}, {})); }
  Status put(int64_t value) {
    return session->run({{"element", number(value)}}, {}, {"put"}).status();
  }

  Catalogue catalogue;
  Place place;
  SessionGraph graph;
  std::unique_ptr<typename Place::Session> session;
};

template <typename Place>
void state_stays() {
  BasicSession<Place> f;
  CHECK(f.value() == std::vector<float>{0, 0});
  must(f.session->run({{"d", floats({1, 2})}}, {}, {"add"}));
  must(f.session->run({{"d", floats({1, 2})}}, {}, {"add"}));
  CHECK(f.value() == std::vector<float>{2, 4});
  const auto both = must(f.session->run({{"x", matrix({10, 20, 30, 40})}}, {"y", "value"}, {}));
  CHECK(both[0].shape() == Shape{2, 2});
  CHECK(floats(both[0]) == std::vector<float>{12, 24, 32, 44});
  CHECK(floats(both[1]) == std::vector<float>{2, 4});
}

template <typename Place>
void graph_is_extended() {
  BasicSession<Place> f;
  SessionGraph& graph = f.graph;
  const auto callable = must(f.session->make_callable({{"x"}, {"y"}, {}}));

  SECTION("new nodes see old state, old callables go on") {
    graph.value("twice", "Mul", {*graph.graph.find_value("y"), graph.g.scalar(DType::f32, 2)});
    CHECK(must(f.session->extend(1, graph.get())) == 2);
    CHECK(f.session->version() == 2);
    must(f.session->run({{"to", floats({1, 1})}}, {}, {"assign"}));
    CHECK(floats(must(f.session->run({{"x", matrix({1, 2})}}, {"twice"}, {}))[0]) ==
          std::vector<float>{4, 6});
    CHECK(floats(must(f.session->run_callable(callable, {matrix({1, 2})}))[0]) ==
          std::vector<float>{2, 3});
  }
  SECTION("of another version than the current one is refused, and both are named") {
    for (const uint64_t version : {0, 2}) {
      const Status status = f.session->extend(version, graph.get()).status();
      check_says(status, Code::failed_precondition, "expected to extend version 1");
      check_says(status, Code::failed_precondition, "received version " + std::to_string(version));
    }
  }
  SECTION("a node that was there may not change") {
    Graph changed = graph.get();
    const NodeId add = changed.value(*changed.find_value("y")).producer;
    const auto refused = [&](const std::string& what) {
      check_says(f.session->extend(1, changed).status(), Code::invalid_argument, what);
    };
    SECTION("op") {
      changed.node(add).op = f.catalogue.find("Sub");
      refused("another op");
    }
    SECTION("inputs") {
      std::swap(changed.node(add).inputs[0], changed.node(add).inputs[1]);
      refused("another inputs");
    }
    SECTION("attributes") {
      changed.node(0).attrs["trainable"] = int64_t{0};
      refused("another attributes");
    }
    SECTION("control edges") {
      changed.node(add).after.push_back(0);
      refused("another control edges");
    }
    SECTION("device") {
      changed.node(add).device = "task:0";
      refused("another device");
    }
    SECTION("names") {
      changed.set_value_name(*changed.find_value("y"), "z");
      refused("value 'y'");
    }
    SECTION("inputs of the graph") {
      changed.value(*changed.find_value("d")).type.shape = Shape{3};
      refused("expected to stay float[2] d, received float[3] d");
    }
    SECTION("nothing may be left out") {
      SessionGraph smaller(f.catalogue);
      smaller.variable("v", 2);
      changed = smaller.get();
      refused("expected to keep");
    }
    CHECK(f.session->version() == 1);
  }
  SECTION("the whole passes the gate or nothing changes") {
    Graph wrong = graph.get();
    must(wrong.add_node("", "Relu", {*wrong.find_value("x")}, {}, 1));
    must(wrong.add_node("", "Relu", {*wrong.find_value("v")}, {}, 1));
    check_says(f.session->extend(1, wrong).status(), Code::invalid_argument, "Relu");
    CHECK(f.session->version() == 1);
    CHECK(f.value() == std::vector<float>{0, 0});
  }
  SECTION("two values of one name are refused") {
    Graph twins = graph.get();
    const NodeId relu = must(twins.add_node("", "Relu", {*twins.find_value("x")}, {}, 1));
    twins.set_value_name(twins.node(relu).outputs[0], "y");
    check_says(f.session->extend(1, twins).status(), Code::invalid_argument,
               "value 'y': expected a name of its own");
  }
}

template <typename Place>
void wrong_steps_are_refused() {
  BasicSession<Place> f;
  const Tensor x = matrix({1, 2});
  const auto wrong = [&](const Status& status, const std::string& text) {
    check_says(status, Code::invalid_argument, text);
  };
  wrong(f.fails({}, {}), "at least one fetch or target");
  wrong(f.fails({}, {"values"}),
        "fetch 'values': the session's graph has no value of that name "
        "(did you mean 'value'?)");
  wrong(f.fails({{"xx", x}}, {"y"}), "feed 'xx'");
  wrong(f.fails({}, {}, {"inti"}), "did you mean 'init'?");
  wrong(f.fails({}, {}, {"x"}), "it is an input of the graph");
  wrong(f.fails({{"x", x}, {"x", x}}, {"y"}), "feed 'x': expected once, received twice");
  wrong(f.fails({{"x", x}}, {"x"}), "'x': expected to be fed or fetched, received both");
  wrong(f.fails({}, {"v"}), "fetch 'v': expected a tensor, it is a variable");
  wrong(f.fails({{"v", x}}, {"value"}), "feed 'v': expected a tensor");
  wrong(f.fails({}, {"y"}), "needs the input 'x', which is not fed");
  wrong(f.fails({{"x", floats({1, 2})}}, {"y"}),
        "feed 'x': expected float[N,2], received float[2]");
  wrong(f.fails({{"x", Tensor(DType::f64, Shape{1, 2})}}, {"y"}),
        "feed 'x': expected float[N,2], received double[1,2]");
  wrong(f.fails({{"x", Tensor()}}, {"y"}), "received no tensor");
  wrong(f.fails({{"d", floats({1, 2, 3})}}, {}, {"add"}),
        "feed 'd': expected float[2], received float[3]");
  const auto callable = must(f.session->make_callable({{"x"}, {"y"}, {}}));
  wrong(f.session->run_callable(callable, {}).status(), "feeds: expected 1, received 0");
  // The session still works.
  CHECK(floats(must(f.session->run({{"x", x}}, {"y"}, {}))[0]) == std::vector<float>{1, 2});
}

template <typename Place>
void other_kinds_are_refused() {
  BasicSession<Place> f;
  SessionGraph& s = f.graph;
  s.value("added", "leat.AssignAdd", {*s.graph.find_value("v"), *s.graph.find_value("d")});
  s.queue(1);
  s.graph.add_input("rows", {ValueKind::rows, DType::f32, SymbolicShape(Shape{4, 2})});
  must(f.session->extend(1, s.get()));
  const auto wrong = [&](const std::string& name, const std::string& kind) {
    const std::string text = "'" + name + "': expected a tensor, it is " + kind;
    check_says(f.fails({}, {name}), Code::invalid_argument, "fetch " + text);
    check_says(f.fails({{name, floats({1})}}, {"value"}), Code::invalid_argument, "feed " + text);
  };
  wrong("added", "a token: name it as a target");
  wrong("rows", "rows of a table");
  wrong("queue", "a resource");
  CHECK(f.value() == std::vector<float>{0, 0});
}

template <typename Place>
void symbolic_sizes() {
  const Catalogue catalogue = Place::catalogue();
  Place place(1);
  SessionGraph s(catalogue);
  GraphBuilder& g = s.g;
  const Dim n = g.batch("N");
  s.graph.symbol_info(n.symbol).bound = 8;
  const ValueId a = g.input("a", DType::f32, {n});
  const ValueId b = g.input("b", DType::f32, {n});
  const ValueId pairs = g.input("pairs", DType::f32, {Dim::of_symbol(n.symbol, 2)});
  s.value("sum", "Add", {a, b});
  s.value("all", "Concat", {a, b, pairs}, {{"axis", int64_t{0}}});
  auto session = place.open({});
  must(session->extend(0, s.get()));
  const auto zeros = [](int64_t size) { return Tensor(DType::f32, Shape{size}); };
  CHECK(must(session->run({{"a", zeros(3)}, {"b", zeros(3)}}, {"sum"}, {}))[0].shape() == Shape{3});
  CHECK(must(session->run({{"a", zeros(2)}, {"b", zeros(2)}, {"pairs", zeros(4)}}, {"all"}, {}))[0]
            .shape() == Shape{8});
  const auto wrong = [&](const Feeds& feeds, const std::string& text) {
    check_says(session->run(feeds, {"sum"}, {}).status(), Code::invalid_argument, text);
  };
  wrong({{"a", zeros(3)}, {"b", zeros(4)}},
        "feed 'b': expected float[N] where N is 3 as in feed 'a', received float[4]");
  wrong({{"a", zeros(9)}, {"b", zeros(9)}}, "where N is at most 8");
  wrong({{"a", zeros(1)}, {"b", zeros(1)}, {"pairs", zeros(3)}}, "float[2*N]");
}

template <typename Place>
void fed_values() {
  BasicSession<Place> f;
  SessionGraph& s = f.graph;
  s.value("z", "Mul", {*s.graph.find_value("y"), s.g.scalar(DType::f32, 3)});
  must(f.session->extend(1, s.get()));
  // y's own input is not fed, so y cannot have been computed. Its size is free.
  const auto out = must(f.session->run({{"y", matrix({1, 2, 3, 4, 5, 6})}}, {"z"}, {}));
  CHECK(floats(out[0]) == std::vector<float>{3, 6, 9, 12, 15, 18});
  CHECK(floats(must(f.session->run({{"y", matrix({1, 2})}}, {"z", "z"}, {}))[1]) ==
        std::vector<float>{3, 6});
}

template <typename Place>
void element_types() {
  const Catalogue catalogue = Place::catalogue();
  Place place(1);
  SessionGraph s(catalogue);
  constexpr DType kTypes[] = {DType::f32, DType::f64, DType::f16,    DType::bf16, DType::i8,
                              DType::i16, DType::i32, DType::i64,    DType::u8,   DType::u16,
                              DType::u32, DType::u64, DType::boolean};
  for (const DType type : kTypes) {
    const std::string name(dtype_name(type));
    const ValueId x = s.g.input(name, type, {s.g.batch("N_" + name)});
    s.value(name + "/out", "Identity", {x});
    const ValueId v =
        s.value(name + "/v", "leat.Variable", {},
                {{"name", name}, {"shape", std::vector<int64_t>{3}}, {"dtype", name}});
    s.effect(name + "/set", "leat.Assign", {v, x});
    s.value(name + "/read", "leat.Read", {v});
  }
  auto session = place.open({});
  must(session->extend(0, s.get()));
  for (const DType type : kTypes) {
    const std::string name(dtype_name(type));
    INFO(name);
    Tensor value(type, Shape{3});
    for (int i = 0; i < 3; ++i) value.set(i, type == DType::boolean ? i % 2 : i + 1);
    CHECK(must(session->run({{name, value}}, {name + "/out"}, {}))[0].identical(value));
    must(session->run({{name, value}}, {}, {name + "/set"}));
    CHECK(must(session->run({}, {name + "/read"}, {}))[0].identical(value));
    const Tensor none(type, Shape{0});
    const auto out = must(session->run({{name, none}}, {name + "/out"}, {}));
    CHECK(out[0].identical(none));
  }
}

template <typename Place>
void callables() {
  BasicSession<Place> f;
  const auto add = must(f.session->make_callable({{"d"}, {}, {"add"}}));
  const auto both = must(f.session->make_callable({{"x"}, {"value", "y"}, {}}));
  for (int i = 0; i < 10; ++i) CHECK(must(f.session->run_callable(add, {floats({1, 2})})).empty());
  const auto out = must(f.session->run_callable(both, {matrix({1, 1})}));
  CHECK(floats(out[0]) == std::vector<float>{10, 20});
  CHECK(floats(out[1]) == std::vector<float>{11, 21});
  must(f.session->release_callable(add));
  check_says(f.session->run_callable(add, {floats({1, 2})}).status(), Code::failed_precondition,
             "was released");
  check_says(f.session->release_callable(add), Code::failed_precondition, "was released");
  check_says(f.session->run_callable(99, {}).status(), Code::invalid_argument, "never made");
  check_says(f.session->make_callable({{}, {"nothing"}, {}}).status(), Code::invalid_argument,
             "'nothing'");
}

template <typename Place>
void failing_steps() {
  const Catalogue catalogue = Place::catalogue();
  Place place(1);
  SessionGraph s(catalogue);
  const ValueId table = s.g.constant(floats({1, 2, 3}));
  const ValueId at = s.g.input("at", DType::i64, {s.g.batch("N")});
  s.value("row", "Gather", {table, at});
  auto session = place.open({});
  must(session->extend(0, s.get()));
  const auto callable = must(session->make_callable({{"at"}, {"row"}, {}}));
  const auto indices = [](std::vector<int64_t> values) {
    return Tensor::of<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(floats(must(session->run_callable(callable, {indices({2, 0})}))[0]) ==
          std::vector<float>{3, 1});
    const Status status = session->run_callable(callable, {indices({2, 7})}).status();
    check_says(status, Code::invalid_argument, "7");
    check_says(status, Code::invalid_argument, "of session 'session' on job:worker/task:0/cpu:0");
  }
}

template <typename Place>
void random_steps() {
  const Catalogue catalogue = Place::catalogue();
  Place place(1);
  SessionGraph s(catalogue);
  s.value("noise", "RandomUniform", {}, {{"shape", std::vector<int64_t>{16}}});
  const auto draw = [&](uint64_t seed) {
    SessionChoices options;
    options.seed = seed;
    auto session = place.open(options);
    must(session->extend(0, s.get()));
    std::vector<std::vector<float>> out;
    for (int i = 0; i < 4; ++i) out.push_back(floats(must(session->run({}, {"noise"}, {}))[0]));
    return out;
  };
  const auto drawn = draw(1);
  for (size_t i = 0; i < drawn.size(); ++i) {
    for (size_t k = 0; k < i; ++k) CHECK(drawn[i] != drawn[k]);
  }
  CHECK(drawn == draw(1));
  CHECK(drawn != draw(2));
}

template <typename Place>
void blocked_steps() {
  QueueSession<Place> f;
  typename Place::Step blocked = f.take();
  for (int i = 1; i <= 20; ++i) {
    const Tensor x(DType::f32, Shape{i % 3});
    CHECK(must(f.session->run({{"x", x}}, {"y"}, {}))[0].shape() == x.shape());
  }
  CHECK_FALSE(blocked.over());
  must(f.put(42));
  CHECK(must(blocked.wait())[0].int_at(0) == 42);
}

template <typename Place>
void hundred_steps() {
  constexpr int kThreads = 8, kSteps = 13;
  QueueSession<Place> f(4);
  const auto taken = must(f.session->make_callable({{}, {"taken"}, {}}));
  std::atomic<int64_t> sum{0};
  std::atomic<int> started{0}, failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      std::vector<typename Place::Step> steps;
      for (int i = 0; i < kSteps; ++i) {
        auto step = f.session->start_callable(taken, {});
        if (!step.ok()) {
          ++failed;
          continue;
        }
        steps.push_back(std::move(*step));
        ++started;
      }
      for (typename Place::Step& step : steps) {
        const auto value = step.wait();
        if (!value.ok())
          ++failed;
        else
          sum += (*value)[0].int_at(0);
      }
    });
  }
  while (started + failed < kThreads * kSteps) sched_yield();
  // All of them wait now, and no element was put.
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

template <typename Place>
void eight_threads() {
  SessionChoices options;
  options.plans = 2;  // so that plans are evicted
  QueueSession<Place> f(4, options);
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

template <typename Place>
void dropped_plans() {
  SessionChoices options;
  options.plans = 2;
  QueueSession<Place> f(4, options);
  typename Place::Step blocked = f.take();
  for (int64_t n = 1; n <= 6; ++n)
    must(f.session->run({{"x", Tensor(DType::f32, Shape{n})}}, {"y"}, {}));
  must(f.put(5));
  CHECK(must(blocked.wait())[0].int_at(0) == 5);
  must(f.put(6));
  CHECK(must(f.take().wait())[0].int_at(0) == 6);
}

template <typename Place>
void late_steps() {
  QueueSession<Place> f(1);
  const Status status = f.session->run({}, {"taken"}, {}, in(Place::kShort)).status();
  check_says(status, Code::deadline_exceeded, "step 0 of session 'session' did not finish in time");
  check_says(status, Code::deadline_exceeded,
             "session 'session' on job:worker/task:0/cpu:0 is blocked in 'taken'");
  must(f.put(1));
  // The queue is full, so the next put waits for a take.
  check_says(f.session->run({{"element", number(2)}}, {}, {"put"}, in(Place::kShort)).status(),
             Code::deadline_exceeded, "is blocked in 'put'");
  CHECK(must(f.take().wait())[0].int_at(0) == 1);
}

template <typename Place>
void cancelled_steps() {
  QueueSession<Place> f;
  typename Place::Step step = f.take();
  step.cancel();
  check_says(step.wait().status(), Code::cancelled, "step 0 of session 'session' was cancelled");
  { const typename Place::Step dropped = f.take(); }
  must(f.put(3));
  CHECK(must(f.take().wait())[0].int_at(0) == 3);
}

}  // namespace leat::testing
