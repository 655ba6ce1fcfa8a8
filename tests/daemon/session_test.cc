#include "tests/daemon/session_testing.h"

namespace leat {
namespace {

using namespace testing;

struct Fixture {
  explicit Fixture(SessionOptions options = {}, int workers = 1, int threads = 1)
      : catalogue(standard_catalogue()),
        cluster(workers, threads),
        graph(catalogue),
        session(must(Session::open(cluster.master(), std::move(options)))) {
    REQUIRE(must(session->extend(0, basic_graph(graph))) == 1);
    must(session->run({}, {}, {"init"}));
  }
  std::vector<float> value() { return floats(must(session->run({}, {"value"}, {}))[0]); }
  Status fails(const Feeds& feeds, const std::vector<std::string>& fetches,
               const std::vector<std::string>& targets = {}) {
    return session->run(feeds, fetches, targets).status();
  }

  Catalogue catalogue;
  LocalCluster cluster;
  SessionGraph graph;
  std::unique_ptr<Session> session;
};

Tensor matrix(const std::vector<float>& values) {
  return Tensor::of<float>(Shape{static_cast<int64_t>(values.size() / 2), 2}, values);
}

}  // namespace

TEST_CASE("state stays from one step of a session to the next", "[cluster]") {
  Fixture f;
  CHECK(f.value() == std::vector<float>{0, 0});
  must(f.session->run({{"d", floats({1, 2})}}, {}, {"add"}));
  must(f.session->run({{"d", floats({1, 2})}}, {}, {"add"}));
  CHECK(f.value() == std::vector<float>{2, 4});
  const auto both = must(f.session->run({{"x", matrix({10, 20, 30, 40})}}, {"y", "value"}, {}));
  CHECK(both[0].shape() == Shape{2, 2});
  CHECK(floats(both[0]) == std::vector<float>{12, 24, 32, 44});
  CHECK(floats(both[1]) == std::vector<float>{2, 4});
}

TEST_CASE("sessions of one job share its variables, other jobs have their own", "[cluster]") {
  Fixture f;
  must(f.session->run({{"to", floats({5, 6})}}, {}, {"assign"}));
  auto same = must(Session::open(f.cluster.master(), {}));
  must(same->extend(0, f.graph.get()));
  CHECK(floats(must(same->run({}, {"value"}, {}))[0]) == std::vector<float>{5, 6});
  SessionOptions options;
  options.job = "another";
  auto other = must(Session::open(f.cluster.master(), options));
  must(other->extend(0, f.graph.get()));
  CHECK(floats(must(other->run({}, {"value"}, {}))[0]) == std::vector<float>{0, 0});
  f.session->close();
  CHECK(floats(must(same->run({}, {"value"}, {}))[0]) == std::vector<float>{5, 6});
}

TEST_CASE("a graph is extended by what it holds already and more", "[cluster]") {
  Fixture f;
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

TEST_CASE("a step that is asked for wrongly is refused by name", "[cluster]") {
  Fixture f;
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
  wrong(f.fails({{"x", Tensor(DType::f64, Shape{1, 2})}}, {"y"}), "received double[1,2]");
  wrong(f.fails({{"x", Tensor()}}, {"y"}), "received no tensor");
  const auto callable = must(f.session->make_callable({{"x"}, {"y"}, {}}));
  wrong(f.session->run_callable(callable, {}).status(), "feeds: expected 1, received 0");
  // And the session goes on.
  CHECK(floats(must(f.session->run({{"x", x}}, {"y"}, {}))[0]) == std::vector<float>{1, 2});
}

TEST_CASE("a symbolic size is one size in all feeds of a call", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  LocalCluster cluster(1, 1);
  SessionGraph s(catalogue);
  GraphBuilder& g = s.g;
  const Dim n = g.batch("N");
  s.graph.symbol_info(n.symbol).bound = 8;
  const ValueId a = g.input("a", DType::f32, {n});
  const ValueId b = g.input("b", DType::f32, {n});
  const ValueId pairs = g.input("pairs", DType::f32, {Dim::of_symbol(n.symbol, 2)});
  s.value("sum", "Add", {a, b});
  s.value("all", "Concat", {a, b, pairs}, {{"axis", int64_t{0}}});
  auto session = must(Session::open(cluster.master(), {}));
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

TEST_CASE("a fed value keeps what would make it from running", "[cluster]") {
  Fixture f;
  SessionGraph& s = f.graph;
  s.value("z", "Mul", {*s.graph.find_value("y"), s.g.scalar(DType::f32, 3)});
  must(f.session->extend(1, s.get()));
  // y's own input is not fed, so y cannot have been computed. Its size is free.
  const auto out = must(f.session->run({{"y", matrix({1, 2, 3, 4, 5, 6})}}, {"z"}, {}));
  CHECK(floats(out[0]) == std::vector<float>{3, 6, 9, 12, 15, 18});
  CHECK(floats(must(f.session->run({{"y", matrix({1, 2})}}, {"z", "z"}, {}))[1]) ==
        std::vector<float>{3, 6});
}

TEST_CASE("feeds and fetches carry every element type, and no elements at all", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  LocalCluster cluster(1, 1);
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
  auto session = must(Session::open(cluster.master(), {}));
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

TEST_CASE("callables are resolved once, and released", "[cluster]") {
  Fixture f;
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

TEST_CASE("a step that fails while it runs leaves the session as it was", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  LocalCluster cluster(1, 1);
  SessionGraph s(catalogue);
  const ValueId table = s.g.constant(floats({1, 2, 3}));
  const ValueId at = s.g.input("at", DType::i64, {s.g.batch("N")});
  s.value("row", "Gather", {table, at});
  auto session = must(Session::open(cluster.master(), {}));
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

TEST_CASE("a part of the graph may run on another worker", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  LocalCluster cluster(2, 1);
  SessionGraph s(catalogue);
  GraphBuilder& g = s.g;
  const std::string first = "job:worker/task:0", second = "job:worker/task:1";
  const ValueId v = s.variable("v", 2, first), w = s.variable("w", 2, second);
  s.effect("init", "leat.Initialize", {v, g.constant(floats({1, 2}))});
  s.effect("init2", "leat.Initialize", {w, g.constant(floats({10, 20}))});
  const ValueId x = g.input("x", DType::f32, Shape{2});
  const ValueId h = s.value("h", "Mul", {x, s.value("read v", "leat.Read", {v})}, {}, first);
  const ValueId y = s.value("y", "Mul", {h, s.value("read w", "leat.Read", {w})}, {}, second);
  s.effect("feed back", "leat.AssignAdd", {v, y});
  auto session = must(Session::open(cluster.master(), {}));
  must(session->extend(0, s.get()));
  must(session->run({}, {}, {"init", "init2"}));
  CHECK(floats(must(session->run({{"x", floats({3, 4})}}, {"y"}, {"feed back"}))[0]) ==
        std::vector<float>{30, 160});
  CHECK(floats(must(session->run({}, {"read v"}, {}))[0]) == std::vector<float>{31, 162});
  CHECK(cluster.worker(0).resources("job").find_variable("v") != nullptr);
  CHECK(cluster.worker(0).resources("job").find_variable("w") == nullptr);
  CHECK(cluster.worker(1).resources("job").find_variable("w") != nullptr);
}

TEST_CASE("a variable stays where the job's first step of it put it", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  LocalCluster cluster(2, 1);
  // The constraint stands at a reader only: a step without the reader could go elsewhere.
  SessionGraph s(catalogue);
  const ValueId v = s.variable("v", 2);
  const ValueId r = s.value("value", "leat.Read", {v}, {}, "job:worker/task:1");
  s.effect("set", "leat.Assign", {v, s.g.input("x", DType::f32, Shape{2})});
  s.value("plain", "leat.Read", {v});
  (void)r;
  auto session = must(Session::open(cluster.master(), {}));
  must(session->extend(0, s.get()));
  SECTION("the constrained step first: the others follow") {
    must(session->run({}, {"value"}, {}));
    must(session->run({{"x", floats({7, 8})}}, {}, {"set"}));
    CHECK(floats(must(session->run({}, {"value"}, {}))[0]) == std::vector<float>{7, 8});
    CHECK(cluster.worker(0).resources("job").find_variable("v") == nullptr);
  }
  SECTION("the free step first: the constraint cannot be met any more") {
    must(session->run({{"x", floats({7, 8})}}, {}, {"set"}));
    CHECK(floats(must(session->run({}, {"plain"}, {}))[0]) == std::vector<float>{7, 8});
    check_says(session->run({}, {"value"}, {}).status(), Code::invalid_argument, "task:1");
  }
}

TEST_CASE("random ops draw anew in each step of a session", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  LocalCluster cluster(1, 1);
  SessionGraph s(catalogue);
  s.value("noise", "RandomUniform", {}, {{"shape", std::vector<int64_t>{16}}});
  const auto draw = [&](uint64_t seed) {
    SessionOptions options;
    options.seed = seed;
    auto session = must(Session::open(cluster.master(), options));
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

TEST_CASE("a session asks for workers that there are", "[cluster]") {
  LocalCluster cluster(2, 1);
  SessionOptions options;
  options.workers = 3;
  check_says(Session::open(cluster.master(), options).status(), Code::invalid_argument,
             "expected 0 (all) to 2, received 3");
  auto session = must(Session::open(cluster.master(), {}));
  check_says(session->run({}, {"x"}, {}).status(), Code::failed_precondition, "not been extended");
}

}  // namespace leat
