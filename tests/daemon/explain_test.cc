// Records steps of jobs on real daemons, which are slow in known ways: `leat explain` has to name
// the right one first, and `leat trace` writes a file that viewers can read.
#include <signal.h>

#include <condition_variable>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/catch.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/daemon/traces/trace_schema.h"
#include "tests/daemon/why_scene.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

nlohmann::json explain(WhyScene& scene, const std::string& id, int steps) {
  const Finished done =
      scene.cluster().leat("explain", {id, "--json", "--steps", std::to_string(steps)});
  INFO(done.out << done.err);
  REQUIRE(done.exit_code == 0);
  return nlohmann::json::parse(last_object(done.out));
}

// The part of the path that takes the most time.
std::string largest_part(const nlohmann::json& explanation) {
  std::string largest;
  for (const auto& [name, ms] : explanation.at("parts").items()) {
    if (largest.empty() || ms > explanation["parts"][largest]) largest = name;
  }
  return largest;
}

TEST_CASE("a trace has all devices of the job, and an arrow for each transfer") {
  const std::string transports = GENERATE("[tcp]", "[shm, tcp]");
  ProcessClusterOptions options;
  options.workers = 3;
  options.threads = 2;
  options.transports = transports;
  WhyScene scene(options);
  const std::string id = scene.start(3, 10);
  const std::string path = scene.cluster().folder() / "steps.json";
  const Finished done = scene.cluster().leat("trace", {id, "--steps", "5", "-o", path, "--json"});
  INFO(done.out << done.err);
  REQUIRE(done.exit_code == 0);
  const auto facts = nlohmann::json::parse(last_object(done.out));
  CHECK(facts.at("steps") == 5);
  CHECK(facts.at("devices") == 3);
  CHECK(facts.at("dropped") == 0);
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const TraceFacts trace = check_trace(text);
  CHECK(trace.processes == 3);
  CHECK(trace.slices == facts.at("events"));
  // Each worker sends to each other one in every step.
  CHECK(trace.arrows >= 5 * 3);
}

TEST_CASE("the parts of an explanation add up to the step") {
  WhyScene scene(2);
  const std::string id = scene.start(2, 10);
  const auto e = explain(scene, id, 20);
  double sum = 0;
  for (const auto& [name, ms] : e.at("parts").items()) sum += ms.get<double>();
  INFO(e.dump());
  CHECK(e.at("steps") == 20);
  CHECK(e.at("step_ms") > 0);
  CHECK(sum == Approx(e.at("step_ms").get<double>()).margin(1e-5));  // each is rounded to 1e-6
  CHECK(e.at("devices").size() == 2);
  CHECK(!e.at("nodes").empty());
}

TEST_CASE("the page of a job's steps has a lane for each thread, the path and the graph") {
  ProcessClusterOptions options;
  options.workers = 2;
  options.threads = 1;
  WhyScene scene(options);
  const std::string http = scene.cluster().master().ready().http;
  const std::string id = scene.start(2, 10);
  CHECK_THAT(HttpClient(http).get("/jobs/" + id).body, Catch::Contains("/steps\">The next steps"));
  const HttpReply page = HttpClient(http).get("/jobs/" + id + "/steps");
  CHECK(page.status == 200);
  CHECK_THAT(page.body, Catch::Contains("<li>w0 cpu:0, thread 0</li>") &&
                            Catch::Contains("<li>w1 cpu:0, thread 0</li>") &&
                            Catch::Contains("The critical path of a step") &&
                            Catch::Contains("<td>Conv</td>") && Catch::Contains("class=\"arrow\""));
  CHECK(HttpClient(http).get("/jobs/none/steps").status == 404);
  scene.scene().cancel(id);
  (void)scene.scene().await_end(id);
  CHECK(HttpClient(http).get("/jobs/" + id + "/steps").status == 409);
}

TEST_CASE("explain names a slow link first", "[minutes]") {
  const std::string place = GENERATE("transport/send_bundle", "transport/take_frame");
  WhyScene scene(worker_failpoints(2, place + (kSlowness > 1 ? "=delay60ms" : "=delay15ms")));
  const std::string id = scene.start(2, 3);
  const auto e = explain(scene, id, 5);
  INFO(e.dump());
  CHECK(largest_part(e) == "wire");
  CHECK(e.at("advice").at("1").at("kind") == "wire");
}

// Rows of a large array stay in their file, and are read one by one.
const std::vector<std::string> kManyRows = {"global_batch_size=240"};
// Enough work that a step's time is compute, with data that fit in memory.
const std::vector<std::string> kMuchWork = {"global_batch_size=48"};
const std::string kManyFilters = small_cnn("wide", false, kSlowness > 1 ? 128 : 512);

TEST_CASE("explain names a slow input first", "[minutes]") {
  const std::string delay = GENERATE("delay1ms", "delay3ms");
  const int workers = GENERATE(1, 2);
  WhyScene scene(worker_failpoints(workers, "files/read=" + delay));
  const std::string id = scene.start(workers, 1, kManyRows);
  const auto e = explain(scene, id, 3);
  INFO(e.dump());
  CHECK(largest_part(e) == "input");
  CHECK(e.at("advice").at("1").at("kind") == "input");
}

TEST_CASE("explain names too few threads first", "[minutes]") {
  WhyScene scene({.workers = 1}, kManyFilters);
  const std::string id = scene.start(1, 3, kMuchWork);
  const auto e = explain(scene, id, 5);
  INFO(e.dump());
  CHECK(e.at("parts").at("compute") > e.at("parts").at("queueing"));
  const bool has_more = std::thread::hardware_concurrency() > 1;
  // Programs beside the test make other parts of a step long, too.
  if (times_are_checked())
    CHECK(e.at("advice").at("1").at("kind") == (has_more ? "threads" : "node"));
}

TEST_CASE("explain names the worker whose processors others use as the slowest", "[minutes]") {
  WhyScene scene({.workers = 2}, kManyFilters);
  const std::string id = scene.start(2, 3, kMuchWork);
  const std::string worker = GENERATE("w0", "w1");
  scene.disturb(id, worker);
  const auto e = explain(scene, id, 100);
  INFO(e.dump());
  CHECK((e.at("slowest") == "w0" || e.at("slowest") == "w1"));
  // Programs beside the test may take the processors of the other worker, too.
  if (!times_are_checked()) return;
  CHECK(e.at("slowest") == worker);
  CHECK(e.at("advice").at("1").at("kind") == "straggler");
}

// A model whose steps take no time beside what a step itself costs.
TEST_CASE("explain names a small batch first", "[minutes]") {
  const std::string transports = GENERATE("[tcp]", "[shm, tcp]");
  WhyScene scene({.workers = 2, .threads = 2, .transports = transports}, kTinyDense);
  const std::string id = scene.start(2, 200, {"shards=2", "global_batch_size=2"});
  const auto e = explain(scene, id, 100);
  INFO(e.dump());
  CHECK(e.at("parts").at("compute") < 0.5 * e.at("step_ms").get<double>());
  if (times_are_checked()) CHECK(e.at("advice").at("1").at("kind") == "batch");
}

constexpr const char* kHeavyNode = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
heavy (float[N,1,8,8] image) => (float[N,4] logits) {
  a = leat.Conv2D <filters = 64, kernel = 1, activation = "relu"> (image)
  b = leat.Conv2D <filters = 256, kernel = 5, activation = "relu"> (a)
  f = Flatten (b)
  logits = leat.Dense <units = 4> (f)
}
)";

TEST_CASE("explain names the node that takes the most first", "[minutes]") {
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
  WhyScene scene({.workers = 1, .threads = threads}, kHeavyNode);
  const std::string id = scene.start(1, 3, kMuchWork);
  const auto e = explain(scene, id, 5);
  INFO(e.dump());
  // Programs beside the test make the steps wait for processors.
  if (!times_are_checked()) return;
  CHECK(e.at("advice").at("1").at("kind") == "node");
  CHECK_THAT(e.at("advice").at("1").at("text").get<std::string>(), Catch::Contains("Conv"));
}

TEST_CASE("explain names the worker whose process stands still half of the time", "[minutes]") {
  WhyScene scene({.workers = 2}, kManyFilters);
  const std::string id = scene.start(2, 3, kMuchWork);
  const std::string worker = GENERATE("w0", "w1");
  const pid_t runner = scene.runner(id, worker);
  std::jthread stutters([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    for (bool stands = true; !stop.stop_requested(); stands = !stands) {
      ::kill(runner, stands ? SIGSTOP : SIGCONT);
      ended.wait_for(lock, stop, std::chrono::milliseconds(50), [] { return false; });
    }
    ::kill(runner, SIGCONT);
  });
  // Steps of a millisecond: a few of them would not meet a stop.
  const auto e = explain(scene, id, 200);
  stutters.request_stop();
  INFO(e.dump());
  if (!times_are_checked()) return;
  CHECK(e.at("slowest") == worker);
  CHECK(e.at("advice").at("1").at("kind") == "straggler");
}

TEST_CASE("explain refuses a job that does not train") {
  WhyScene scene(1);
  const std::string id = scene.start(2, 0);
  CHECK(scene.cluster().leat("explain", {id}).exit_code == 6);
  CHECK(scene.cluster().leat("trace", {id, "--steps", "0"}).exit_code == 2);
}

}  // namespace
}  // namespace leat
