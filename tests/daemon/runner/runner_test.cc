// Tests runs on two or three runners over the wire, with the test as their master. [cluster] runs
// under ThreadSanitizer.
#include <condition_variable>
#include <future>
#include <mutex>

#include "daemon/runner/hosted_run.h"
#include "daemon/runner/turn_log.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "scheduler/capnp/plan_file.h"
#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/daemon/session_testing.h"
#include "tests/eventually.h"
#include "tests/promised_time.h"

namespace leat::testing {
namespace {

constexpr uint64_t kInit = 1, kTrain = 2;

RunnerTestOptions options_for(const MirroredJob& job, int runners) {
  RunnerTestOptions options;
  options.runners = runners;
  options.datasets = {{"tiny", job.directory()}};
  return options;
}

RunSetup setup_of(const RunnerTestCluster& cluster, const Plan& plan,
                  const std::string& transport = "auto") {
  RunSetup setup = cluster.setup(plan, transport);
  setup.data_root = "tiny";
  return setup;
}

// Prepares and connects a run of the plan.
void open(RunnerTestCluster& cluster, uint64_t run, const Plan& plan,
          const std::string& transport = "auto") {
  must(cluster.prepare_all(run, plan));
  must(cluster.connect_all(run, setup_of(cluster, plan, transport)));
}

void initialize(RunnerTestCluster& cluster, const MirroredJob& job, int workers,
                const std::string& transport = "auto") {
  open(cluster, kInit, job.init_plan(workers), transport);
  cluster.extend_all(kInit, 1);
  for (int w = 0; w < workers; ++w) {
    const Heard heard = cluster.await(static_cast<uint32_t>(w), kInit, 1);
    must(heard.failure);
  }
  cluster.release_all(kInit);
}

Bytes packed(const Plan& plan, uint32_t partition) {
  return pack_plan(must(encode_plan_for(plan, partition)));
}

void check_weights(const Bytes& file, const std::map<std::string, Bytes>& expected) {
  const auto read = parse_safetensors(file, "variables");
  REQUIRE(read.ok());
  CHECK(read->tensors.size() == expected.size());
  for (const auto& [name, tensor] : read->tensors) {
    INFO(name);
    const auto* begin = static_cast<const std::byte*>(tensor.raw());
    Bytes bytes(begin, begin + tensor.bytes());
    bytes.resize((bytes.size() + 7) / 8 * 8);
    CHECK(bytes == expected.at(name));
  }
}

}  // namespace

TEST_CASE("a mirrored job gives the bits of a local cluster over every transport", "[cluster]") {
  const MirroredJob job;
  constexpr uint64_t kSteps = 30;
  for (const int workers : {2, 3}) {
    const Trained trained = job.train_locally(workers, kSteps);
    for (const std::string way : {"tcp", "shm", "auto", "tls"}) {
      INFO(workers << " workers over " << way);
      const std::string transport = way == "tls" ? "tcp" : way;
      RunnerTestOptions options = options_for(job, workers);
      options.seal = way == "tls" ? Seal::always : Seal::beyond_loopback;
      RunnerTestCluster cluster(options);
      initialize(cluster, job, workers, transport);
      open(cluster, kTrain, job.train_plan(workers), transport);
      cluster.extend_all(kTrain, kSteps);  // far more than the fetches that are kept
      for (uint32_t w = 0; w < static_cast<uint32_t>(workers); ++w) {
        const Heard heard = cluster.await(w, kTrain, kSteps);
        must(heard.failure);
        CHECK(heard.turns == kSteps);
        if (!trained.rows[w][0].empty()) CHECK(heard.rows == trained.rows[w]);
        check_weights(must(cluster.read_variables(w)), trained.weights);
      }
      cluster.release_all(kTrain);
    }
  }
}

TEST_CASE("a run goes no further than its reports, and on when they are taken") {
  const MirroredJob job;
  RunnerTestCluster cluster(options_for(job, 1));
  initialize(cluster, job, 1);
  open(cluster, kTrain, job.train_plan(1));
  constexpr uint64_t kSteps = 6000;  // more than the rows that wait for a report
  const auto losses = job.train_locally(1, 60).rows[0];
  cluster.hold_reports(true);
  must(cluster.extend(0, kTrain, kSteps));
  cluster.await(0, kTrain, 1);
  const uint64_t ahead = rows_in_ring(sizeof(double));
  const uint64_t stuck = ahead + 8 + cluster.heard(0, kTrain).turns;
  for (uint64_t last = 0;;) {
    const uint64_t now = must(cluster.turns(0, kTrain));
    REQUIRE(now <= stuck);
    if (now == last && now >= ahead) break;
    last = now;
  }
  CHECK(cluster.heard(0, kTrain).reports == 1);
  cluster.hold_reports(false);
  const Heard heard = cluster.await(0, kTrain, kSteps);
  must(heard.failure);
  REQUIRE(heard.rows.size() == kSteps);
  CHECK(std::vector<Bytes>(heard.rows.begin(), heard.rows.begin() + 60) == losses);
  CHECK(heard.reports < 500);  // fewer than one for each step
}

TEST_CASE("variables are read while an endless run waits in the middle of a step", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(options_for(job, 2));
  initialize(cluster, job, 2);
  const Plan plan = job.train_plan(2);
  must(cluster.prepare_all(kTrain, plan));
  RunSetup setup = setup_of(cluster, plan);
  setup.options.endless = true;
  must(cluster.connect_all(kTrain, setup));
  const Bytes variables = must(cluster.read_variables(0));
  must(cluster.extend(0, kTrain, uint64_t{1} << 50));  // task 1 may not step
  CHECK(must(cluster.read_variables(0)) == variables);
  cluster.release_all(kTrain);
}

TEST_CASE("runners go on in another assembly with their variables, and their runs are over",
          "[cluster]") {
  const MirroredJob job;
  constexpr uint64_t kSteps = 30;
  const Trained trained = job.train_locally(2, kSteps);
  for (const char* transport : {"tcp", "shm"}) {
    INFO(transport);
    RunnerTestCluster cluster(options_for(job, 2));
    initialize(cluster, job, 2, transport);
    open(cluster, kTrain, job.train_plan(2), transport);
    const Bytes begun = must(cluster.read_variables(0));
    cluster.extend_all(kTrain, uint64_t{1} << 50);
    cluster.await(0, kTrain, 5);

    RunnerAssembly next{kAssembly + 1, {}};
    next.key.fill(7);
    must(cluster.advance(0, next));
    const Bytes kept = must(cluster.read_variables(0));  // no step is in flight
    must(cluster.advance(1, next));
    must(cluster.advance(1, next));  // repeated
    CHECK(must(cluster.read_variables(0)) == kept);
    CHECK(kept != begun);
    for (const uint32_t task : {0u, 1u}) {
      CHECK(cluster.turns(task, kTrain).status().code() == Code::failed_precondition);
      check_says(cluster.advance(task, {kAssembly, {}}), Code::failed_precondition,
                 cat("expected one after ", kAssembly + 1));
    }

    const Plan plan = job.train_plan(2);
    RunSetup setup = setup_of(cluster, plan, transport);
    must(cluster.prepare_all(kTrain + 1, plan));
    check_says(cluster.connect_all(kTrain + 1, setup), Code::invalid_argument,
               cat("assembly: expected ", kAssembly + 1));
    cluster.release_all(kTrain + 1);
    must(cluster.prepare_all(kTrain + 2, plan));
    setup.assembly = next.number;
    must(cluster.connect_all(kTrain + 2, setup));
    must(cluster.advance(1, next));  // repeated late: the run stays
    for (const uint32_t task : {0u, 1u})
      must(cluster.write_variables(task, begun, Restore::everything));
    cluster.extend_all(kTrain + 2, kSteps);
    for (const uint32_t task : {0u, 1u}) {
      const Heard heard = cluster.await(task, kTrain + 2, kSteps);
      must(heard.failure);
      if (!trained.rows[task][0].empty()) CHECK(heard.rows == trained.rows[task]);
      check_weights(must(cluster.read_variables(task)), trained.weights);
    }
    cluster.release_all(kTrain + 2);
  }
}

TEST_CASE("every call may be repeated", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(options_for(job, 2));
  const Plan plan = job.init_plan(2);
  must(cluster.prepare_all(kInit, plan));
  must(cluster.prepare_all(kInit, plan));
  check_says(cluster.prepare(0, kInit, 0, packed(job.train_plan(2), 0)), Code::failed_precondition,
             "run 1: expected the plan that it has, received another");
  const RunSetup setup = setup_of(cluster, plan);
  must(cluster.connect_all(kInit, setup));
  must(cluster.connect_all(kInit, setup));
  cluster.extend_all(kInit, 1);
  cluster.extend_all(kInit, 1);
  must(cluster.await(0, kInit, 1).failure);
  must(cluster.await(1, kInit, 1).failure);
  CHECK(must(cluster.turns(0, kInit)) == 1);
  const Bytes variables = must(cluster.read_variables(0));
  CHECK(must(cluster.read_variables(0)) == variables);
  CHECK(must(cluster.read_variables(1)) == variables);
  must(cluster.write_variables(1, variables, Restore::everything));
  must(cluster.write_variables(1, variables, Restore::everything));
  cluster.release_all(kInit);
  cluster.release_all(kInit);
  must(cluster.abort(0, kInit, cancelled("too late")));
  check_says(cluster.extend(0, kInit, 2), Code::failed_precondition,
             "run 1: expected one that was prepared");
}

TEST_CASE("a plan that is broken, or another's, or too large is refused", "[cluster]") {
  const MirroredJob job;
  RunnerTestOptions options = options_for(job, 2);
  options.memory_limit = 64 << 10;
  RunnerTestCluster cluster(options);
  const Plan plan = job.train_plan(2);
  Bytes broken = packed(plan, 0);
  broken.resize(broken.size() / 2);
  CHECK(cluster.prepare(0, 10, 0, broken).code() == Code::invalid_argument);
  CHECK(cluster.prepare(0, 11, 0, Bytes(100)).code() == Code::invalid_argument);
  CHECK(cluster.prepare(0, 12, 0, Bytes()).code() == Code::invalid_argument);
  check_says(cluster.prepare(0, 13, 1, packed(plan, 1)), Code::invalid_argument,
             "expected job:worker/task:0/cpu:0, it is for job:worker/task:1/cpu:0");
  check_says(cluster.prepare(0, 14, 1, packed(plan, 0)), Code::invalid_argument,
             "expected the whole of partition 1");
  check_says(cluster.prepare(0, 15, 0, packed(plan, 0)), Code::resource_exhausted,
             "expected run 15 to fit 64.0 KiB");
}

TEST_CASE("data counts against the limit of memory, beside runs and variables") {
  const MirroredJob job;
  const Plan plan = job.train_plan(1);
  constexpr uint64_t kData = 96 * 64 + 96;  // bytes of x and y
  for (const uint64_t lacks : {1, 0}) {
    RunnerTestOptions options = options_for(job, 1);
    options.memory_limit = plan.partitions[0].memory_bytes() + ring_bytes(plan, 0) + kData - lacks;
    RunnerTestCluster cluster(options);
    must(cluster.prepare(0, kTrain, 0, packed(plan, 0)));
    const Status connected = cluster.connect(0, kTrain, setup_of(cluster, plan));
    if (lacks == 0) {
      must(connected);
      continue;
    }
    check_says(connected, Code::resource_exhausted, "data 'x.npy': expected it to fit ");
    check_says(connected, Code::resource_exhausted, "raise memory_limit of the worker");
  }
}

TEST_CASE("an abort ends a connect that waits, and the run of every runner", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(options_for(job, 2));
  const Plan plan = job.train_plan(2);
  constexpr uint64_t kNever = 9;
  must(cluster.prepare_all(kNever, plan));
  // The peer is not asked to connect, and so it never dials.
  const RunSetup setup = setup_of(cluster, plan);
  auto waiting = std::async(std::launch::async, [&] { return cluster.connect(1, kNever, setup); });
  must(cluster.abort(1, kNever, cancelled("the job was cancelled")));
  const auto begin = std::chrono::steady_clock::now();
  const Status ended = waiting.get();
  CHECK(ended.code() == Code::cancelled);
  CHECK(ended.message().find("the job was cancelled") != std::string::npos);
  check_promised(begin, std::chrono::seconds(5));
  cluster.release_all(kNever);

  initialize(cluster, job, 2);
  open(cluster, kTrain, job.train_plan(2));
  cluster.extend_all(kTrain, 1'000'000);
  cluster.await(0, kTrain, 3);
  must(cluster.abort(1, kTrain, cancelled("that is enough")));
  const Heard there = cluster.await(1, kTrain, 1'000'000);
  CHECK(there.failure.message() == "that is enough");
  CHECK(there.derived);
  const Heard here = cluster.await(0, kTrain, 1'000'000);
  CHECK_THAT(here.failure.message(), Catch::Contains("node-1 failed: that is enough"));
  CHECK(here.derived);
  cluster.release_all(kTrain);
}

TEST_CASE("the runner of a failed kernel reports the error, and others name that runner",
          "[cluster]") {
  const MirroredJob job(50);
  RunnerTestCluster cluster(options_for(job, 2));
  initialize(cluster, job, 2);
  open(cluster, kTrain, job.train_plan(2));
  cluster.extend_all(kTrain, 6);  // one epoch
  const Heard heard[] = {cluster.await(0, kTrain, 7), cluster.await(1, kTrain, 7)};
  const int guilty = heard[0].derived ? 1 : 0;
  CHECK_FALSE(heard[guilty].derived);
  CHECK(heard[guilty].failure.code() == Code::invalid_argument);
  CHECK_THAT(heard[guilty].failure.message(), Catch::Contains("label"));
  CHECK(heard[1 - guilty].derived);
  CHECK_THAT(heard[1 - guilty].failure.message(),
             Catch::Contains(cat("node-", guilty, " failed: ")) && Catch::Contains("label"));
  check_says(cluster.extend(static_cast<uint32_t>(guilty), kTrain, 9), Code::invalid_argument,
             "label");
  cluster.release_all(kTrain);
}

TEST_CASE("feeds are taken between steps, and steps numbered from outside", "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(options_for(job, 1));
  initialize(cluster, job, 1);
  open(cluster, kTrain, job.predict_plan());
  const Bytes zeros(2 * 64 * 4), ones(2 * 64 * 4, std::byte{0x3f});
  must(cluster.extend(0, kTrain, 1, {{0, zeros}}));
  must(cluster.await(0, kTrain, 1).failure);
  must(cluster.extend(0, kTrain, 2, {{0, ones}}));
  must(cluster.await(0, kTrain, 2).failure);
  must(cluster.extend(0, kTrain, 2, {{0, zeros}}));  // it is done, so no runner computes it again
  must(cluster.feed(0, kTrain, 0, zeros));
  must(cluster.extend(0, kTrain, 3));
  const Heard heard = cluster.await(0, kTrain, 3);
  REQUIRE(heard.rows.size() == 3);
  CHECK(heard.rows[0].size() == 2 * 4 * 4);
  CHECK(heard.rows[1] != heard.rows[0]);
  CHECK(heard.rows[2] == heard.rows[0]);
  check_says(cluster.extend(0, kTrain, 5, {{0, Bytes(12)}}), Code::invalid_argument,
             "expected 512 bytes, received 12");
  check_says(cluster.extend(0, kTrain, 5, {{1, zeros}}), Code::invalid_argument,
             "feed 1: expected one of 1 feeds");
  check_says(cluster.feed(0, kTrain, 0, Bytes(4)), Code::invalid_argument, "received 4");
  // Dropout chooses its elements from the number of the step.
  must(cluster.renumber(0, kTrain, 1));
  must(cluster.extend(0, kTrain, 4, {{0, ones}}));
  CHECK(cluster.await(0, kTrain, 4).rows[3] == heard.rows[1]);
  must(cluster.extend(0, kTrain, 100'000'000));
  check_says(cluster.renumber(0, kTrain, 50), Code::failed_precondition, "while it steps");
  check_says(cluster.extend(0, kTrain, 100'000'001, {{0, zeros}}), Code::failed_precondition,
             "while it steps");
}

TEST_CASE("a data set is inspected by its name, and no path is taken that is not allowed",
          "[cluster]") {
  const MirroredJob job;
  RunnerTestOptions options = options_for(job, 1);
  RunnerTestCluster cluster(options);
  DatasetFiles files = labelled_files("npy", "x.npy", "y.npy", "tiny");
  const DatasetReport report = must(cluster.inspect(0, files, 4));
  CHECK(report.info.count == 96);
  REQUIRE(report.info.columns.size() == 2);
  CHECK(report.info.columns[0].shape == Shape({1, 8, 8}));
  REQUIRE(report.prints.size() == 2);
  CHECK(report.prints[0] == must(fingerprint(real_files(), job.directory() + "/x.npy")));
  check_says(cluster.inspect(0, files, 3).status(), Code::invalid_argument, "label");
  files.root = "tinny";
  check_says(cluster.inspect(0, files, 0).status(), Code::invalid_argument,
             "data set 'tinny': expected one that node-0 has (tiny) (did you mean 'tiny'?)");
  files.root = job.directory();
  CHECK(must(cluster.inspect(0, files, 4)).info.count == 96);  // "tiny" stands for it

  const MirroredJob other;
  files.root = other.directory();
  check_says(cluster.inspect(0, files, 0).status(), Code::invalid_argument, "data set '/");
  options.datasets = {{"/", "/"}};
  RunnerTestCluster open_to_paths(options);
  CHECK(must(open_to_paths.inspect(0, files, 4)).info.count == 96);
}

namespace {

// Stops the first thread that reaches a failpoint until the test releases it.
class Held {
 public:
  explicit Held(std::string place)
      : passes_(std::move(place), [this](uint64_t pass) { return hold(pass); }) {}
  ~Held() { let_go(); }
  // Releases the thread and returns once it has left the failpoint.
  void let_go() {
    std::unique_lock lock(mutex_);
    held_ = false;
    changed_.notify_all();
    CHECK(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return !inside_; }));
  }

 private:
  Status hold(uint64_t pass) {
    if (pass != 1) return {};
    std::unique_lock lock(mutex_);
    inside_ = true;
    changed_.wait(lock, [&] { return !held_; });
    inside_ = false;
    changed_.notify_all();
    return {};
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = true, inside_ = false;
  ScopedFailpoint passes_;
};

}  // namespace

TEST_CASE("a runner whose data does not answer says which op waits for which file", "[cluster]") {
  const MirroredJob job;
  RunnerTestOptions options = options_for(job, 2);
  options.input_patience = std::chrono::milliseconds(200);
  RunnerTestCluster cluster(options);
  initialize(cluster, job, 2);
  const Plan plan = job.train_plan(2);
  must(cluster.prepare_all(kTrain, plan));
  Held held("files/read");
  const Status starved = cluster.connect_all(kTrain, setup_of(cluster, plan));
  INFO(starved);
  CHECK(starved.code() == Code::unavailable);
  const std::string how =
      cat("'", job.directory(), "/x.npy': expected its file system to answer within 0.2 s, ",
          "received nothing at byte 0 of ");
  CHECK(starved.message().starts_with(how));
  CHECK(starved.message().find("; while opening the data of leat.ReadBatch '") !=
        std::string::npos);
  REQUIRE(cluster.starved().size() == 1);
  CHECK(cluster.starved()[0].substr(6).starts_with(": " + how));
  held.let_go();
}

TEST_CASE("a link that ended a run is told of, though the master has ended the run meanwhile",
          "[cluster]") {
  const MirroredJob job;
  RunnerTestCluster cluster(options_for(job, 2));
  initialize(cluster, job, 2);
  const Plan plan = job.train_plan(2);
  must(cluster.prepare_all(kTrain, plan));
  RunSetup setup = setup_of(cluster, plan);
  setup.transport = "tcp";
  must(cluster.connect_all(kTrain, setup));
  Held held("runner/heed_links");
  {
    const ScopedFailpoint flipped("transport/corrupt", internal_error("a bit flips"), 5);
    cluster.extend_all(kTrain, 1000);
    for (const uint32_t task : {0, 1}) CHECK_FALSE(cluster.await(task, kTrain, 1000).failure.ok());
  }
  std::vector<std::future<Status>> aborted;  // one of them waits for the held thread
  for (const uint32_t task : {0, 1}) {
    aborted.push_back(std::async(std::launch::async, [&cluster, task] {
      return cluster.abort(task, kTrain, cancelled("all end"));
    }));
  }
  for (std::future<Status>& each : aborted) each.wait_for(std::chrono::milliseconds(200));
  held.let_go();
  for (std::future<Status>& each : aborted) must(each.get());
  const auto tells_of_damage = [&] {
    for (const uint32_t task : {0, 1}) {
      for (const FailedLink& failed : cluster.failed_links(task)) {
        if (failed.fault == LinkFault::damaged) return true;
      }
    }
    return false;
  };
  CHECK(eventually(tells_of_damage));
}

TEST_CASE("a data set that does not answer is not inspected for ever", "[cluster]") {
  const MirroredJob job;
  RunnerTestOptions options = options_for(job, 1);
  options.input_patience = std::chrono::milliseconds(200);
  RunnerTestCluster cluster(options);
  Held held("files/read");
  const DatasetFiles files = labelled_files("npy", "x.npy", "y.npy", "tiny");
  check_says(cluster.inspect(0, files, 4).status(), Code::unavailable,
             "x.npy': expected its file system to answer within 0.2 s");
  CHECK(cluster.starved().size() == 1);
  held.let_go();
  CHECK(must(cluster.inspect(0, files, 4)).info.count == 96);
}

}  // namespace leat::testing
