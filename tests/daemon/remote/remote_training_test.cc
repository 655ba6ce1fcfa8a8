// Whole trainings on runners over the wire. The results must be those of a cluster in one process.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <thread>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/remote/remote_hosts.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "tests/async_device.h"
#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using testing::RunnerTestCluster;
using testing::RunnerTestOptions;

std::unique_ptr<HostGroup> cluster_of(RunnerTestCluster& nodes, uint32_t runners,
                                      const std::string& transport) {
  std::vector<std::shared_ptr<RemoteHost>> remotes;
  for (uint32_t task = 0; task < runners; ++task) remotes.push_back(nodes.remote(task));
  RemoteHostsOptions options;
  options.cluster = {1, 2, 3};
  options.assembly = testing::kAssembly;
  options.transport = transport;
  return make_remote_hosts(nodes.loop(), std::move(remotes), std::move(options));
}

// Trains the job on one runner for each of its workers. `catalogue`: one that has the kernels of
// accelerators, of which each runner has one then.
TrainOutcome train_over_the_wire(const SmallJob& small, const std::vector<std::string>& set,
                                 const std::string& transport, Silent& watch,
                                 std::string folder = "", const Catalogue* catalogue = nullptr,
                                 const std::vector<WireKind>& wires = {}) {
  Job job = small.job(set);
  RunnerTestOptions options;
  options.gpu_wires = wires;
  options.accelerators = catalogue != nullptr;
  options.runners = static_cast<int>(job.num_workers);
  options.datasets = {{"small", small.path()}};
  RunnerTestCluster nodes(options);
  job.data.root = "small";
  if (folder.empty()) folder = cat("run-", transport, "-", join(set, "-"));
  TrainOptions training{small.path(folder)};
  training.skip_checkpoints = false;
  auto hosts = cluster_of(nodes, static_cast<uint32_t>(job.num_workers), transport);
  const auto trainer =
      catalogue ? must(Trainer::create(*catalogue, real_files(), job, training, std::move(hosts)))
                : must(small.trainer(job, training, std::move(hosts)));
  return must(trainer->run(watch, [] { return false; }));
}

}  // namespace

TEST_CASE("runners over the wire train to the weights of one process", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const std::string expected = small.hash(small.job(), "local");
  for (const char* transport : {"tcp", "shm"}) {
    for (const int runners : {1, 2, 3}) {
      INFO(transport << ", runners " << runners);
      Silent watch;
      const TrainOutcome outcome =
          train_over_the_wire(small, {cat("num_workers=", runners)}, transport, watch);
      CHECK(outcome.weights_sha256 == expected);
      CHECK(outcome.steps == 30);
      CHECK(watch.losses.size() == 30);
      CHECK(watch.checkpoints == std::vector<int64_t>{10, 20, 30});
    }
  }
}

TEST_CASE("runners with accelerators train to the weights of CPUs", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true, 12));
  const std::string expected = small.hash(small.job(), "local");
  const Catalogue whole = testing::async_catalogue();
  const Catalogue part = testing::async_catalogue({"Relu", "leat.ReluGrad", "leat.ApplyMomentum"});
  const std::vector<int> counts = kSlowness > 1 ? std::vector{2} : std::vector{1, 2, 3};
  for (const char* transport : {"tcp", "shm"}) {
    for (const int runners : counts) {
      // The second catalogue has values go back and forth between the devices of a runner.
      const Catalogue& catalogue = runners == 2 ? part : whole;
      INFO(transport << ", runners " << runners);
      Silent watch;
      const TrainOutcome outcome =
          train_over_the_wire(small, {cat("num_workers=", runners)}, transport, watch,
                              cat("accelerated-", transport, runners), &catalogue);
      CHECK(outcome.weights_sha256 == expected);
      CHECK(outcome.steps == 30);
      CHECK(watch.losses.size() == 30);
      CHECK(watch.checkpoints == std::vector<int64_t>{10, 20, 30});
    }
  }
}

TEST_CASE("values that go from device to device over wires change no weights", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true, 12));
  const std::string expected = small.hash(small.job(), "local");
  const Catalogue whole = testing::async_catalogue();
  for (const WireKind wire : {WireKind::ipc, WireKind::nccl}) {
    for (const char* transport : {"tcp", "shm"}) {
      INFO(name_of(wire) << " beside " << transport);
      const size_t made = testing::AsyncWires::all().made();
      Silent watch;
      const TrainOutcome outcome =
          train_over_the_wire(small, {"num_workers=3"}, transport, watch,
                              cat("wired-", name_of(wire), transport), &whole, {wire});
      CHECK(outcome.weights_sha256 == expected);
      CHECK(outcome.steps == 30);
      CHECK(watch.checkpoints == std::vector<int64_t>{10, 20, 30});
      CHECK(testing::AsyncWires::all().made() > made);
    }
  }
}

TEST_CASE("each worker writes its part of a checkpoint, or the master does: the bytes are the same",
          "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  for (const char* strategy : {"mirrored", "{name: parameter_server, num_ps: 2}"}) {
    INFO(strategy);
    const std::vector<std::string> set{"num_workers=2", cat("strategy=", strategy)};
    Silent watch;
    std::vector<std::string> hashes[2];
    for (const bool apart : {false, true}) {
      std::optional<ScopedFailpoint> elsewhere;
      if (apart) elsewhere.emplace("checkpoint/part_at", failed_precondition("another disk"));
      const std::string folder = apart ? "apart" : "together";
      train_over_the_wire(small, set, "shm", watch, folder);
      for (const int64_t step : {20, 30}) {
        const Manifest manifest = must(verify_checkpoint(
            real_files(), small.path(cat(folder, "/checkpoints/", checkpoint_name(step)))));
        REQUIRE(manifest.parts.size() == 2);
        for (const CheckpointPart& part : manifest.parts) hashes[apart].push_back(part.sha256);
      }
      if (apart) CHECK(elsewhere->passes() == 6);
      std::filesystem::remove_all(small.path(folder));
    }
    CHECK(hashes[0] == hashes[1]);
  }
}

TEST_CASE("workers copy in passing what they hold at a fence", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  for (const char* strategy : {"mirrored", "{name: parameter_server, num_ps: 2}"}) {
    INFO(strategy);
    const auto parts_at_ten = [&](int64_t steps) {
      const std::string folder = cat("until-", steps);
      const ScopedFailpoint passing("runner/snapshot_in_passing", Status());
      Silent watch;
      train_over_the_wire(small,
                          {"num_workers=2", cat("strategy=", strategy), cat("steps=", steps),
                           "lr_scheduler={name: constant}"},
                          "shm", watch, folder);
      CHECK(passing.passes() == (steps == 20 ? 2 : 0));  // the last step ends at a fence
      const Manifest manifest = must(verify_checkpoint(
          real_files(), small.path(cat(folder, "/checkpoints/", checkpoint_name(10)))));
      std::string parts;
      for (const CheckpointPart& part : manifest.parts) parts += part.sha256 + " ";
      std::filesystem::remove_all(small.path(folder));
      return parts;
    };
    const std::string at_a_fence = parts_at_ten(10);
    CHECK(at_a_fence.size() == 2 * 65);
    CHECK(parts_at_ten(20) == at_a_fence);
  }
}

TEST_CASE("a checkpoint that a worker does not copy in passing is missed, and nothing else",
          "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const ScopedFailpoint refuses("runner/snapshot_in_passing", internal_error("no"), 1);
  Silent watch;
  CHECK(train_over_the_wire(small, {"num_workers=2"}, "shm", watch).weights_sha256 ==
        small.hash(small.job(), "local"));
  CHECK(watch.checkpoints == std::vector<int64_t>{20, 30});
  REQUIRE(watch.warnings.size() == 1);
  CHECK(watch.warnings[0].find("no checkpoint of step 10: ") == 0);
  CHECK(watch.warnings[0].find("expected one of step 10, found none") != std::string::npos);
}

TEST_CASE("parameter servers on runners over the wire give the weights of one process",
          "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const std::string expected = small.hash(small.job(), "local");
  const std::string transport = GENERATE("tcp", "shm");
  for (const auto& [workers, servers] : {std::pair(1, 1), std::pair(2, 2), std::pair(3, 2)}) {
    INFO(transport << ", workers " << workers << ", servers " << servers);
    Silent watch;
    const TrainOutcome outcome =
        train_over_the_wire(small,
                            {cat("num_workers=", workers),
                             cat("strategy={name: parameter_server, num_ps: ", servers, "}")},
                            transport, watch);
    CHECK(outcome.weights_sha256 == expected);
    CHECK(watch.losses.size() == 30);
  }
}

TEST_CASE("layers on two runners over the wire give the weights of one process", "[cluster]") {
  const auto graph = [](const char* first, const char* second) {
    return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] x) => (float[N,4] y) {
  c = leat.Conv2D <filters = 4, kernel = 3)",
               first, R"(> (x)
  f = Flatten (c)
  y = leat.Dense <units = 4)",
               second, "> (f)\n}\n");
  };
  const SmallJob one(graph("", "").c_str());
  const SmallJob two(graph(", device = \"task:0\"", ", device = \"task:1\"").c_str());
  const std::string transport = GENERATE("tcp", "shm");
  INFO(transport);
  Silent watch;
  CHECK(train_over_the_wire(two, {"strategy=single", "num_workers=2"}, transport, watch)
            .weights_sha256 == one.hash(one.job({"strategy=single"}), "local"));
}

TEST_CASE("a training goes on from what runners over the wire hold", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const std::string expected = small.hash(small.job(), "local");
  Job job = small.job({"num_workers=2", "checkpoint.every_steps=15"});
  RunnerTestOptions options;
  options.datasets = {{"small", small.path()}};
  RunnerTestCluster nodes(options);
  job.data.root = "small";
  TrainOptions training{small.path("run")};
  training.survivors = true;
  Silent first, second;
  const auto train = [&](Silent& watch, const std::function<bool()>& stop) {
    const auto trainer = must(small.trainer(job, training, cluster_of(nodes, 2, "shm")));
    return trainer->run(watch, stop);
  };
  CHECK_FALSE(must(nodes.remote(0)->held("small")).whole);
  // The run after the one that fills the variables, by its number in the assembly.
  constexpr uint64_t kTrain = testing::kAssembly << 32 | 2;
  const auto fail = [&] {
    if (first.losses.size() >= 13) must(nodes.abort(1, kTrain, unavailable("it is gone")));
    return false;
  };
  CHECK(train(first, fail).status().code() == Code::unavailable);
  std::vector<uint64_t> steps;
  for (const uint32_t task : {0u, 1u}) {
    const Held held = must(nodes.remote(task)->held("small"));
    CHECK(held.whole);
    REQUIRE(held.rows.size() == held.step);
    for (size_t i = 0; i < first.losses.size(); ++i) {
      CHECK(held.rows[i].step == i);
      CHECK(held.rows[i].values[0] == first.losses[i]);
    }
    steps.push_back(held.step);
  }
  const uint64_t newest = std::max(steps[0], steps[1]);
  CHECK(newest - std::min(steps[0], steps[1]) <= 1);
  // There may be a checkpoint already.
  training.resume = !must(list_checkpoints(real_files(), small.path("run/checkpoints"))).empty();
  CHECK(must(train(second, [] { return false; })).weights_sha256 == expected);
  CHECK(second.first == static_cast<int64_t>(newest));
  std::erase_if(second.notes, [](const std::string& note) {  // the note of a late one
    return note.starts_with("no checkpoint of step ");
  });
  REQUIRE(second.notes.size() == 2);
  CHECK(second.notes[0].starts_with(cat("went on at step ", newest, " from the memory of ")));
  CHECK(second.notes[1].starts_with("ready to go on, in seconds: "));
}

TEST_CASE("a snapshot is not waited for any longer than it is wanted", "[cluster]") {
  RunnerTestOptions options;
  options.runners = 1;
  options.processes = true;
  RunnerTestCluster nodes(options);
  const auto remote = nodes.remote(0);
  const auto nothing = [](std::span<const std::byte>) { return Status(); };
  // There is no snapshot.
  CHECK(remote->read_snapshot(1, nothing, {}).code() == Code::failed_precondition);
  CHECK(remote->take_snapshot("small", 1, {"none"}).code() == Code::failed_precondition);
  nodes.signal(0, SIGSTOP);
  std::stop_source stop;
  std::jthread later([&] { stop.request_stop(); });
  CHECK(remote->read_snapshot(1, nothing, stop.get_token()).code() == Code::cancelled);
  CHECK(remote->write_snapshot(1, {"/x", 0, 1}, stop.get_token()).status().code() ==
        Code::cancelled);
  nodes.signal(0, SIGCONT);
}

TEST_CASE("runners over the wire train asynchronously", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const std::string strategy = "strategy={name: parameter_server, mode: async}";
  const std::string transport = GENERATE("tcp", "shm");
  INFO(transport);
  Silent alone, several;
  CHECK(train_over_the_wire(small, {strategy}, transport, alone).weights_sha256 ==
        small.hash(small.job(), "local"));
  const TrainOutcome outcome =
      train_over_the_wire(small, {strategy, "num_workers=3"}, transport, several);
  CHECK(outcome.steps == 30);
  CHECK(several.losses.size() == 30);
  CHECK(several.checkpoints == std::vector<int64_t>{10, 20, 30});
  CHECK(several.losses.back() < several.losses.front());
}

TEST_CASE("runners over the wire train by a quorum", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const std::string transport = GENERATE("tcp", "shm");
  INFO(transport);
  Silent watch;
  const TrainOutcome outcome =
      train_over_the_wire(small,
                          {"strategy={name: parameter_server, num_ps: 2, total_num_replicas: 3, "
                           "replicas_to_aggregate: 2}",
                           "num_workers=3", "shards=2"},
                          transport, watch);
  CHECK(outcome.steps == 30);
  CHECK(watch.losses.size() == 30);
  CHECK(watch.checkpoints == std::vector<int64_t>{10, 20, 30});
  CHECK(watch.losses.back() < watch.losses.front());
}

}  // namespace leat
