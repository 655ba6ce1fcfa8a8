// Evaluations between epochs, on parts of the data and on several sets, and epochs of a number of
// steps. [cluster] runs under ThreadSanitizer.
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/metrics/metrics_extent.h"
#include "daemon/metrics/metrics_log.h"
#include "daemon/training/training_length.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using Json = nlohmann::json;

constexpr const char* kNamedSets =
    "data.validation={dev: {format: npy, features: val-x.npy, labels: val-y.npy}, "
    "again: {format: npy, features: val-x.npy, labels: val-y.npy}, "
    "train: {format: npy, features: train-x.npy, labels: train-y.npy}}";

// The evaluations that a training reports.
class Watching final : public Silent {
 public:
  void validated(const ValidationResult& result) override { validations.push_back(result); }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const auto& each : validations) out.push_back(each.step);
    return out;
  }
  std::vector<ValidationResult> validations;
};

std::string logged_rows(const SmallJob& small, const std::string& run) {
  return without_timing(contents_of(small.path(run + "/metrics.jsonl")));
}

// The rows of a key, such as "validation".
std::vector<Json> rows_with(const std::string& rows, const std::string& key) {
  std::vector<Json> out;
  std::istringstream lines(rows);
  for (std::string line; std::getline(lines, line);) {
    Json row = Json::parse(line);
    if (row.contains(key)) out.push_back(std::move(row));
  }
  return out;
}

double number(const ValidationResult& result, const std::string& name) {
  for (const auto& [key, value] : result.numbers) {
    if (key == name) return value;
  }
  FAIL("there is no " << name);
  return 0;
}

// The first rows of the validation data, as data of their own.
void write_part(const SmallJob& small, int64_t rows) {
  for (const char* name : {"-x.npy", "-y.npy"}) {
    const Tensor all = must(read_npy(real_files(), small.path(cat("val", name))));
    Shape shape = all.shape();
    shape.set(0, rows);
    Tensor part(all.dtype(), shape);
    for (int64_t i = 0; i < part.elements(); ++i) part.set(i, all.at(i));
    must(write_npy(real_files(), small.path(cat("part", name)), part));
  }
}

}  // namespace

TEST_CASE("evaluations between epochs change no weight and have rows with their steps",
          "[cluster]") {
  const SmallJob small(kTinyCnn);
  const std::string expected = small.hash(small.job(), "plain");
  CHECK(rows_with(logged_rows(small, "plain"), "validation").empty());
  for (const int workers : {1, 2, 3}) {
    INFO("workers " << workers);
    const std::string run = cat("run-", workers);
    Watching watch;
    const Job job = small.job({"validation={every_steps: 4}", cat("num_workers=", workers)});
    const TrainOutcome outcome = small.train(job, run, watch, workers);
    CHECK(outcome.weights_sha256 == expected);
    // 30 steps of 24 rows; an epoch of 200 rows ends with steps 9, 17, 25 and 30.
    CHECK(watch.steps() == std::vector<int64_t>{4, 8, 9, 12, 16, 17, 20, 24, 25, 28, 30});
    CHECK(watch.epochs == 4);
    const std::string rows = logged_rows(small, run);
    const auto validations = rows_with(rows, "validation");
    REQUIRE(validations.size() == watch.validations.size());
    for (size_t i = 0; i < validations.size(); ++i) {
      CHECK(validations[i]["validation"] == i + 1);
      CHECK(validations[i]["step"] == watch.validations[i].step);
      CHECK(validations[i]["val_loss"] == watch.validations[i].first.loss);
      CHECK(validations[i]["val_accuracy"] == *watch.validations[i].first.accuracy);
    }
    CHECK(rows_with(rows, "epoch").back()["val_loss"] == validations.back()["val_loss"]);
    CHECK(outcome.validation->loss == watch.validations.back().first.loss);
    // The rows of steps and epochs are those of the job without them.
    CHECK(rows_with(rows, "loss") == rows_with(logged_rows(small, "plain"), "loss"));
    if (workers > 1) CHECK(rows == logged_rows(small, "run-1"));
  }
}

TEST_CASE("every strategy evaluates between epochs", "[cluster]") {
  const SmallJob small(kTinyCnn);
  small.hash(small.job({"validation={every_steps: 7}"}), "mirrored");
  Watching servers, apart;
  small.train(small.job({"validation={every_steps: 7}", "num_workers=3",
                         "strategy={name: parameter_server, num_ps: 2}"}),
              "servers", servers);
  CHECK(logged_rows(small, "servers") == logged_rows(small, "mirrored"));
  // Workers that step by themselves stand still for it, too.
  small.train(small.job({"validation={every_steps: 7}", "num_workers=2",
                         "strategy={name: parameter_server, mode: async}"}),
              "apart", apart);
  CHECK(apart.steps() == servers.steps());
  CHECK(rows_with(logged_rows(small, "apart"), "validation").size() == apart.steps().size());
}

TEST_CASE("an interrupted training has each row of a validation once", "[cluster]") {
  const SmallJob small(kTinyCnn);
  const Job job = small.job({"validation={every_steps: 4}"});
  const std::string expected = small.hash(job, "whole");
  const std::string rows = logged_rows(small, "whole");
  // At a step before an evaluation, at one of them, behind it, and at the end of an epoch.
  for (const size_t stop : {3, 4, 5, 9, 12, 16, 30}) {
    INFO("interrupted at " << stop);
    const std::string run = cat("run-", stop);
    Watching first, second;
    small.train(job, run, first, 1, false, [&] { return first.losses.size() >= stop; });
    const TrainOutcome rest = small.train(job, run, second, 2, true);
    CHECK(rest.weights_sha256 == expected);
    CHECK(logged_rows(small, run) == rows);
  }
}

TEST_CASE("a training that is killed behind a checkpoint evaluates again, and has the same rows") {
  const SmallJob small(kTinyCnn);
  // The checkpoints of steps 10 and 20 are written before the evaluations after these steps.
  const Job job = small.job({"validation={every_steps: 5}"});
  small.hash(job, "whole");
  const std::string rows = logged_rows(small, "whole");
  Watching first, second;
  // As after a crash: the metrics go on behind the newest checkpoint that is left, of step 20.
  small.train(job, "run", first, 1, false, [&] { return first.losses.size() >= 23; });
  const auto left = must(list_checkpoints(real_files(), small.path("run/checkpoints")));
  must(real_files().remove_all(left.front()));
  small.train(job, "run", second, 1, true);
  CHECK(second.first == 20);
  CHECK(logged_rows(small, "run") == rows);
  // The row of step 20 was there already.
  CHECK(second.steps().front() == 25);
}

TEST_CASE("an evaluation on a part covers the first rows, however many a step takes") {
  const SmallJob small(kTinyCnn);
  write_part(small, 10);
  const TrainOutcome whole = [&] {
    Silent watch;
    return small.train(
        small.job({"data.validation.features=part-x.npy", "data.validation.labels=part-y.npy"}),
        "whole", watch);
  }();
  for (const int workers : {1, 2}) {
    Silent watch;
    const TrainOutcome part =
        small.train(small.job({"validation.rows=10", cat("num_workers=", workers)}),
                    cat("part-", workers), watch);
    CHECK(part.validation->loss == whole.validation->loss);
    CHECK(part.validation->accuracy == whole.validation->accuracy);
    CHECK(part.weights_sha256 == whole.weights_sha256);
    CHECK(rows_with(logged_rows(small, cat("part-", workers)), "validation").empty());
  }
  Silent all, more;
  const double loss = small.train(small.job(), "all", all).validation->loss;
  CHECK(loss != whole.validation->loss);
  CHECK(small.train(small.job({"validation.rows=1000"}), "more", more).validation->loss == loss);
}

TEST_CASE("each set of validation data has numbers of its name, and the first has val_loss") {
  const SmallJob small(kTinyCnn);
  Silent alone;
  const TrainOutcome one = small.train(small.job(), "one", alone);
  Watching watch;
  const TrainOutcome outcome = small.train(small.job({kNamedSets}), "run", watch);
  CHECK(outcome.weights_sha256 == one.weights_sha256);
  CHECK(outcome.validation->loss == one.validation->loss);
  CHECK(watch.steps() == std::vector<int64_t>{9, 17, 25, 30});
  const ValidationResult& last = watch.validations.back();
  std::vector<std::string> names;
  for (const auto& [name, value] : last.numbers) names.push_back(name);
  CHECK(names == std::vector<std::string>{"val_loss", "val_accuracy", "again_loss",
                                          "again_accuracy", "train_loss", "train_accuracy"});
  CHECK(number(last, "val_loss") == one.validation->loss);
  CHECK(number(last, "again_loss") == one.validation->loss);
  CHECK(number(last, "again_accuracy") == number(last, "val_accuracy"));
  CHECK(number(last, "train_loss") != number(last, "val_loss"));
  CHECK(rows_with(logged_rows(small, "run"), "train_loss").size() == 4);
  CHECK(rows_with(logged_rows(small, "run"), "epoch").back()["val_loss"] == one.validation->loss);
}

TEST_CASE("steps_per_epoch makes epochs of so many steps, and the rows go on through the data") {
  const SmallJob small(kTinyCnn);
  const std::string expected = small.hash(small.job({"steps=20"}), "steps");
  Watching watch;
  const Job job = small.job({"epochs=5", "steps_per_epoch=4"});
  const TrainOutcome outcome = small.train(job, "run", watch);
  CHECK(outcome.steps == 20);
  CHECK(outcome.weights_sha256 == expected);
  REQUIRE(watch.results.size() == 5);
  for (size_t i = 0; i < 5; ++i) CHECK(watch.results[i].step == 4 * (i + 1));
  CHECK(watch.losses.size() == 20);
  double sum = 0;
  for (size_t i = 16; i < 20; ++i) sum += watch.losses[i];
  CHECK(watch.results.back().loss == Approx(sum / 4));
  // It goes on within an epoch as any other training does.
  Watching first, second;
  small.train(job, "parts", first, 1, false, [&] { return first.losses.size() >= 10; });
  CHECK(small.train(job, "parts", second, 1, true).weights_sha256 == expected);
  CHECK(logged_rows(small, "parts") == logged_rows(small, "run"));
  // With steps the last epoch may be cut short.
  const TrainingLength length = training_length(small.job({"steps=10", "steps_per_epoch=4"}), 200);
  CHECK(length.epochs == 3);
  CHECK(length.end_of(3) == 10);
  CHECK(length.until_epoch(2) == 8);
}

TEST_CASE("the keys of evaluations are read, printed and checked") {
  const SmallJob small("");
  const Job job = small.job(
      {kNamedSets, "validation={every_steps: 100, rows: 20}", "epochs=2", "steps_per_epoch=7"});
  CHECK(job.validation.every_steps == 100);
  CHECK(job.validation.rows == 20);
  CHECK(job.steps_per_epoch == 7);
  CHECK(job.data.validation_name == "dev");
  REQUIRE(job.data.more_validation.size() == 2);
  CHECK(job.data.more_validation[0].first == "again");
  CHECK(job.data.more_validation[1].second.files ==
        std::vector<std::string>{"features=train-x.npy", "labels=train-y.npy"});
  CHECK(job.has_validation_rows());
  CHECK(must(parse_job(print_job(job), "/elsewhere/job.yaml")) == job);
  CHECK_FALSE(small.job().has_validation_rows());
  CHECK_FALSE(small.job({"validation.rows=20"}).has_validation_rows());

  const auto refused = [&](const std::vector<std::string>& set) {
    JobOverrides overrides;
    overrides.set = set;
    const auto read = parse_job(print_job(small.job()), small.path("job.yaml"), overrides);
    REQUIRE_FALSE(read.ok());
    return read.status().message();
  };
  CHECK_THAT(refused({"validation={every_steps: 0}"}), Catch::Contains("validation.every_steps"));
  CHECK_THAT(refused({"validation={rows: 5}", "data.validation=null"}),
             Catch::Contains("validation: expected data.validation beside it"));
  CHECK_THAT(refused({"steps_per_epoch=0"}), Catch::Contains("steps_per_epoch"));
  const std::string files = "{format: npy, features: x, labels: y}";
  CHECK_THAT(refused({cat("data.validation={a: ", files, ", val: ", files, "}")}),
             Catch::Contains("val_loss is the loss of the first set"));
  CHECK_THAT(refused({cat("data.validation={a: ", files, ", b-c: ", files, "}")}),
             Catch::Contains("expected a name of letters, digits and '_'"));
  CHECK_THAT(refused({"data.validation={a: {features: x, labels: y}}"}),
             Catch::Contains("data.validation.a.format"));
  CHECK_THAT(refused({"data.validation={features: x, labels: y}"}),
             Catch::Contains("data.validation.format"));
}

TEST_CASE("a log keeps the rows of validations, and no step has two") {
  const TemporaryDirectory directory;
  const std::string path = directory / "metrics.jsonl";
  const StepMetric loss[] = {{"loss", 0.5}};
  const StepMetric numbers[] = {{"val_loss", 0.25}};
  {
    const auto log = must(MetricsLog::open(real_files(), path, 0));
    for (int64_t step = 1; step <= 4; ++step) {
      must(log->append(step, loss));
      if (step % 2 == 0) must(log->append_validation(numbers));
      if (step == 2) must(log->append_validation(numbers));
    }
    must(log->flush());
    CHECK(log->validated() == 4);
  }
  const std::string text = contents_of(path);
  CHECK_THAT(text, Catch::Contains(R"({"validation": 1, "step": 2, "val_loss": 0.25})"));
  CHECK_THAT(text, Catch::Contains(R"({"validation": 2, "step": 4, "val_loss": 0.25})"));
  CHECK(must(read_metrics_extent(real_files(), path)).validations == std::set<int64_t>{2, 4});
  CHECK(must(read_metrics(real_files(), path, 0, false)).tail.size() == 4);
  // A training that goes on at step 2 has the validation there, and counts on from it.
  const auto log = must(MetricsLog::open(real_files(), path, 2));
  CHECK(log->validated() == 2);
  CHECK(log->loss().text() == "");
  must(log->append_validation(numbers));
  must(log->append(3, loss));
  must(log->append_validation(numbers));
  must(log->flush());
  CHECK_THAT(contents_of(path),
             Catch::Contains(R"({"validation": 2, "step": 3, "val_loss": 0.25})"));
  CHECK(rows_with(contents_of(path), "validation").size() == 2);
}

}  // namespace leat
