// Tests lasting sessions on hosts of this process, which come and go.
#include "daemon/lasting/lasting_session.h"

#include <atomic>
#include <filesystem>
#include <future>

#include "daemon/hosts/local_hosts.h"
#include "daemon/session/graph_version.h"
#include "ops/capnp/graph_file.h"
#include "tests/daemon/session_testing.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace testing;
using namespace std::chrono_literals;

const Catalogue& ops() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

LoggedGraph file_of(uint64_t version, const Graph& graph) {
  LoggedGraph out{version, {}, {}};
  out.file = must(write_graph(graph));
  out.input_ids.assign(graph.inputs().begin(), graph.inputs().end());
  return out;
}

Result<Graph> read_back(const LoggedGraph& sent) {
  LEAT_ASSIGN_OR_RETURN(const Graph graph, read_graph(sent.file, ops()));
  return with_input_ids(graph, std::vector<ValueId>(sent.input_ids.begin(), sent.input_ids.end()));
}

// A variable that each "train" step doubles, and to which it adds "x" and a random number: the
// order of the steps and their numbers count. "broken" writes it and then fails.
const Graph& noisy_graph(SessionGraph& s) {
  const ValueId x = s.g.input("x", DType::f32, {Dim::of(2)});
  const ValueId at = s.g.input("at", DType::i64, {Dim::of(1)});
  const ValueId v = s.variable("v", 2);
  s.effect("init", "leat.Initialize", {v, s.g.constant(floats({1, 2}))});
  const ValueId now = s.value("now", "leat.Snapshot", {v});
  const ValueId noise = s.value("noise", "RandomUniform", {}, {{"shape", std::vector<int64_t>{2}}});
  const ValueId next =
      s.value("next", "Add", {s.g.op("Add", {now, now}), s.g.op("Add", {x, noise})});
  s.effect("train", "leat.Assign", {v, next});
  const NodeId wipe = s.effect("wipe", "leat.Assign", {v, s.g.constant(floats({0, 0}))});
  const ValueId row = s.value("row", "Gather", {s.g.constant(floats({1, 2, 3})), at}, {});
  s.graph.node(s.graph.value(row).producer).after = {wipe};
  return s.get();
}

struct Place {
  explicit Place(uint32_t save_every = 100) {
    options.save_every = save_every;
    options.seed = 9;
    options.timeout = 20s;
    renew();
  }
  // Another process of the master, on other hosts.
  void renew() {
    if (session != nullptr) session->suspend();
    session.reset();
    hosts = make_local_hosts(1, 1);
    session = std::make_unique<LastingSession>(
        options, read_back, SessionRecord{folder.path() + "/job/session.db", "job", keys});
    must(session->resume(*hosts, [] { return false; }));
  }
  void extend() {
    SessionGraph s(ops());
    CHECK(must(session->extend(file_of(0, noisy_graph(s)))) == 1);
  }
  StepOutcome run(Signature signature, std::vector<Tensor> feeds = {}) {
    return session->run({session->steps() + 1, std::move(signature), 0ms, std::move(feeds)});
  }
  StepOutcome train(float x) { return run({{"x"}, {"next"}, {"train"}, true}, {floats({x, -x})}); }
  std::vector<float> now() { return floats(must(run({{}, {"now"}, {}, true}))[0]); }

  TemporaryDirectory folder;
  SessionOptions options;
  std::shared_ptr<const CheckpointKeys> keys;
  std::unique_ptr<HostGroup> hosts;
  std::unique_ptr<LastingSession> session;
};

}  // namespace

TEST_CASE("a lasting session goes on with the same bits on hosts that hold nothing", "[cluster]") {
  for (const uint32_t save_every : {1u, 3u, 100u}) {
    INFO("saves after " << save_every << " steps");
    Place kept(save_every), renewed(save_every);
    for (Place* place : {&kept, &renewed}) {
      place->extend();
      must(place->run({{}, {}, {"init"}, true}));
    }
    for (int i = 0; i < 10; ++i) {
      // Its record is encrypted from here on.
      if (i == 5) renewed.keys = must(make_checkpoint_keys(std::vector{std::string(32, 'k')}));
      const auto x = static_cast<float>(i);
      const auto expected = floats(must(kept.train(x))[0]);
      CHECK(floats(must(renewed.train(x))[0]) == expected);
      if (i % 4 == 3) renewed.renew();
    }
    CHECK(renewed.session->steps() == 11);
    CHECK(renewed.session->version() == 1);
    CHECK(renewed.now() == kept.now());
  }
}

TEST_CASE("hosts that still hold variables of an earlier run begin with the saved ones",
          "[cluster]") {
  Place place;
  place.extend();
  must(place.run({{}, {}, {"init"}, true}));
  must(place.session->save());
  const auto after_one = floats(must(place.train(1))[0]);
  // The same hosts: their variable has the step already.
  place.session->suspend();
  must(place.session->resume(*place.hosts, [] { return false; }));
  CHECK(place.now() == after_one);
}

TEST_CASE("a step of a lasting session that is asked for again is not done again", "[cluster]") {
  Place place;
  place.extend();
  must(place.run({{}, {}, {"init"}, true}));
  const LoggedStep step{2, Signature{{"x"}, {"next"}, {"train"}, true}, 0ms, {floats({1, 2})}};
  const auto first = floats(must(place.session->run(step))[0]);
  CHECK(floats(must(place.session->run(step))[0]) == first);
  place.renew();
  CHECK(floats(must(place.session->run(step))[0]) == first);
  CHECK(floats(must(place.session->outcome(2))[0]) == first);
  CHECK(place.session->steps() == 2);
  CHECK(place.now() == first);
  // A number beyond the next one is refused, and takes nothing.
  LoggedStep later = step;
  later.number = 9;
  check_says(place.session->run(later).status(), Code::failed_precondition,
             "expected step 4, received step 9");
  check_says(place.session->outcome(9).status(), Code::failed_precondition, "has not taken step 9");
  // The number is that of another request.
  LoggedStep other = step;
  other.feeds = {floats({3, 4})};
  check_says(place.session->run(other).status(), Code::failed_precondition,
             "step 2 was another step");
  place.session->answered(2);
  check_says(place.session->outcome(2).status(), Code::failed_precondition,
             "its client has had the outcome");
}

TEST_CASE("a step of a lasting session that fails has changed nothing", "[cluster]") {
  Place place(3);
  place.extend();
  must(place.run({{}, {}, {"init"}, true}));
  const auto before = floats(must(place.train(1))[0]);
  const auto broken = [&](int64_t at) {
    return place.run({{"at"}, {"row"}, {"wipe"}, true}, {Tensor::of<int64_t>(Shape{1}, {at})});
  };
  for (int i = 0; i < 2; ++i) {
    const uint64_t number = place.session->steps() + 1;
    check_says(broken(7).status(), Code::invalid_argument, "7");
    CHECK(place.session->cause().ok());
    check_says(place.session->outcome(number).status(), Code::invalid_argument, "7");
    CHECK(place.now() == before);
    place.renew();
    check_says(place.session->outcome(number).status(), Code::invalid_argument, "7");
    CHECK(place.now() == before);
  }
  must(broken(1));
  CHECK(place.now() == std::vector<float>{0, 0});
}

TEST_CASE("a lasting session refuses what it cannot repeat, by name", "[cluster]") {
  Place place;
  SessionGraph s(ops());
  s.queue(3);
  must(place.session->extend(file_of(0, s.get())));
  check_says(
      place.run({{"element"}, {}, {"put"}, true}, {Tensor::of<int64_t>(Shape{}, {1})}).status(),
      Code::invalid_argument, "leat.Queue");
  check_says(place.run({{}, {"nothing"}, {}, true}).status(), Code::invalid_argument, "nothing");
  check_says(place.session->extend(file_of(0, s.get())).status(), Code::ok, "");
  SessionGraph other(ops());
  check_says(place.session->extend(file_of(0, noisy_graph(other))).status(),
             Code::failed_precondition, "expected to extend version 1");
  CHECK(place.session->steps() == 2);
  // A name that the graph has already would make "put" another node.
  s.effect("put", "leat.Enqueue",
           {s.g.op("leat.Queue", {},
                   {{"name", std::string("r")},
                    {"capacity", int64_t{1}},
                    {"components", std::vector<std::string>{"int64[]"}}}),
            s.g.constant(Tensor::scalar<int64_t>(1))});
  check_says(place.session->extend(file_of(1, s.graph)).status(), Code::invalid_argument,
             "received 'put', which the graph has already");
  CHECK(place.session->version() == 1);
}

TEST_CASE("callables of a lasting session keep their numbers", "[cluster]") {
  Place place;
  place.extend();
  must(place.run({{}, {}, {"init"}, true}));
  const Signature train{{"x"}, {"next"}, {"train"}, true};
  const CallableId first = must(place.session->make_callable(train));
  const CallableId second = must(place.session->make_callable(train));
  const auto call = [&](CallableId id) {
    return place.session->run({place.session->steps() + 1, id, 0ms, {floats({1, 1})}});
  };
  must(call(first));
  must(place.session->release_callable(first));
  place.renew();  // which repeats the step of the released one
  const auto value = floats(must(call(second))[0]);
  check_says(call(first).status(), Code::failed_precondition, "was released");
  check_says(call(17).status(), Code::invalid_argument, "there is none of that number");
  CHECK(place.now() == value);
  CHECK(must(place.session->make_callable(train)) == 3);
}

TEST_CASE("a step that reads a file reads it once", "[cluster]") {
  Place place;
  SessionGraph s(ops());
  const Attrs file = {{"path", std::string("v")}, {"names", std::vector<std::string>{"v"}}};
  const ValueId v = s.variable("v", 2);
  const ValueId now = s.value("now", "leat.Read", {v});
  s.effect("save", "leat.Save", {now}, file);
  const ValueId saved = s.value("saved", "leat.Restore", {now}, file);
  s.effect("restore", "leat.Assign", {v, saved});
  s.effect("one", "leat.Assign", {v, s.g.constant(floats({1, 1}))});
  s.effect("two", "leat.Assign", {v, s.g.constant(floats({2, 2}))});
  const auto with_files = [&] {
    set_save_folder(place.hosts->hosts(), place.options.job, place.folder.path() + "/saved");
  };
  with_files();
  must(place.session->extend(file_of(0, s.get())));
  for (const char* target : {"one", "save", "two", "restore"})
    must(place.run({{}, {}, {target}, true}));
  // The file has another value from here on, and is not read again.
  for (const char* target : {"two", "save"}) must(place.run({{}, {}, {target}, true}));
  must(place.run({{}, {}, {"restore"}, true}));
  CHECK(place.now() == std::vector<float>{2, 2});
}

TEST_CASE("a step of a lasting session is cancelled, and nothing of it stays", "[cluster]") {
  Gate gate;
  const Catalogue catalogue = gated_catalogue(gate);
  TemporaryDirectory folder;
  SessionOptions options;
  options.save_every = 10;
  options.timeout = 60s;
  const auto hosts = make_local_hosts(1, 1);
  LastingSession session(
      options, [&](const LoggedGraph& sent) { return read_graph(sent.file, catalogue); },
      SessionRecord{folder.path() + "/session.db"});
  must(session.resume(*hosts, [] { return false; }));
  SessionGraph s(catalogue);
  const ValueId v = s.variable("v", 1);
  const NodeId wipe = s.effect("wipe", "leat.Assign", {v, s.g.constant(floats({5}))});
  const ValueId held = s.value("held", "test.Gate", {s.g.constant(floats({1}))});
  s.graph.node(s.graph.value(held).producer).after = {wipe};
  s.value("now", "leat.Read", {v});
  must(session.extend(file_of(0, s.get())));
  gate.open = false;
  auto step = std::async(std::launch::async, [&] {
    return session.run({1, Signature{{}, {"held"}, {"wipe"}, true}, 0ms, {}}).status();
  });
  REQUIRE(eventually([&] { return gate.reached > 0; }));
  const bool halts = GENERATE(false, true);
  CHECK(session.runs(1));
  halts ? session.halt() : session.cancel(1);
  REQUIRE(eventually([&] { return !session.runs(1); }));
  gate.open = true;
  const Status status = step.get();
  if (halts) {
    // It stays to be done.
    CHECK(status.code() == Code::unavailable);
    CHECK_FALSE(session.cause().ok());
    must(session.resume(*hosts, [] { return false; }));
    CHECK(session.outcome(1).ok());
  } else {
    check_says(status, Code::cancelled, "was cancelled");
  }
  const auto now = session.run({2, Signature{{}, {"now"}, {}, true}, 0ms, {}});
  CHECK(floats(must(now)[0]) == std::vector<float>{halts ? 5.f : 0.f});
  session.forget();
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/session.db"));
}

}  // namespace leat
