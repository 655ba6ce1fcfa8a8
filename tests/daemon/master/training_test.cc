// Trains jobs on a real cluster: leatd dev, whose runners are processes.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/leatd_process.h"
#include "tests/daemon/master/fake_worker.h"
#include "tests/daemon/small_client.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr char kGraph[] = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
small (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  h = leat.Dense <units = 16, activation = "relu"> (f)
  logits = leat.Dense <units = 4> (h)
}
)";

class DevCluster {
 public:
  explicit DevCluster(int workers)
      : small_(kGraph),
        dev_({"dev", "--workers", cat(workers), "--threads", "1", "--listen", "127.0.0.1:0",
              "--http", "off", "--set", "datasets.data=" + small_.path()},
             {"TMPDIR=" + temporary_.path()}) {
    client_ = client_of(dev_);
  }

  // Submits the job of small().job() as a user would.
  std::string submit(std::vector<std::string> overrides) {
    JobRequest request = request_of(small_, small_.job());
    request.overrides = std::move(overrides);
    return must(client_->submit(request)).id;
  }

  // Waits until `holds` is true of the job. Returns the last view after a time-out.
  JobView wait(const std::string& id, const std::function<bool(const JobView&)>& holds) {
    JobView view;
    const auto until = std::chrono::steady_clock::now() + 300s;
    while (std::chrono::steady_clock::now() < until) {
      view = must(client_->watch(id, view.version, 1s));
      if (holds(view)) return view;
    }
    UNSCOPED_INFO(log(id));
    UNSCOPED_INFO(dev_.log());
    REQUIRE(holds(view));
    return view;
  }
  JobView end(const std::string& id) {
    return wait(id, [](const JobView& view) { return has_ended(view.condition.state); });
  }
  std::string log(const std::string& id) {
    std::string text;
    for (const LogLine& line : must(client_->logs(id, 0)).lines) {
      text += cat(line.worker, " ", line.text, "\n");
    }
    return text;
  }

  // The processes of the daemon's runners.
  std::vector<pid_t> runners() const {
    std::vector<pid_t> pids;
    std::error_code ignored;
    const std::string tasks = cat("/proc/", dev_.pid(), "/task");
    for (const auto& task : std::filesystem::directory_iterator(tasks, ignored)) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid; children >> pid;) pids.push_back(pid);
    }
    return pids;
  }

  ClusterClient& client() { return *client_; }
  const SmallJob& small() const { return small_; }
  LeatdProcess& dev() { return dev_; }

 private:
  const TemporaryDirectory temporary_;  // a killed daemon leaves its folder behind
  const SmallJob small_;
  LeatdProcess dev_;
  std::unique_ptr<ClusterClient> client_;
};

}  // namespace

TEST_CASE("a job trains on a cluster to the weights of one process") {
  DevCluster cluster(2);
  const std::string expected = cluster.small().hash(cluster.small().job(), "local");
  const std::string alone = cluster.submit({"num_workers=1"});
  CHECK(cluster.end(alone).condition.result.weights_sha256 == expected);
  const std::string both = cluster.submit({"num_workers=2"});
  const JobView view = cluster.end(both);
  INFO(cluster.log(both));
  CHECK(view.condition.state == JobState::succeeded);
  CHECK(view.condition.result.weights_sha256 == expected);
  CHECK(view.condition.workers == std::vector<std::string>{"worker-0", "worker-1"});
  CHECK(view.progress.last.step == 30);
  CHECK(view.progress.last.steps == 30);
  CHECK(view.progress.last.samples_per_step == 24);

  const TemporaryDirectory folder;
  const std::string weights =
      must(cluster.client().fetch(both, "weights.safetensors", folder.path()));
  CHECK(contents_of(weights) == contents_of(cluster.small().path("local/weights.safetensors")));
  CHECK_THAT(cluster.log(both), Catch::Contains("master SUCCEEDED"));
  CHECK(cluster.dev().stop() == 0);
}

TEST_CASE("a job whose runner is killed goes on from its checkpoint, to the same weights") {
  DevCluster cluster(2);
  // So many that the job goes on while this test, on a busy machine, finds its runners.
  const std::string steps = kSlowness > 1 ? "steps=1500" : "steps=5000";
  const std::vector<std::string> more = {steps, "checkpoint.every_steps=100"};
  const std::string expected = cluster.small().hash(cluster.small().job(more), "local");
  std::vector<std::string> overrides = more;
  overrides.push_back("num_workers=2");
  const std::string id = cluster.submit(overrides);
  (void)cluster.wait(id, [](const JobView& view) { return view.progress.last.step > 300; });
  const auto runners = cluster.runners();
  REQUIRE(runners.size() == 2);
  REQUIRE(::kill(runners[0], SIGKILL) == 0);
  const JobView view = cluster.end(id);
  INFO(cluster.log(id));
  CHECK(view.condition.state == JobState::succeeded);
  CHECK(view.condition.result.weights_sha256 == expected);
  CHECK(view.condition.restarts == 1);
  CHECK_THAT(cluster.log(id),
             Catch::Contains("was killed by signal 9") &&
                 Catch::Contains("master RECOVERING, assembly 2 on worker-0, worker-1") &&
                 Catch::Contains("master goes on after step"));
}

TEST_CASE("a running job is cancelled, and its worker takes the next") {
  DevCluster cluster(1);
  const std::string id = cluster.submit({"steps=1000000", "num_workers=1"});
  (void)cluster.wait(id, [](const JobView& view) { return view.progress.last.step > 10; });
  const auto begun = std::chrono::steady_clock::now();
  must(cluster.client().cancel(id).status());
  CHECK(cluster.end(id).condition.state == JobState::cancelled);
  check_promised(begun, 2s);
  CHECK(eventually([&] { return cluster.runners().empty(); }));
  const std::string next = cluster.submit({"num_workers=1"});
  CHECK(cluster.end(next).condition.state == JobState::succeeded);
}

TEST_CASE("a job whose data are nowhere is refused and says so") {
  DevCluster cluster(1);
  JobRequest request = request_of(cluster.small(), cluster.small().job());
  request.overrides = {"data.root=/unknown", "num_workers=1"};
  const Status refused = cluster.client().submit(request).status();
  CHECK(refused.code() == Code::invalid_argument);
  CHECK_THAT(refused.message(), Catch::Contains("there is no '/unknown'"));
  CHECK(must(cluster.client().jobs()).empty());
}

TEST_CASE("a cluster that is stopped while a job runs leaves nothing behind") {
  DevCluster cluster(1);
  const std::string id = cluster.submit({"steps=1000000", "num_workers=1"});
  (void)cluster.wait(id, [](const JobView& view) { return view.progress.last.step > 10; });
  const auto runners = cluster.runners();
  REQUIRE(runners.size() == 1);
  const auto begun = std::chrono::steady_clock::now();
  CHECK(cluster.dev().stop() == 0);
  check_promised(begun, 5s);
  CHECK(::kill(runners[0], 0) != 0);
}

}  // namespace leat
