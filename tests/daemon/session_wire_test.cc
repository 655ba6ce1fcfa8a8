// Tests sessions on real daemons, over the wire: the cases of sessions in one process, and how
// sessions begin and end.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "daemon/client/session_client.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "tests/daemon/leatd_process.h"
#include "tests/daemon/master/fake_worker.h"
#include "tests/daemon/session_cases.h"

namespace leat {
namespace {

using namespace testing;

// `leatd dev`, whose runners are processes.
struct OnDaemons {
  using Session = RemoteSession;
  using Step = RemoteStep;
  static constexpr auto kShort = std::chrono::milliseconds(500);

  static Catalogue catalogue() { return standard_catalogue(); }
  explicit OnDaemons(int workers, std::vector<std::string> environment = {})
      : dev({"dev", "--workers", cat(workers), "--threads", "1", "--listen", "127.0.0.1:0",
             "--http", "off"},
            with_folder(std::move(environment))) {
    address.address = dev.ready().listen;
  }
  std::vector<std::string> with_folder(std::vector<std::string> environment) const {
    environment.push_back("TMPDIR=" + temporary.path());
    return environment;
  }
  Result<std::unique_ptr<RemoteSession>> open_with(const RemoteSessionOptions& options) {
    return RemoteSession::open(address, options);
  }
  std::unique_ptr<RemoteSession> open(const SessionChoices& choices, int workers = 1) {
    RemoteSessionOptions options;
    options.name = choices.name;
    options.seed = choices.seed;
    options.plans = choices.plans;
    options.workers = workers;
    options.gpus = gpus;
    auto session = open_with(options);
    INFO(dev.log());
    return must(std::move(session));
  }
  std::string state_of(const std::string& job) {
    if (client == nullptr) client = must(ClusterClient::connect(address));
    return std::string(name_of(must(client->job(job)).condition.state));
  }
  bool becomes(const std::string& job, const std::string& state) {
    const bool became = eventually([&] { return state_of(job) == state; });
    if (!became) UNSCOPED_INFO(state_of(job) << "\n" << dev.log());
    return became;
  }
  // Returns the processes of this daemon's runners.
  std::vector<pid_t> runners() const {
    std::vector<pid_t> pids;
    std::error_code ignored;
    const std::string tasks = cat("/proc/", dev.pid(), "/task");
    for (const auto& task : std::filesystem::directory_iterator(tasks, ignored)) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid; children >> pid;) pids.push_back(pid);
    }
    return pids;
  }

  const TemporaryDirectory temporary;
  bool gpus = false;
  LeatdProcess dev;
  ClusterClientOptions address;
  std::unique_ptr<ClusterClient> client;
};

// The same, where each worker has a GPU of a plugin that needs none.
struct OnGpus : OnDaemons {
  explicit OnGpus(int workers) : OnDaemons(workers, {cat("LEAT_PLUGINS=", LEAT_ASYNC_PLUGINS)}) {
    gpus = true;
  }
};

}  // namespace

TEST_CASE("on GPUs of daemons, sessions do what they do on CPUs", "[cluster]") {
  SECTION("state stays") { state_stays<OnGpus>(); }
  SECTION("a graph is extended") { graph_is_extended<OnGpus>(); }
  SECTION("values are fed") { fed_values<OnGpus>(); }
  SECTION("every element type is fed and fetched") { element_types<OnGpus>(); }
  SECTION("callables are resolved once") { callables<OnGpus>(); }
  SECTION("random ops draw anew") { random_steps<OnGpus>(); }
  SECTION("steps are blocked in a queue") { blocked_steps<OnGpus>(); }
  SECTION("a hundred steps are in flight") { hundred_steps<OnGpus>(); }
  SECTION("steps are cancelled") { cancelled_steps<OnGpus>(); }
}
TEST_CASE("on daemons, state stays from one step to the next", "[cluster]") {
  state_stays<OnDaemons>();
}
TEST_CASE("on daemons, a graph is extended by what it holds and more", "[cluster]") {
  graph_is_extended<OnDaemons>();
}
TEST_CASE("on daemons, a step that is asked for wrongly is refused by name", "[cluster]") {
  wrong_steps_are_refused<OnDaemons>();
}
TEST_CASE("on daemons, a symbolic size is one size in a call", "[cluster]") {
  symbolic_sizes<OnDaemons>();
}
TEST_CASE("on daemons, a fed value keeps what would make it from running", "[cluster]") {
  fed_values<OnDaemons>();
}
TEST_CASE("on daemons, feeds and fetches carry every element type", "[cluster]") {
  element_types<OnDaemons>();
}
TEST_CASE("on daemons, callables are resolved once, and released", "[cluster]") {
  callables<OnDaemons>();
}
TEST_CASE("on daemons, a step that fails leaves the session as it was", "[cluster]") {
  failing_steps<OnDaemons>();
}
TEST_CASE("on daemons, random ops draw anew in each step", "[cluster]") {
  random_steps<OnDaemons>();
}
TEST_CASE("on daemons, a step that is blocked in a queue holds up no other", "[cluster]") {
  blocked_steps<OnDaemons>();
}
TEST_CASE("on daemons, a hundred steps in flight all end", "[cluster]") {
  hundred_steps<OnDaemons>();
}
TEST_CASE("on daemons, eight threads run callables at once", "[cluster]") {
  eight_threads<OnDaemons>();
}
TEST_CASE("on daemons, a plan lives as long as its steps", "[cluster]") {
  dropped_plans<OnDaemons>();
}
TEST_CASE("on daemons, a step past its deadline says what it waits for", "[cluster]") {
  late_steps<OnDaemons>();
}
TEST_CASE("on daemons, a step is cancelled by whoever holds it", "[cluster]") {
  cancelled_steps<OnDaemons>();
}

TEST_CASE("closing a session on daemons ends its steps, and its job", "[cluster]") {
  QueueSession<OnDaemons> f(4, {.name = "notebook"});
  const std::string job = f.session->job();
  CHECK(f.place.state_of(job) == "RUNNING");
  CHECK(f.place.runners().size() == 1);
  std::vector<RemoteStep> steps;
  std::atomic<int> finished{0};
  for (int i = 0; i < 5; ++i)
    steps.push_back(must(f.session->start({}, {"taken"}, {}, {}, [&] { ++finished; })));
  f.session->close();
  CHECK(finished == 5);
  for (RemoteStep& step : steps) {
    CHECK(step.over());
    check_says(step.wait().status(), Code::cancelled, "session 'notebook' was closed");
  }
  check_says(f.put(1), Code::failed_precondition, "session 'notebook' is closed");
  f.session->close();
  CHECK(f.place.becomes(job, "SUCCEEDED"));
  CHECK(eventually([&] { return f.place.runners().empty(); }));
}

TEST_CASE("parts of a session's graph run on several daemons", "[cluster]") {
  OnDaemons place(2);
  const Catalogue catalogue = standard_catalogue();
  SessionGraph s(catalogue);
  const std::string first = "job:worker/task:0", second = "job:worker/task:1";
  const ValueId v = s.variable("v", 1, first);
  s.effect("init", "leat.Initialize", {v, s.g.constant(floats({0}))});
  const ValueId read = s.value("value", "leat.Read", {v}, {}, first);
  const ValueId more = s.value("more", "Add", {read, s.g.constant(floats({1}))}, {}, second);
  s.effect("increase", "leat.Assign", {v, more});
  const auto session = place.open({}, 2);
  must(session->extend(0, s.get()));
  must(session->run({}, {}, {"init"}));
  const auto increase = must(session->make_callable({{}, {}, {"increase"}}));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) failed += session->run_callable(increase, {}).ok() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(floats(must(session->run({}, {"value"}, {}))[0]) == std::vector<float>{100});
}

TEST_CASE("a session on daemons saves a file, which another worker restores", "[cluster]") {
  OnDaemons place(2);
  const Catalogue catalogue = standard_catalogue();
  SessionGraph s(catalogue);
  const std::string first = "job:worker/task:0", second = "job:worker/task:1";
  const Attrs file = {{"path", std::string("deep/v")}, {"names", std::vector<std::string>{"v"}}};
  const ValueId v = s.variable("v", 2, first);
  s.effect("init", "leat.Initialize", {v, s.g.constant(floats({1, 2}))});
  const ValueId read = s.value("value", "leat.Read", {v}, {}, first);
  s.effect("save", "leat.Save", {read}, file);
  s.value("saved", "leat.Restore", {read}, file, second);
  s.effect("clear", "leat.Assign", {v, s.g.constant(floats({0, 0}))});
  const auto session = place.open({}, 2);
  must(session->extend(0, s.get()));
  must(session->run({}, {}, {"init"}));
  const Status missing = session->run({}, {"saved"}, {}).status();
  CHECK(missing.code() == Code::failed_precondition);
  CHECK(missing.message().find("'deep/v': there is no such file") != std::string::npos);
  must(session->run({}, {}, {"save"}));
  must(session->run({}, {}, {"clear"}));
  CHECK(floats(must(session->run({}, {"saved"}, {}))[0]) == std::vector<float>{1, 2});
}

TEST_CASE("large graphs, feeds and fetches cross the wire whole", "[cluster]") {
  OnDaemons place(1);
  const Catalogue catalogue = standard_catalogue();
  SessionGraph s(catalogue);
  Tensor large(DType::f32, Shape{1'000'000});
  for (int64_t i = 0; i < large.elements(); ++i) large.data<float>()[i] = static_cast<float>(i);
  const ValueId constant = s.value("constant", "Identity", {s.g.constant(large)});
  const ValueId x = s.g.input("x", DType::f32, {s.g.batch("N")});
  s.value("difference", "ReduceMax", {s.g.op("Sub", {x, constant})}, {{"keepdims", int64_t{0}}});
  s.value("y", "Neg", {x});
  s.value("x copy", "Identity", {x});
  const auto session = place.open({});
  must(session->extend(0, s.get()));
  CHECK(must(session->run({{"x", large}}, {"difference"}, {}))[0].at(0) == 0);
  // These values are too large for a message, alone or together with others.
  for (const int64_t size : {50'000, 110'000, 1'000'000}) {
    const Tensor part = Tensor::wrap(DType::f32, Shape{size}, large.raw(), nullptr);
    const auto out = must(session->run({{"x", part}}, {"y", "x copy"}, {}));
    CHECK(out[0].at(size - 1) == 1 - size);
    CHECK(out[1].identical(part));
  }
}

TEST_CASE("a session waits in the queue for its workers, and leaves it in time", "[cluster]") {
  OnDaemons place(1);
  RemoteSessionOptions options;
  const auto first = must(place.open_with(options));
  options.wait = std::chrono::milliseconds(200);
  check_says(place.open_with(options).status(), Code::deadline_exceeded,
             "QUEUED: waits for 1 worker, 0 free");
  options.workers = 2;
  check_says(place.open_with(options).status(), Code::deadline_exceeded,
             "waits for 2 workers, 1 there");
  first->close();
  options.workers = 1;
  options.wait = std::chrono::seconds(20);
  const auto second = must(place.open_with(options));
  CHECK(second->job() != first->job());
}

TEST_CASE("a session whose job is cancelled says so", "[cluster]") {
  QueueSession<OnDaemons> f;
  RemoteStep blocked = f.take();
  const std::string job = f.session->job();
  CHECK(f.place.state_of(job) == "RUNNING");
  must(f.place.client->cancel(job).status());
  CHECK_FALSE(blocked.wait().ok());
  CHECK(f.place.becomes(job, "CANCELLED"));
  check_says(f.put(1), Code::cancelled, cat("session '", job, "'"));
}

TEST_CASE("a session whose runner is killed fails with the cause", "[cluster]") {
  QueueSession<OnDaemons> f;
  RemoteStep blocked = f.take();
  const auto runners = f.place.runners();
  REQUIRE(runners.size() == 1);
  REQUIRE(::kill(runners[0], SIGKILL) == 0);
  CHECK_FALSE(blocked.wait().ok());
  CHECK(f.place.becomes(f.session->job(), "FAILED"));
  check_says(f.put(1), Code::unavailable, "was killed by signal 9");
}

TEST_CASE("wrong options of a session are refused", "[cluster]") {
  OnDaemons place(1);
  const auto refused = [&](auto field, const std::string& text) {
    RemoteSessionOptions options;
    options.*field = {};
    check_says(place.open_with(options).status(), Code::invalid_argument, text);
  };
  refused(&RemoteSessionOptions::workers, "num_workers");
  refused(&RemoteSessionOptions::shards, "shards: expected 1 to 4096, received 0");
  refused(&RemoteSessionOptions::plans, "plans: expected 1 to 1024, received 0");
  refused(&RemoteSessionOptions::timeout, "timeout");
}

TEST_CASE("the example program fits its line on daemons", "[cluster]") {
  OnDaemons place(1);
  const Finished done =
      run_program(LEAT_FIT_A_LINE, place.temporary.path(), {place.address.address}, {});
  INFO(done.out << done.err << place.dev.log());
  CHECK(done.exit_code == 0);
  CHECK_THAT(done.out, Catch::Contains("y = 2 x + 1"));
  const std::string job = done.out.substr(8, done.out.find('\n') - 8);
  CHECK(place.becomes(job, "SUCCEEDED"));
}

}  // namespace leat
