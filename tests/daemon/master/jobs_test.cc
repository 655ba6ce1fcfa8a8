// Tests jobs on a master whose workers do what the test says.
#include <filesystem>
#include <fstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"
#include "tests/must.h"
#include "tests/promised_time.h"

namespace leat {

using namespace testing;

TEST_CASE("a submitted job waits for workers, and starts when they join", "[cluster]") {
  Host host;
  const std::string id = host.submitted(tiny_job("r1", 2));
  CHECK(host.state(id) == "QUEUED");
  CHECK(host.reason(id) == "waits for 2 workers with data set 'digits', 0 there");
  CHECK(host.master->status().job(id)->name == "tiny-job");
  FakeWorker w1(host.master->address(), "w1");
  const std::string one = "waits for 2 workers with data set 'digits', 1 there";
  CHECK(eventually([&] { return host.reason(id) == one; }));
  FakeWorker w2(host.master->address(), "w2");
  REQUIRE(host.becomes(id, "STARTING"));
  const Order first = w1.order(), second = w2.order();
  CHECK(first.job == id);
  CHECK(first.assembly == 1);
  CHECK(first.task == 0);
  CHECK(second.task == 1);
  CHECK(first.token != second.token);
  CHECK(first.key == second.key);
  CHECK(first.key.size() == 32);

  const auto r1 = FakeRunner::connect(host.master->address(), first);
  CHECK((r1->registered()).to_string() == "ok");
  CHECK(host.state(id) == "STARTING");
  const auto r2 = FakeRunner::connect(host.master->address(), second);
  CHECK((r2->registered()).to_string() == "ok");
  REQUIRE(host.becomes(id, "RUNNING"));
  CHECK(host.master->status().nodes()[0].job == id);
  CHECK(eventually([&] { return r1->called() || r2->called(); }));
}

TEST_CASE("a job that cannot be right is refused before it is one", "[cluster]") {
  Host host;
  Submission broken = tiny_job("r1");
  broken.text += "assemblies: [1\n";
  CHECK_THAT(host.submit(broken).status().to_string(),
             Catch::StartsWith("invalid_argument: job.yaml:"));
  CHECK_THAT(host.submit(tiny_job("r2", 8)).status().message(), Catch::Contains("num_workers"));
  Submission alone = tiny_job("r3");
  alone.files.clear();
  CHECK_THAT(host.submit(alone).status().message(),
             Catch::Contains("model.graph: expected a file that was submitted with the job") &&
                 Catch::Contains("'tiny.onnxtxt'"));
  Submission no_graph = tiny_job("r4");
  no_graph.files = {attach("tiny.onnxtxt", "tiny (float[N,4] x) => (float[N,2] y) { y = \n}")};
  const Status wrong = host.submit(no_graph).status();
  CHECK(wrong.code() == Code::invalid_argument);
  CHECK_THAT(wrong.message(), Catch::StartsWith("tiny.onnxtxt:"));
  Submission hidden = tiny_job("r8");
  hidden.files[0].name = ".tiny.onnxtxt";
  hidden.overrides = {"model.graph=.tiny.onnxtxt"};
  CHECK_THAT(host.submit(hidden).status().message(),
             Catch::Contains("expected a file whose name does not begin with '.'"));
  Submission elsewhere = tiny_job("r5", 1, "checkpoint: {every_steps: 5, path: /etc}\n");
  CHECK_THAT(host.submit(elsewhere).status().message(), Catch::Contains("checkpoint.path"));
  Submission unknown = tiny_job("r6");
  unknown.overrides = {"stepz=3"};
  CHECK(host.submit(unknown).status().code() == Code::invalid_argument);
  Submission chaotic = tiny_job("r7");
  chaotic.chaos = {"kill=worker:0@step=1"};
  CHECK_THAT(host.submit(chaotic).status().message(),
             Catch::Contains("expected a cluster that allows it: 'chaos: true'"));
  Submission missing = tiny_job("r7");
  missing.files[0].bytes.reset();
  CHECK_THAT(host.submit(missing).status().message(), Catch::Contains("uploaded before"));
  CHECK(host.master->status().jobs().empty());
}

TEST_CASE("a repeated submit is the same job", "[cluster]") {
  Host host;
  const std::string id = host.submitted(tiny_job("r1"));
  CHECK(host.submitted(tiny_job("r1")) == id);
  CHECK(host.submit(tiny_job("r1", 2)).status().code() == Code::invalid_argument);
  CHECK(host.submitted(tiny_job("r2")) != id);
  CHECK(host.master->status().jobs().size() == 2);
}

TEST_CASE("a job goes on from another's checkpoint, and once it began it keeps to that one",
          "[cluster]") {
  Host host;
  const std::string first = host.submitted(tiny_job("r1"));
  const std::string folder = host.folder / cat("state/jobs/", first, "/checkpoints");
  const auto leave = [&](int64_t step) {
    Checkpoint checkpoint;
    Manifest& manifest = checkpoint.manifest;
    manifest.step = step;
    manifest.job = "tiny-job";
    manifest.seed = 1;
    manifest.shards = 4;
    manifest.data.global_batch_size = 16;
    manifest.data.shuffle = true;
    REQUIRE_OK(write_checkpoint(real_files(), folder, checkpoint).status());
  };
  const auto refused = [&](const std::string& job, const Submission& from) {
    const Status status = host.resume(job, from).status();
    CHECK(status.code() != Code::ok);
    return status.message();
  };
  CHECK(refused("no-job", tiny_job("r2")) == "there is no job 'no-job'");
  CHECK(refused("tiny", tiny_job("r2")) ==
        cat("job '", first, "': expected a checkpoint, it has left none yet"));
  leave(5);
  Submission own = tiny_job("r2");
  own.files.push_back(attach("resume/metrics.jsonl", "{}"));
  CHECK_THAT(refused("tiny", own), Catch::Contains("expected no 'resume/metrics.jsonl'"));

  Submission shorter = tiny_job("r2");
  shorter.overrides = {"steps=4"};
  CHECK_THAT(refused("tiny", shorter), Catch::Contains("checkpoint of step 5: expected at most 4"));
  shorter.overrides = {"shards=2"};
  CHECK_THAT(refused("tiny", shorter), Catch::Contains("expected shards 4"));
  const auto resumed = host.resume("tiny", tiny_job("r2"));
  REQUIRE_OK(resumed.status());
  CHECK(resumed->id != first);
  leave(10);
  CHECK(host.resume(first, tiny_job("r2"))->id == resumed->id);
  host.restart();
  CHECK(host.resume(first, tiny_job("r2"))->id == resumed->id);
  CHECK_THAT(refused(first, tiny_job("r2", 2)), Catch::Contains("with other content"));
  CHECK(host.submit(tiny_job("r2")).status().code() == Code::invalid_argument);
  CHECK(host.master->status().jobs().size() == 2);

  // The copied checkpoint does not depend on the first job, whose folder may be removed.
  REQUIRE_OK(host.cancel(first).status());
  REQUIRE_OK(host.remove(first).status());
  host.master.reset();
  const auto journal = must(Journal::open(real_files(), host.folder / "state"));
  for (const AttachedFile& file : must(journal->submission(resumed->id)).files) {
    if (!file.bytes) CHECK(must(journal->blobs().has(file.sha256, file.size)));
  }
}

TEST_CASE("a removed job leaves nothing, and what a master did not come to, the next one does",
          "[cluster]") {
  Host host;
  const auto folder = [&](const std::string& id) { return host.folder / cat("state/jobs/", id); };
  const std::string id = host.submitted(tiny_job("r1")), other = host.submitted(tiny_job("r2"));
  CHECK(host.remove(id).status().message() ==
        cat("job '", id, "' is QUEUED: expected one that has ended"));
  for (const std::string& each : {id, other}) {
    std::filesystem::create_directories(folder(each) + "/checkpoints");
    REQUIRE_OK(host.cancel(each).status());
  }
  CHECK(must(host.remove(id)).condition.state == JobState::cancelled);
  CHECK_FALSE(std::filesystem::exists(folder(id)));
  CHECK(host.remove(id).status().message() == cat("there is no job '", id, "'"));
  CHECK_FALSE(host.logs(id, 0, 0ms).ok());

  host.master.reset();
  REQUIRE_OK(must(Journal::open(real_files(), host.folder / "state"))->append(JobForgotten{other}));
  REQUIRE(std::filesystem::exists(folder(other)));
  host.start();
  CHECK(host.master->status().jobs().empty());
  CHECK_FALSE(std::filesystem::exists(folder(other)));
  host.master.reset();
  CHECK(must(Journal::open(real_files(), host.folder / "state"))->forgotten_jobs()->empty());
}

TEST_CASE("jobs that ended first make room on the disk for others", "[cluster]") {
  Host host;
  const auto end_with = [&](const std::string& request, uint64_t bytes) {
    const std::string id = host.submitted(tiny_job(request));
    const std::string folder = host.folder / cat("state/jobs/", id);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/weights.safetensors") << std::string(bytes, 'x');
    REQUIRE_OK(host.cancel(id).status());
    return id;
  };
  const std::string first = end_with("r1", 60'000);
  host.retention.max_bytes = 100'000;
  host.restart();  // it counts the files of that folder
  const std::string second = end_with("r2", 60'000);
  CHECK(eventually([&] { return !host.master->status().job(first).ok(); }));
  CHECK(eventually(
      [&] { return !std::filesystem::exists(host.folder / cat("state/jobs/", first)); }));
  CHECK(host.master->status().job(second).ok());
}

TEST_CASE("a file that was uploaded is one of the job's", "[cluster]") {
  Host host;
  Submission job = tiny_job("r1");
  const std::string bytes = *job.files[0].bytes;
  const auto blob = host.master->begin_blob({job.files[0].sha256, bytes.size()});
  REQUIRE_OK(blob.status());
  REQUIRE_OK((*blob)->append(std::as_bytes(std::span(bytes))));
  REQUIRE_OK((*blob)->finish());
  job.files[0].bytes.reset();
  CHECK(host.submit(job).ok());
}

TEST_CASE("a job is cancelled in every state", "[cluster]") {
  Host host;
  SECTION("while it waits") {
    const std::string id = host.submitted(tiny_job("r1"));
    CHECK(host.cancel(id)->condition.state == JobState::cancelled);
    CHECK(host.cancel(id)->condition.state == JobState::cancelled);  // repeated
    return;
  }
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  const Order order = worker.order();
  std::unique_ptr<FakeRunner> runner;
  SECTION("while its runners start") {}
  SECTION("while it runs") {
    runner = FakeRunner::connect(host.master->address(), order);
    REQUIRE(host.becomes(id, "RUNNING"));
    REQUIRE(eventually([&] { return runner->called(); }));
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto view = host.cancel(id);
  REQUIRE_OK(view.status());
  REQUIRE(host.becomes(id, "CANCELLED"));
  check_promised(begun, 2s);
  CHECK(host.reason(id) == "cancelled by somebody");
  CHECK(worker.stopped() == std::vector<std::string>{id + "/1"});
  CHECK(host.master->status().nodes()[0].job.empty());
  // The worker is free for the next.
  const std::string next = host.submitted(tiny_job("r2"));
  CHECK(host.becomes(next, "STARTING"));
}

TEST_CASE("a runner that never registers costs its job the assembly", "[cluster]") {
  Host host;
  host.tuning.cluster.jobs.start_timeout = 100ms;
  host.restart();
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1", 1, "max_failures: 3\n"));
  const Order late = worker.order(0);
  const Order next = worker.order(1);
  CHECK(next.assembly == 2);
  CHECK(next.token != late.token);
  CHECK(worker.stopped().front() == id + "/1");
  CHECK(host.master->status().job(id)->condition.restarts >= 1);
  CHECK_THAT(host.reason(id), Catch::Contains("did not start in time"));
  // The order is obsolete, so the master refuses its runner.
  const auto runner = FakeRunner::connect(host.master->address(), late);
  CHECK(runner->registered().code() == Code::failed_precondition);
  REQUIRE(host.becomes(id, "FAILED"));  // none of its assemblies started
  CHECK_THAT(host.reason(id), Catch::Contains("after 3 restarts"));
}

TEST_CASE("a runner with another token is refused", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  const Order order = worker.order();
  const auto wrong = FakeRunner::connect(host.master->address(), order, std::string(32, 'x'));
  CHECK(wrong->registered().code() == Code::failed_precondition);
  CHECK_THAT(wrong->registered().message(), Catch::Contains("another token"));
  const auto shorter = FakeRunner::connect(host.master->address(), order, "short");
  CHECK(shorter->registered().code() == Code::invalid_argument);
  CHECK(host.state(id) == "STARTING");
  const auto right = FakeRunner::connect(host.master->address(), order);
  CHECK((right->registered()).to_string() == "ok");
  CHECK(right->registers(order).to_string() == "ok");  // repeated
  Order other = order;
  ++other.task;
  CHECK(right->registers(other).to_string() ==
        "failed_precondition: Registry.registerRunner: expected it once");
  const auto twice = FakeRunner::connect(host.master->address(), order);
  CHECK(twice->registered().code() == Code::failed_precondition);
}

TEST_CASE("a worker that cannot start a runner says so", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  worker.refuse_to_start(resource_exhausted("no process could be made"));
  const std::string id = host.submitted(tiny_job("r1", 1, "max_failures: 2\n"));
  REQUIRE(host.becomes(id, "FAILED"));
  CHECK_THAT(host.reason(id), Catch::Contains("no process could be made; after 2 restarts"));
}

TEST_CASE("the death of a runner is told in its worker's words", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  const Order order = worker.order();
  auto runner = FakeRunner::connect(host.master->address(), order);
  REQUIRE(host.becomes(id, "RUNNING"));
  runner.reset();
  REQUIRE_OK(worker.exited(order, "was killed by signal 9"));
  const Order next = worker.order(1);
  CHECK(next.assembly == 2);
  CHECK_THAT(host.reason(id), Catch::Contains("the runner on 'w1' was killed by signal 9"));
}

TEST_CASE("a runner whose connection is gone is stopped, if no worker reports its end",
          "[cluster]") {
  Host host;
  host.tuning.runner_exit = 50ms;
  host.restart();
  FakeWorker w1(host.master->address(), "w1"), w2(host.master->address(), "w2");
  const std::string id = host.submitted(tiny_job("r1", 2));
  auto runner = FakeRunner::connect(host.master->address(), w1.order());
  CHECK(host.state(id) == "STARTING");  // the other runner has not registered yet
  runner.reset();
  REQUIRE(eventually([&] { return !w1.stopped().empty(); }));
  CHECK(w1.stopped().front() == id + "/1");
  const auto other = FakeRunner::connect(host.master->address(), w2.order());
  CHECK(w1.order(1).assembly == 2);
  CHECK_THAT(host.reason(id), Catch::Contains("the runner on 'w1' lost its connection"));
  REQUIRE(eventually([&] { return !other->advanced().empty(); }));
  CHECK(w2.advanced() == std::vector<std::string>{id + "/2"});
  CHECK(w2.stopped().empty());
}

TEST_CASE("a runner that is left goes on in the next assembly with another", "[cluster]") {
  Host host;
  FakeWorker w1(host.master->address(), "w1"), w2(host.master->address(), "w2");
  const std::string id = host.submitted(tiny_job("r1", 2));
  auto first = FakeRunner::connect(host.master->address(), w1.order());
  const auto second = FakeRunner::connect(host.master->address(), w2.order());
  REQUIRE(host.becomes(id, "RUNNING"));
  first.reset();
  REQUIRE_OK(w1.exited(w1.order(), "was killed by signal 9"));
  const Order again = w1.order(1);
  CHECK(again.assembly == 2);
  CHECK(again.task == 0);
  CHECK(again.key != w1.order(0).key);
  first = FakeRunner::connect(host.master->address(), again);
  REQUIRE(host.becomes(id, "RUNNING"));
  CHECK(second->advanced() == std::vector<uint64_t>{2});
  CHECK(w2.advanced() == std::vector<std::string>{id + "/2"});
  CHECK(w2.started().size() == 1);
  CHECK(host.master->status().job(id)->condition.restarts == 1);
  // The report of its end still names the first assembly.
  REQUIRE_OK(w2.exited(w2.order(), "was killed by signal 9"));  // of the first assembly
  CHECK(host.state(id) == "RUNNING");
  Order later = w2.order();
  later.assembly = 2;
  REQUIRE_OK(w2.exited(later, "was killed by signal 11"));
  CHECK(w2.order(1).assembly == 3);
  CHECK(eventually([&] { return first->advanced() == std::vector<uint64_t>{3}; }));
}

TEST_CASE("a runner that does not go on is stopped, and another comes in its place", "[cluster]") {
  Host host;
  host.tuning.cluster.jobs.start_timeout = 200ms;
  host.restart();
  FakeWorker w1(host.master->address(), "w1"), w2(host.master->address(), "w2");
  const std::string id = host.submitted(tiny_job("r1", 2));
  auto first = FakeRunner::connect(host.master->address(), w1.order());
  const auto second = FakeRunner::connect(host.master->address(), w2.order());
  REQUIRE(host.becomes(id, "RUNNING"));
  second->refuse_to_advance();
  first.reset();
  REQUIRE_OK(w1.exited(w1.order(), "was killed by signal 9"));
  first = FakeRunner::connect(host.master->address(), w1.order(1));
  CHECK(w2.order(1).assembly == 3);
  CHECK(w2.stopped() == std::vector<std::string>{id + "/2"});
  REQUIRE(eventually([&] { return first->advanced() == std::vector<uint64_t>{3}; }));
  CHECK(host.master->status().job(id)->condition.restarts == 1);
}

TEST_CASE("a job whose runner hangs up is broken, also before its worker says why", "[cluster]") {
  Host host;
  FakeWorker worker(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  auto runner = FakeRunner::connect(host.master->address(), worker.order());
  REQUIRE(host.becomes(id, "RUNNING"));
  runner.reset();
  CHECK(worker.order(1).assembly == 3);  // in the second it could not continue
  CHECK(worker.stopped().front() == id + "/2");
  CHECK(host.master->status().job(id)->condition.restarts == 1);
}

TEST_CASE("a job whose worker is lost goes on with another", "[cluster]") {
  Host host;
  auto w1 = std::make_unique<FakeWorker>(host.master->address(), "w1");
  const std::string id = host.submitted(tiny_job("r1"));
  const auto runner = FakeRunner::connect(host.master->address(), w1->order());
  REQUIRE(host.becomes(id, "RUNNING"));
  w1.reset();
  REQUIRE(host.becomes(id, "RECOVERING"));
  CHECK_THAT(host.reason(id), Catch::Contains("worker 'w1' was lost"));
  FakeWorker w2(host.master->address(), "w2");
  CHECK(w2.order().assembly == 2);
}

TEST_CASE("a worker that does not stop a runner is expelled", "[cluster]") {
  Host host;
  host.tuning.cluster.jobs.stop_grace = 50ms;
  host.tuning.cluster.jobs.stop_timeout = 50ms;
  host.restart();
  FakeWorker worker(host.master->address(), "w1");
  worker.ignore_stops();
  const std::string id = host.submitted(tiny_job("r1"));
  (void)worker.order();
  REQUIRE_OK(host.cancel(id).status());
  REQUIRE(host.becomes(id, "CANCELLED"));
  CHECK(eventually([&] { return worker.lost(); }));
  CHECK_THAT(host.master->status().nodes()[0].worker.reason,
             Catch::Contains("did not stop in time"));
}

TEST_CASE("a watcher hears of a change at once, and of none at its deadline", "[cluster]") {
  Host host;
  const auto submitted = host.submit(tiny_job("r1"));
  std::promise<Result<JobView>> first, second;
  host.master->watch(submitted->id, submitted->version, std::chrono::steady_clock::now() + 60s,
                     [&](Result<JobView> view) { first.set_value(view); });
  FakeWorker worker(host.master->address(), "w1");
  auto changed = first.get_future();
  REQUIRE(changed.wait_for(60s) == std::future_status::ready);
  CHECK(changed.get()->version > submitted->version);
  REQUIRE(host.becomes(submitted->id, "STARTING"));
  const uint64_t seen = host.master->status().job(submitted->id)->version;
  host.master->watch(submitted->id, seen, std::chrono::steady_clock::now() + 30ms,
                     [&](Result<JobView> view) { second.set_value(view); });
  auto same = second.get_future();
  REQUIRE(same.wait_for(60s) == std::future_status::ready);
  CHECK(same.get()->version == seen);
}

TEST_CASE("acknowledged jobs are there when the master starts again", "[cluster]") {
  Host host;
  const std::string waits = host.submitted(tiny_job("r1", 4));
  const std::string cancelled = host.submitted(tiny_job("r2"));
  REQUIRE_OK(host.cancel(cancelled).status());
  std::string runs;
  {
    FakeWorker worker(host.master->address(), "w1");
    runs = host.submitted(tiny_job("r3"));
    REQUIRE(host.becomes(runs, "STARTING"));
    host.restart();
  }
  CHECK(host.master->status().cluster().generation == 2);
  REQUIRE(host.master->status().jobs().size() == 3);
  CHECK(host.state(waits) == "QUEUED");
  CHECK(host.state(cancelled) == "CANCELLED");
  REQUIRE(host.becomes(runs, "RECOVERING"));
  CHECK(host.reason(runs) == "the master restarted; waits for the runners that it had");
  // A thread of its own writes the log, after the change is visible.
  const auto last_line = [&] { return host.logs(runs, 0, 0ms)->lines.back().text; };
  CHECK(eventually([&] {
    return last_line() == "RECOVERING: the master restarted; waits for the runners that it had";
  }));
  CHECK(host.submitted(tiny_job("r1", 4)) == waits);
  CHECK(host.logs(cancelled, 0, 0ms)->complete);
  FakeWorker worker(host.master->address(), "w1");
  CHECK(worker.order().job == runs);
  CHECK(host.master->status().job(runs)->condition.assembly == 2);
}

TEST_CASE("two masters do not share a state directory", "[cluster]") {
  Host host;
  MasterConfig config;
  config.cluster = "test";
  config.listen = "127.0.0.1:0";
  config.state_dir = host.folder / "state";
  CHECK(Master::start(config, {}, {}).status().code() == Code::failed_precondition);
}

TEST_CASE("a full journal refuses jobs and goes on to answer", "[cluster]") {
  Host host;
  host.tuning.journal.max_bytes = 256 << 10;
  host.restart();
  const std::string first = host.submitted(tiny_job("r0"));
  Status status;
  size_t accepted = 1;
  for (; status.ok(); ++accepted) {
    REQUIRE(accepted < 100);
    Submission job = tiny_job(cat("r", accepted));
    job.files.push_back(attach("weights", std::string(20 << 10, 'w')));
    status = host.submit(std::move(job)).status();
  }
  --accepted;
  CHECK(status.code() == Code::resource_exhausted);
  CHECK(host.state(first) == "QUEUED");
  CHECK(host.master->status().ready().code() == Code::resource_exhausted);
  CHECK(host.master->status().jobs().size() == accepted);
}

}  // namespace leat
