#include "ops/catalogue.h"
#include "tests/daemon/session_cases.h"

namespace leat {
namespace {

using namespace testing;

using Fixture = BasicSession<InProcess>;

}  // namespace

TEST_CASE("on accelerators, sessions do what they do on CPUs", "[cluster]") {
  SECTION("state stays") { state_stays<Accelerated>(); }
  SECTION("a graph is extended") { graph_is_extended<Accelerated>(); }
  SECTION("wrong steps are refused") { wrong_steps_are_refused<Accelerated>(); }
  SECTION("a symbolic size is one size") { symbolic_sizes<Accelerated>(); }
  SECTION("values are fed") { fed_values<Accelerated>(); }
  SECTION("every element type is fed and fetched") { element_types<Accelerated>(); }
  SECTION("callables are resolved once") { callables<Accelerated>(); }
  SECTION("random ops draw anew") { random_steps<Accelerated>(); }
  SECTION("steps are blocked in a queue") { blocked_steps<Accelerated>(); }
  SECTION("a hundred steps are in flight") { hundred_steps<Accelerated>(); }
  SECTION("eight threads step") { eight_threads<Accelerated>(); }
  SECTION("plans are dropped") { dropped_plans<Accelerated>(); }
  SECTION("steps are late") { late_steps<Accelerated>(); }
  SECTION("steps are cancelled") { cancelled_steps<Accelerated>(); }
}

// An accelerator has done what follows a kernel that fails, so the session is of no further use.
TEST_CASE("a step that fails on an accelerator fails the session", "[cluster]") {
  const Catalogue catalogue = Accelerated::catalogue();
  Accelerated place(1);
  SessionGraph s(catalogue);
  const ValueId table = s.g.input("table", DType::f32, {Dim::of(3)}),
                at = s.g.input("at", DType::i64, {Dim::of(2)});
  s.value("row", "Gather", {table, at});
  const auto session = place.open({});
  must(session->extend(0, s.get()));
  const auto row = [&](std::vector<int64_t> index) {
    return session->run({{"table", floats({1, 2, 3})}, {"at", Tensor::of<int64_t>({2}, index)}},
                        {"row"}, {});
  };
  CHECK(floats(must(row({2, 0}))[0]) == std::vector<float>{3, 1});
  for (const int64_t last : {7, 1}) {
    const Status failed = row({0, last}).status();
    check_says(failed, Code::invalid_argument,
               "Gather 'row': expected an index in [-3, 2], received 7 as element 1");
    check_says(failed, Code::invalid_argument, "session' on job:worker/task:0/gpu:0");
  }
}

TEST_CASE("state stays from one step of a session to the next", "[cluster]") {
  state_stays<InProcess>();
}
TEST_CASE("a graph is extended by what it holds already and more", "[cluster]") {
  graph_is_extended<InProcess>();
}
TEST_CASE("a step that is asked for wrongly is refused by name", "[cluster]") {
  wrong_steps_are_refused<InProcess>();
}
TEST_CASE("a value that is no tensor is neither fed nor fetched", "[cluster]") {
  other_kinds_are_refused<InProcess>();
}
TEST_CASE("a symbolic size is one size in all feeds of a call", "[cluster]") {
  symbolic_sizes<InProcess>();
}
TEST_CASE("a fed value keeps what would make it from running", "[cluster]") {
  fed_values<InProcess>();
}
TEST_CASE("feeds and fetches carry every element type, and no elements at all", "[cluster]") {
  element_types<InProcess>();
}
TEST_CASE("callables are resolved once, and released", "[cluster]") { callables<InProcess>(); }
TEST_CASE("a step that fails while it runs leaves the session as it was", "[cluster]") {
  failing_steps<InProcess>();
}
TEST_CASE("random ops draw anew in each step of a session", "[cluster]") {
  random_steps<InProcess>();
}

TEST_CASE("sessions of one job share its variables, other jobs have their own", "[cluster]") {
  Fixture f;
  must(f.session->run({{"to", floats({5, 6})}}, {}, {"assign"}));
  auto same = must(Session::open(*f.place.hosts, {}));
  must(same->extend(0, f.graph.get()));
  CHECK(floats(must(same->run({}, {"value"}, {}))[0]) == std::vector<float>{5, 6});
  SessionOptions options;
  options.job = "another";
  auto other = must(Session::open(*f.place.hosts, options));
  must(other->extend(0, f.graph.get()));
  CHECK(floats(must(other->run({}, {"value"}, {}))[0]) == std::vector<float>{0, 0});
  f.session->close();
  CHECK(floats(must(same->run({}, {"value"}, {}))[0]) == std::vector<float>{5, 6});
}

TEST_CASE("a part of the graph may run on another worker", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  const auto hosts = make_local_hosts(2, 1);
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
  auto session = must(Session::open(*hosts, {}));
  must(session->extend(0, s.get()));
  must(session->run({}, {}, {"init", "init2"}));
  CHECK(floats(must(session->run({{"x", floats({3, 4})}}, {"y"}, {"feed back"}))[0]) ==
        std::vector<float>{30, 160});
  CHECK(floats(must(session->run({}, {"read v"}, {}))[0]) == std::vector<float>{31, 162});
  CHECK(must(hosts->hosts()[0]->read_variables("job")).contains("v"));
  CHECK(!must(hosts->hosts()[0]->read_variables("job")).contains("w"));
  CHECK(must(hosts->hosts()[1]->read_variables("job")).contains("w"));
}

TEST_CASE("a variable stays where the job's first step of it put it", "[cluster]") {
  const Catalogue catalogue = standard_catalogue();
  const auto hosts = make_local_hosts(2, 1);
  // The constraint is on a reader only, so a step without the reader could be placed elsewhere.
  SessionGraph s(catalogue);
  const ValueId v = s.variable("v", 2);
  const ValueId r = s.value("value", "leat.Read", {v}, {}, "job:worker/task:1");
  s.effect("set", "leat.Assign", {v, s.g.input("x", DType::f32, Shape{2})});
  s.value("plain", "leat.Read", {v});
  (void)r;
  auto session = must(Session::open(*hosts, {}));
  must(session->extend(0, s.get()));
  SECTION("the constrained step first: the others follow") {
    must(session->run({}, {"value"}, {}));
    must(session->run({{"x", floats({7, 8})}}, {}, {"set"}));
    CHECK(floats(must(session->run({}, {"value"}, {}))[0]) == std::vector<float>{7, 8});
    CHECK(!must(hosts->hosts()[0]->read_variables("job")).contains("v"));
  }
  SECTION("the free step first: the constraint cannot be met any more") {
    must(session->run({{"x", floats({7, 8})}}, {}, {"set"}));
    CHECK(floats(must(session->run({}, {"plain"}, {}))[0]) == std::vector<float>{7, 8});
    check_says(session->run({}, {"value"}, {}).status(), Code::invalid_argument, "task:1");
  }
}

TEST_CASE("a session asks for workers that there are", "[cluster]") {
  const auto hosts = make_local_hosts(2, 1);
  SessionOptions options;
  options.workers = 3;
  check_says(Session::open(*hosts, options).status(), Code::invalid_argument,
             "expected 0 (all) to 2, received 3");
  auto session = must(Session::open(*hosts, {}));
  check_says(session->run({}, {"x"}, {}).status(), Code::failed_precondition, "not been extended");
}

}  // namespace leat
