// Jobs on the real daemons: submitted, trained by processes, fetched.
#include <signal.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/faults/process_facts.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/small_client.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/promised_time.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

// Parses the last object of the lines.
nlohmann::json read(const std::string& lines) { return nlohmann::json::parse(last_object(lines)); }

class Scene {
 public:
  explicit Scene(ProcessClusterOptions options)
      : small_(kTinyCnn), cluster_((options.data_path = small_.path(), options)) {}

  ProcessCluster& cluster() { return cluster_; }
  std::string data_path() const { return small_.path(); }
  std::string job_file(const std::vector<std::string>& set) {
    Job job = small_.job(set);
    job.data.root = "data";
    const std::string path = cat(small_.path(), "/job-", ++jobs_, ".yaml");
    std::ofstream(path) << print_job(job);
    return path;
  }
  // Submits the job, waits until it has ended, and returns the hash of its weights.
  std::string train(const std::vector<std::string>& set) {
    const Finished done = cluster_.leat("submit", {"--wait", "--json", job_file(set)});
    INFO(done.out << done.err << cluster_.logs());
    CHECK(done.exit_code == 0);
    return read(done.out).value("weights_sha256", "");
  }
  // Submits the job and returns its id.
  std::string submit(const std::vector<std::string>& set) {
    const Finished submitted = cluster_.leat("submit", {"--json", job_file(set)});
    INFO(submitted.out << submitted.err << cluster_.logs());
    CHECK(submitted.exit_code == 0);
    return read(submitted.out).value("id", "");
  }
  nlohmann::json show(const std::string& id) { return read(cluster_.show(id)); }
  // Asks from this process, because starting another may take longer than the event that a test
  // awaits.
  JobView ask(const std::string& id) {
    if (client_ == nullptr) client_ = client_of(cluster_.master());
    return must(client_->job(id));
  }
  uint64_t step(const std::string& id) { return ask(id).progress.last.step; }
  bool await_step(const std::string& id, uint64_t step,
                  std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    return eventually([&] { return this->step(id) >= step; }, patience,
                      std::chrono::milliseconds(20));
  }
  // Returns the worker of the last task of a running job, such as "w3".
  std::string last_worker(const std::string& id) { return ask(id).condition.workers.back(); }
  pid_t runner_of(const std::string& worker) {
    const auto runners = children_of(cluster_.worker(worker).pid());
    REQUIRE(runners.size() == 1);
    return runners[0];
  }
  // Trains the same job in this process, and returns the hash of its weights.
  std::string expected(const std::vector<std::string>& set) {
    const Job job = small_.job(set);
    in_process_ = cat("in-process-", ++jobs_);
    return small_.hash(job, in_process_);
  }
  // The folder of the last training of expected().
  std::string expected_folder() const { return small_.path(in_process_); }
  // Returns the folder of a run in this process that ended after `steps` steps.
  std::string interrupted_run(const std::vector<std::string>& set, size_t steps) {
    const std::string name = cat("interrupted-", ++jobs_);
    Silent watch;
    small_.train(small_.job(set), name, watch, 1, false,
                 [&] { return watch.losses.size() >= steps; });
    return small_.path(name);
  }

 private:
  SmallJob small_;
  ProcessCluster cluster_;
  std::unique_ptr<ClusterClient> client_;
  std::string in_process_;
  int jobs_ = 0;
};

// On a slow machine only one worker, and a number that does not divide the batch.
std::vector<int> worker_counts() {
  return kSlowness > 1 ? std::vector{1, 3} : std::vector{1, 2, 3, 4};
}

TEST_CASE("a job on daemons ends with the weights of one process") {
  const int workers = GENERATE(from_range(worker_counts()));
  const std::string transports = GENERATE("[tcp]", "[shm]");
  Scene scene({.workers = workers, .transports = transports});
  const std::vector<std::string> set = {cat("num_workers=", workers)};
  CHECK(scene.train(set) == scene.expected({}));
  CHECK(scene.cluster().await_no_runners());
}

TEST_CASE("jobs follow each other on the same daemons") {
  Scene scene({.workers = 2});
  const std::vector<std::string> set = {"num_workers=2"};
  const std::string first = scene.train(set);
  CHECK(scene.train({"num_workers=2", "seed=8"}) != first);
  CHECK(scene.train(set) == first);
}

TEST_CASE("parameter servers on daemons end with the weights of one process") {
  const int workers = GENERATE(from_range(worker_counts()));
  const std::string transports = GENERATE("[tcp]", "[shm]");
  Scene scene({.workers = workers, .transports = transports});
  const std::string strategy =
      cat("strategy={name: parameter_server, num_ps: ", std::max(1, workers / 2), "}");
  CHECK(scene.train({cat("num_workers=", workers), strategy}) == scene.expected({}));
}

std::string by_quorum(int replicas) {
  return cat("strategy={name: parameter_server, num_ps: 2, total_num_replicas: 4, ",
             "replicas_to_aggregate: ", replicas, "}");
}

// A job of 4 workers, of which a step needs 3.
std::vector<std::string> quorum_job(uint64_t steps) {
  return {by_quorum(3),           "num_workers=4",      "shards=3",
          "data.validation=null", cat("steps=", steps), "checkpoint.every_steps=500"};
}

TEST_CASE("a quorum of all replicas on daemons ends with the weights of one process") {
  Scene scene({.workers = 4});
  CHECK(scene.train({"num_workers=4", by_quorum(4)}) == scene.expected({}));
}

TEST_CASE("a job with backup workers goes on while one is stopped, and counts the rows") {
  const std::string transports = GENERATE("[tcp]", "[shm]");
  Scene scene({.workers = 4, .transports = transports});
  const std::string id = scene.submit(quorum_job(2000 / kSlowness));
  REQUIRE(scene.await_step(id, 1));
  const pid_t runner = scene.runner_of(scene.last_worker(id));
  REQUIRE(::kill(runner, SIGSTOP) == 0);
  // Stops it for less than the 3 s after which a worker counts as lost.
  const bool goes_on =
      scene.await_step(id, scene.step(id) + 50 / kSlowness, std::chrono::seconds(2));
  CHECK(::kill(runner, SIGCONT) == 0);
  INFO(scene.cluster().logs());
  CHECK(goes_on);
  REQUIRE(scene.cluster().await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  CHECK(scene.show(id).value("restarts", -1) == 0);
  const std::string log = scene.cluster().leat("logs", {id}).out;
  INFO(log);
  CHECK(log.find("quorum 3 of 4: ") != std::string::npos);
  CHECK(log.find("quorum 3 of 4: 0 rows") == std::string::npos);
  CHECK(log.find("the weights depend on timing") != std::string::npos);
}

TEST_CASE("a job with backup workers is cancelled") {
  Scene scene({.workers = 4});
  const std::string id = scene.submit(quorum_job(100000000));
  REQUIRE(scene.await_step(id, 1));
  const auto asked = std::chrono::steady_clock::now();
  CHECK(scene.cluster().leat("cancel", {"--wait", id}).exit_code == 0);
  check_promised(asked, std::chrono::seconds(2));
  CHECK(scene.cluster().await_no_runners());
}

TEST_CASE("a backup worker whose runner is killed is named, and the job goes on") {
  Scene scene({.workers = 4});
  const std::string id = scene.submit(quorum_job(2000 / kSlowness));
  REQUIRE(scene.await_step(id, 1));
  const std::string worker = scene.last_worker(id);
  REQUIRE(::kill(scene.runner_of(worker), SIGKILL) == 0);
  INFO(scene.cluster().logs());
  REQUIRE(scene.cluster().await_state(id, {"SUCCEEDED", "FAILED"}) == "SUCCEEDED");
  CHECK(scene.show(id).value("restarts", -1) == 0);
  const std::string log = scene.cluster().leat("logs", {id}).out;
  INFO(log);
  const size_t lost = log.find("warning: replica 3 is lost, steps go on without it: ");
  REQUIRE(lost != std::string::npos);
  CHECK(log.find(worker, lost) < log.find('\n', lost));
}

// The weights depend on timing, so the test checks only that they came and that all steps were
// done.
TEST_CASE("workers of an asynchronous job train each by itself to the end") {
  Scene scene({.workers = 2});
  const int servers = GENERATE(1, 2);
  const std::string strategy =
      cat("strategy={name: parameter_server, mode: async, num_ps: ", servers, "}");
  CHECK(scene.train({"num_workers=2", strategy}).size() == 64);
  CHECK(scene.cluster().await_no_runners());
}

TEST_CASE("a job that is cancelled leaves no process behind") {
  Scene scene({.workers = 2});
  const std::string id = scene.submit({"num_workers=2", "steps=100000000"});
  INFO(scene.cluster().logs());
  REQUIRE(scene.cluster().await_state(id, {"RUNNING"}) == "RUNNING");
  CHECK(scene.cluster().runners().size() == 2);
  CHECK(scene.cluster().leat("cancel", {"--wait", id}).exit_code == 0);
  CHECK(scene.cluster().await_state(id, {"CANCELLED"}) == "CANCELLED");
  CHECK(scene.cluster().await_no_runners());
}

// A job long enough to be ended in the middle. Its learning does not depend on its length.
std::vector<std::string> long_job(int workers, int64_t steps = 3000 / kSlowness) {
  return {cat("num_workers=", workers), cat("steps=", steps), "data.validation=null",
          "checkpoint.every_steps=50", "lr_scheduler={name: cosine, decay_steps: 3000}"};
}

// Splits the checkpoints of a folder as this number of workers would write them.
void split_checkpoints(const std::string& folder, size_t parts) {
  for (const std::string& path : must(list_checkpoints(real_files(), folder))) {
    const Checkpoint whole = must(read_checkpoint(real_files(), path));
    auto writer = must(CheckpointWriter::begin(real_files(), folder, whole.manifest.step, parts));
    std::vector<Variables> own(parts);
    size_t next = 0;
    for (const auto& [name, value] : whole.variables) own[next++ % parts].emplace(name, value);
    for (size_t p = 0; p < parts; ++p) must(writer->write_part(p, own[p]));
    must(writer->commit(whole.manifest));
  }
}

TEST_CASE("a job goes on from another's checkpoint on fewer workers, and another way") {
  Scene scene({.workers = 4});
  const std::string id = scene.submit(long_job(4, 100'000'000));  // too long to finish
  const std::string folder = scene.cluster().folder() / cat("master/jobs/", id, "/checkpoints");
  REQUIRE(scene.await_step(id, 50));
  const auto saved = [&] { return scene.cluster().leat("checkpoint", {"ls", id}).exit_code == 0; };
  REQUIRE(eventually(saved, std::chrono::seconds(20), std::chrono::milliseconds(20)));
  REQUIRE(scene.cluster().leat("cancel", {"--wait", id}).exit_code == 0);
  REQUIRE(scene.show(id)["state"] == "CANCELLED");
  const auto paths = must(list_checkpoints(real_files(), folder));
  REQUIRE_FALSE(paths.empty());
  const int64_t newest = must(read_checkpoint(real_files(), paths[0])).manifest.step;
  const std::vector<std::string> whole = long_job(1, newest + 1000 / kSlowness);
  // These are more files than a submit may attach, so they stay with the master.
  split_checkpoints(folder, 20);
  const std::vector<std::string> how =
      GENERATE(std::vector<std::string>{"--workers", "1"},
               std::vector<std::string>{"--workers", "3", "--set",
                                        "strategy={name: parameter_server, num_ps: 2}"});
  std::vector<std::string> arguments = {"--resume", id, "--wait", "--json", "--set", whole[1]};
  arguments.insert(arguments.end(), how.begin(), how.end());
  const Finished done = scene.cluster().leat("submit", arguments);
  INFO(done.out << done.err << scene.cluster().logs());
  REQUIRE(done.exit_code == 0);
  const nlohmann::json job = read(done.out);
  CHECK(job["id"] != id);
  CHECK(job.value("weights_sha256", "") == scene.expected(whole));
  REQUIRE(scene.cluster().leat("fetch", {job["id"], "metrics.jsonl", "-o", "mine"}).exit_code == 0);
  CHECK(without_timing(contents_of(scene.cluster().folder() / "mine/metrics.jsonl")) ==
        without_timing(contents_of(scene.expected_folder() + "/metrics.jsonl")));
}

TEST_CASE("a run of one process goes on on a cluster") {
  Scene scene({.workers = 2});
  const std::string run = scene.interrupted_run(long_job(1), 60);
  split_checkpoints(run + "/checkpoints", 20);
  const Finished done =
      scene.cluster().leat("submit", {"--resume", run, "--workers", "2", "--wait", "--json"});
  INFO(done.out << done.err << scene.cluster().logs());
  REQUIRE(done.exit_code == 0);
  CHECK(read(done.out).value("weights_sha256", "") == scene.expected(long_job(1)));
}

TEST_CASE("a job that cannot go on from the given run is refused") {
  Scene scene({.workers = 1});
  const auto refused = [&](const std::vector<std::string>& arguments, int code,
                           const std::string& message) {
    const Finished done = scene.cluster().leat("submit", arguments);
    INFO(done.out << done.err);
    CHECK(done.exit_code == code);
    CHECK(done.err.find(message) != std::string::npos);
  };
  refused({}, 2, "JOB is required, or --resume DIR|JOB");
  refused({scene.job_file({}), "--resume", "x"}, 2, "received both");
  refused({"--resume", "no-such-job"}, 5, "there is no job 'no-such-job'");
  const std::string done = scene.submit({});
  REQUIRE(scene.cluster().leat("show", {"--wait", done}).exit_code == 0);
  refused({"--resume", done, "--set", "steps=29"}, 7,
          "checkpoint of step 30: expected at most 29, the steps of the job");
  refused({"--resume", done, "--seed", "9"}, 7, "received seed 9");
  const std::string run = scene.interrupted_run(long_job(1), 60);
  for (const auto& each : std::filesystem::directory_iterator(run + "/checkpoints"))
    std::ofstream(each.path() / "part-00000-of-00001.safetensors", std::ios::app) << "x";
  refused({"--resume", run}, 1, "expected 17744 bytes as in the manifest, received 17745");
  std::filesystem::remove_all(run + "/checkpoints");
  refused({"--resume", run}, 1, "expected a checkpoint that is whole, found none");
}

TEST_CASE("the files of an ended job are fetched") {
  Scene scene({.workers = 1});
  const Finished done = scene.cluster().leat("submit", {"--wait", "--json", scene.job_file({})});
  const std::string id = read(done.out).value("id", "");
  INFO(done.out << done.err << scene.cluster().logs());
  REQUIRE(done.exit_code == 0);
  const Finished fetched = scene.cluster().leat("fetch", {id, "-o", "mine"});
  INFO(fetched.out << fetched.err);
  CHECK(fetched.exit_code == 0);
  const std::string mine = scene.cluster().folder() / "mine";
  CHECK(std::filesystem::exists(mine + "/weights.safetensors"));
  CHECK(std::filesystem::exists(mine + "/metrics.jsonl"));
  // The fetched job names no path of the master, and it resumes here.
  CHECK(contents_of(mine + "/job.yaml").find('/') == std::string::npos);
  CHECK(contents_of(mine + "/job.yaml").find("graph: model.onnxtxt") != std::string::npos);
  std::filesystem::remove(mine + "/weights.safetensors");
  std::filesystem::remove_all(mine + "/checkpoints/step-00000030");
  const Finished resumed =
      run_leat(scene.cluster().folder().path(),
               {"train", "--json", "--resume", mine, "--set", "data.root=" + scene.data_path()});
  INFO(resumed.out << resumed.err);
  REQUIRE(resumed.exit_code == 0);
  CHECK(read(resumed.out).value("weights_sha256", "") == scene.expected({}));
}

TEST_CASE("a job's checkpoints are looked at from afar") {
  Scene scene({.workers = 1});
  const auto train = [&](const std::string& seed) {
    return read(scene.cluster()
                    .leat("submit", {"--wait", "--json",
                                     scene.job_file({"checkpoint={every_steps: 10, keep: 2}",
                                                     "seed=" + seed})})
                    .out)
        .value("id", "");
  };
  const std::string a = train("1"), b = train("2"), newest = a + "/checkpoints/step-00000030";
  const auto leat = [&](std::vector<std::string> arguments, int code) {
    const Finished done = scene.cluster().leat("checkpoint", arguments);
    INFO(done.out << done.err << scene.cluster().logs());
    CHECK(done.exit_code == code);
    return done;
  };
  // The checkpoint of step 20, unless that of step 10 was still being written.
  const std::string older = read(leat({"ls", a, "--json"}, 0).out)["path"];
  CHECK_THAT(older, Catch::StartsWith(a + "/checkpoints/step-000000") && !Catch::Equals(newest));
  CHECK_THAT(leat({"ls", a}, 0).out, Catch::Contains(newest));
  CHECK_THAT(leat({"verify", a}, 0).out, Catch::Contains(newest + ": whole, 1 part of "));
  CHECK_THAT(leat({"diff", a, b}, 1).err, Catch::Contains("step 30 and step 30: "));
  leat({"diff", a, a}, 0);
  leat({"export", a, "-o", "w.safetensors"}, 0);
  leat({"ls", "no-such-job"}, 5);
  CHECK_THAT(leat({"ls", "no/such/path"}, 5).err,
             Catch::Contains("no such run or checkpoint: 'no/such/path'"));
  // Changes a byte of a file on the master's disk.
  const std::string part =
      scene.cluster().folder() / cat("master/jobs/", newest, "/part-00000-of-00001.safetensors");
  std::ofstream(part, std::ios::app) << "x";
  const Finished damaged = leat({"verify", a}, 7);
  CHECK_THAT(damaged.err, Catch::Contains(newest));
  CHECK_THAT(damaged.out, Catch::Contains(older + ": whole"));
  const std::string manifest =
      scene.cluster().folder() / cat("master/jobs/", newest, "/manifest.json");
  std::ofstream(manifest, std::ios::trunc) << "{";
  leat({"ls", a}, 7);
  leat({"ls", a, "--json"}, 7);
}

TEST_CASE("daemons stop in order") {
  ProcessCluster cluster({.workers = 2});
  for (int i = 0; i < 2; ++i) CHECK(cluster.worker(i).stop() == 0);
  CHECK(cluster.master().stop() == 0);
}

}  // namespace
}  // namespace leat
