// Tests trainings whose disk is full, and trainings that are stopped at a checkpoint.
#include <atomic>
#include <chrono>
#include <thread>

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

// Progress that other threads may read, too.
struct Progress final : Silent {
  void stepped(int64_t step, const StepResult& result) override {
    Silent::stepped(step, result);
    ++steps;
  }
  void warned(const std::string& message) override {
    Silent::warned(message);
    ++warned_of;
  }
  void checkpointed(int64_t step, const std::string& path) override {
    Silent::checkpointed(step, path);
    ++written;
  }
  void waits(const std::string& for_what) override { waited.push_back(for_what); }
  std::atomic<int> steps{0}, warned_of{0}, written{0};
  std::vector<std::string> waited;
};

std::string metrics_of(const SmallJob& small, const std::string& folder) {
  return without_timing(contents_of(small.path(folder + "/metrics.jsonl")));
}

TEST_CASE("a job that is told to stop at a checkpoint writes it once, and goes on from it") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  // At the end of an epoch, too: there they stand.
  const Job job = small.job({"checkpoint.every_steps=17"});
  Silent first;
  const TrainOutcome stopped =
      small.train(job, "run", first, 1, false, [&] { return first.losses.size() >= 17; });
  CHECK(stopped.interrupted);
  CHECK(first.checkpoints == std::vector<int64_t>{17});
  Silent second;
  CHECK(small.train(job, "run", second, 1, true).weights_sha256 == expected);
  CHECK(second.first == 17);
}

TEST_CASE("a disk that is full for a while costs checkpoints, and neither the job nor a metric") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  Progress watch;
  std::atomic<int> at_the_end{0};
  // The disk is full at the start, from step 5 until a checkpoint has failed, and at the end.
  const ScopedFailpoint full("files/append", [&](uint64_t pass) -> Status {
    const bool fails =
        pass == 1 || (watch.steps >= 5 && watch.warned_of == 1) ||
        (watch.steps == 30 && watch.written == 1 && at_the_end++ < 4);  // the epoch's row, too
    return fails ? resource_exhausted("no space left") : Status();
  });
  CHECK(small.train(small.job(), "run", watch).weights_sha256 == expected);
  CHECK(watch.checkpoints == std::vector<int64_t>{20, 30});
  REQUIRE(watch.warnings.size() == 4);
  CHECK_THAT(watch.warnings[0], Catch::StartsWith("waits for room: no space left"));
  CHECK_THAT(watch.warnings[1], Catch::StartsWith("no checkpoint of step 10: "));
  CHECK_THAT(watch.warnings[2], Catch::StartsWith("no checkpoint of step 30: "));
  CHECK_THAT(watch.warnings[3], Catch::StartsWith("waits for room: no space left"));
  CHECK(watch.waited == std::vector<std::string>{watch.warnings[0], "", watch.warnings[3], ""});
  CHECK(metrics_of(small, "run") == metrics_of(small, "twin"));
}

TEST_CASE("a disk that fails for a while costs a checkpoint, and not the job") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  Progress watch;
  const ScopedFailpoint broken("files/create", [&](uint64_t) {
    return watch.steps >= 5 && watch.warned_of == 0 ? unavailable("input/output error") : Status();
  });
  CHECK(small.train(small.job(), "run", watch).weights_sha256 == expected);
  CHECK(watch.checkpoints == std::vector<int64_t>{20, 30});
  REQUIRE(watch.warnings.size() == 1);
  CHECK_THAT(watch.warnings[0], Catch::StartsWith("no checkpoint of step 10: "));
  CHECK(metrics_of(small, "run") == metrics_of(small, "twin"));
}

TEST_CASE("steps go on while a checkpoint is written, and one that is due meanwhile is left out") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  Progress watch;
  // The disk takes the first file of the checkpoint of step 10 when step 25 is done.
  const ScopedFailpoint slow("files/create", [&](uint64_t) {
    const auto due = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (watch.steps >= 10 && watch.steps < 25) {
      if (std::chrono::steady_clock::now() > due) return unavailable("no step came");
      std::this_thread::yield();
    }
    return Status();
  });
  const auto trainer = must(small.trainer(small.job(), {small.path("run")}));
  CHECK(must(trainer->run(watch, [] { return false; })).weights_sha256 == expected);
  CHECK(watch.warnings.empty());
  REQUIRE_FALSE(watch.notes.empty());
  CHECK(watch.notes[0] == "no checkpoint of step 20: that of step 10 is still being written");
  CHECK(watch.checkpoints == std::vector<int64_t>{10, 30});
  CHECK(must(verify_checkpoint(real_files(), small.path("run/checkpoints/step-00000010"))).step ==
        10);
  CHECK(metrics_of(small, "run") == metrics_of(small, "twin"));
}

TEST_CASE("weights and metrics do not depend on when there are checkpoints, or interruptions") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  for (const char* every : {"1", "7", "20", "1000"}) {
    for (const bool interrupted : {false, true}) {
      INFO("every " << every << " steps, interrupted " << interrupted);
      const Job job = small.job({cat("checkpoint.every_steps=", every), "num_workers=2"});
      TrainOptions options{small.path(cat("run-", every, interrupted))};
      std::string hash;
      for (const size_t most :
           interrupted ? std::vector<size_t>{4, 9, 1000} : std::vector<size_t>{1000}) {
        Progress watch;
        const auto trainer = must(small.trainer(job, options));
        hash =
            must(trainer->run(watch, [&] { return watch.losses.size() >= most; })).weights_sha256;
        options.resume = true;
      }
      CHECK(hash == expected);
      CHECK(metrics_of(small, cat("run-", every, interrupted)) == metrics_of(small, "twin"));
    }
  }
}

}  // namespace
}  // namespace leat
