// A job that stops early, and that keeps the weights of its best epoch: after the same step and
// with the same bits, wherever it was interrupted. [cluster] runs under ThreadSanitizer.
#include <cmath>
#include <fstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/training/best_epoch.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "ops/formats/weights_hash.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

EpochResult epoch_of(uint32_t epoch, double val_loss) {
  EpochResult result;
  result.epoch = epoch;
  result.val_loss = val_loss;
  return result;
}

TEST_CASE("the best epoch is better than those before by more than the delta") {
  BestEpoch best({"val_loss", false}, 0.5);
  CHECK_FALSE(best.take(epoch_of(1, kNoNumber)));
  CHECK(best.since() == 1);
  CHECK(best.take(epoch_of(2, 3)));
  CHECK_FALSE(best.take(epoch_of(3, 2.5)));
  CHECK_FALSE(best.take(epoch_of(4, computed(kNoNumber))));
  CHECK(best.since() == 2);
  CHECK(best.take(epoch_of(5, 2.25)));
  CHECK(best.since() == 0);
  CHECK(best.best()->epoch == 5);
  BestEpoch rising({"val_loss", true});
  CHECK(rising.take(epoch_of(1, 1)));
  CHECK_FALSE(rising.take(epoch_of(2, 1)));
  CHECK(rising.take(epoch_of(3, 1.5)));
}

// The accuracy soon rises no more. An epoch has 8 or 9 steps.
std::vector<std::string> stopping(const std::vector<std::string>& more = {}) {
  std::vector<std::string> set{"epochs=40",
                               "checkpoint={every_steps: 5, keep: 3}",
                               "optimizer={name: sgd, learning_rate: 0.004}",
                               "lr_scheduler={name: constant}",
                               "metrics=[accuracy, f1]",
                               "early_stopping={monitor: val_accuracy, patience: 2}"};
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

std::string best_hash(const SmallJob& small, const std::string& folder) {
  const auto saved =
      must(read_safetensors(real_files(), cat(small.path(folder), "/", kBestWeights)));
  return cat(saved.metadata.at("leat.step"), " ", saved.metadata.at("leat.epoch"), " ",
             weights_sha256(saved.tensors));
}

TEST_CASE("a job stops early after the same step wherever it was interrupted", "[cluster]") {
  const SmallJob small(kTinyDense);
  const Job job = small.job(stopping());
  Silent whole;
  const TrainOutcome expected = small.train(job, "whole", whole);
  const auto epochs = whole.results.size();
  REQUIRE(epochs > 2);
  REQUIRE(epochs < 40);
  REQUIRE(expected.best);
  CHECK(expected.best->epoch == epochs - 2);
  CHECK(expected.steps == static_cast<int64_t>(whole.results.back().step));
  CHECK_FALSE(expected.interrupted);
  CHECK_THAT(whole.notes.back(),
             Catch::Contains(cat("stopped early: val_accuracy was best in epoch ", epochs - 2)));
  CHECK(is_known(whole.results[0].number("val_f1")));
  const std::string best = best_hash(small, "whole");
  CHECK(best.starts_with(cat(expected.best->step, " ", expected.best->epoch, " ")));
  const auto same = [&](const TrainOutcome& outcome, const std::string& folder) {
    CHECK(outcome.steps == expected.steps);
    CHECK(outcome.weights_sha256 == expected.weights_sha256);
    CHECK(best_hash(small, folder) == best);
  };
  Silent three;
  same(small.train(small.job(stopping({"num_workers=3"})), "three", three, 2), "three");
  const auto at_best = static_cast<size_t>(expected.best->step);
  for (const size_t stop : {size_t{3}, at_best - 1, at_best, at_best + 1, whole.losses.size()}) {
    INFO("stopped after step " << stop);
    const std::string folder = cat("run-", stop);
    Silent first, second;
    small.train(job, folder, first, 1, false, [&] { return first.losses.size() >= stop; });
    same(small.train(job, folder, second, 1, true), folder);
  }
  // A kill may come when the best weights are written and the log lacks their epoch, or they may be
  // those of a later step than the newest checkpoint.
  Silent first, second;
  small.train(job, "killed", first, 1, false, [&] { return first.losses.size() > at_best; });
  const std::string checkpoints = small.path("killed/checkpoints");
  for (const std::string& path : must(list_checkpoints(real_files(), checkpoints))) {
    if (path.substr(path.rfind('/') + 1) >= checkpoint_name(expected.best->step))
      REQUIRE(real_files().remove_all(path).ok());
  }
  CHECK(best_hash(small, "killed") == best);
  same(small.train(job, "killed", second, 1, true), "killed");
  CHECK(second.first < static_cast<int64_t>(expected.best->step));
  CHECK(second.first > 0);
  // A run that has stopped early stays so.
  Silent again;
  same(small.train(job, "whole", again, 1, true), "whole");
  CHECK(again.losses.empty());
}

TEST_CASE("the best weights come by a metric without early stopping, and stay when it falls") {
  const SmallJob small(kTinyDense);
  const Job job =
      small.job({"metrics=[accuracy, f1]", "epochs=4", "checkpoint={best: {monitor: val_f1}}"});
  REQUIRE(job.checkpoint.best);
  CHECK(job.checkpoint.best->rises);
  Silent watch;
  const TrainOutcome outcome = small.train(job, "run", watch);
  CHECK(outcome.steps == 34);
  const EpochResult* best = nullptr;
  for (const EpochResult& each : watch.results) {
    if (best == nullptr || each.number("val_f1") > best->number("val_f1")) best = &each;
  }
  CHECK(outcome.best->epoch == best->epoch);
  CHECK(best_hash(small, "run").starts_with(cat(best->step, " ", best->epoch, " ")));
}

}  // namespace
}  // namespace leat
