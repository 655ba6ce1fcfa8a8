// Tests the numbers that a training reports: the mean and the validation of an epoch, the log of
// metrics after damage, a loss that is NaN, and a step that takes long.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "daemon/base/json_line.h"
#include "daemon/hosts/local_hosts.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/training_testing.h"
#include "tests/labelled_reader.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

std::string metrics_text(const SmallJob& small, const std::string& folder) {
  std::ifstream in(small.path(folder + "/metrics.jsonl"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_metrics(const SmallJob& small, const std::string& folder, const std::string& text) {
  std::ofstream(small.path(folder + "/metrics.jsonl"), std::ios::binary) << text;
}

std::vector<nlohmann::json> rows_of(const std::string& text) {
  std::vector<nlohmann::json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

std::vector<std::vector<double>> numbers_of(const std::vector<EpochResult>& results) {
  std::vector<std::vector<double>> numbers;
  for (const EpochResult& each : results)
    numbers.push_back({static_cast<double>(each.epoch), static_cast<double>(each.step), each.loss,
                       each.accuracy, each.val_loss, each.val_accuracy});
  return numbers;
}

// Epochs have 8 1/3 steps, so that they end with steps 9, 17, 25 and the last.
TEST_CASE("an epoch's numbers are its means and its validation, wherever a training was stopped") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"checkpoint.every_steps=4"});
  Silent whole;
  small.train(job, "whole", whole);
  const auto expected = numbers_of(whole.results);
  REQUIRE(expected.size() == 4);
  for (const auto& numbers : expected) {
    for (const double number : numbers) CHECK(std::isfinite(number));
  }
  const std::string text = metrics_text(small, "whole");
  double sum = 0;
  int count = 0;
  size_t epoch = 0;
  for (const auto& row : rows_of(text)) {
    if (!row.contains("epoch")) {
      sum += static_cast<double>(row["loss"].get<float>());
      ++count;
      continue;
    }
    CHECK(row["loss"].get<double>() == sum / count);
    CHECK(row["loss"].get<double>() == expected[epoch][2]);
    CHECK(row["val_loss"].get<double>() == expected[epoch][4]);
    CHECK(row["timing"]["samples_per_second"].get<double>() > 0);
    sum = count = 0;
    ++epoch;
  }
  CHECK(epoch == expected.size());
  for (const size_t stop : {3, 8, 9, 10, 17, 24, 25, 29}) {
    INFO("stopped after step " << stop);
    const std::string folder = cat("run-", stop);
    Silent first, second;
    small.train(job, folder, first, 1, false, [&] { return first.losses.size() >= stop; });
    small.train(job, folder, second, 1, true);
    CHECK(numbers_of(second.recalled_results) == numbers_of(first.results));
    std::vector<EpochResult> both = first.results;
    both.insert(both.end(), second.results.begin(), second.results.end());
    CHECK(numbers_of(both) == expected);
    CHECK(without_timing(metrics_text(small, folder)) == without_timing(text));
  }
}

// Every schedule, with settings that make its parts differ in 40 steps.
std::vector<ScheduleSpec> schedules() {
  std::vector<ScheduleSpec> out;
  for (const Schedule& schedule : all_schedules()) {
    ScheduleSpec spec(schedule.name);
    spec.warmup_steps = 5;
    spec.total_steps = 40;
    spec.rows_per_step = 8;
    spec.rows_per_epoch = 30;
    spec.milestones = {7, 19, 20};
    const std::pair<std::string_view, double> settings[] = {
        {"decay_steps", 17}, {"alpha", 0.01}, {"step_size", 3},     {"gamma", 0.7},
        {"decay_rate", 0.3}, {"power", 2},    {"restart_steps", 5}, {"restart_factor", 2}};
    for (const auto& [name, value] : settings) {
      if (spec.values.has(name)) spec.values.set(name, value);
    }
    out.push_back(spec);
    spec.per_epoch = true;
    out.push_back(spec);
  }
  return out;
}

TEST_CASE("the learning rate of a row is that of the graph's step, under every schedule") {
  const SmallJob small(kTinyDense);
  const Catalogue catalogue = standard_catalogue();
  const Graph model = must(load_model(real_files(), catalogue, small.job().model)).training;
  for (const ScheduleSpec& schedule : schedules()) {
    TrainSpec spec;
    spec.input.reader = testing::labelled_reader("npy", "train-x.npy", "train-y.npy", {1, 8, 8});
    spec.input.reader["shuffle"] = int64_t{0};
    spec.optimizer.learning_rate = 0.037;
    spec.schedule = schedule;
    spec.global_batch = 8;
    JobGraph job = must(make_train_graph(model, spec));
    ValueId rate = kNone;
    for (NodeId id = 0; id < job.graph.nodes(); ++id) {
      if (job.graph.node(id).op->full_name() == "leat.ApplySgd")
        rate = job.graph.node(id).inputs[2];
    }
    REQUIRE(rate != kNone);
    job.targets.clear();
    job.fetches = {rate};
    const auto hosts = make_local_hosts(1, 1);
    hosts->hosts()[0]->set_data_root("rates", small.path());
    PlanOptions options;
    options.name = "rates";
    auto run = must(hosts->run(must(hosts->compile(job, options)), "rates", {}));
    for (uint64_t step = 0; step < 40; ++step) {
      run->extend(step + 1);
      must(run->wait(step, std::chrono::steady_clock::now() + std::chrono::minutes(5)));
      INFO("schedule " << schedule.name << " at step " << step);
      CHECK(run->fetched_scalar(0, step) ==
            static_cast<float>(learning_rate_at(spec, static_cast<int64_t>(step))));
    }
  }
}

// Trains to step 17, runs `damage` on the log, and resumes. Has the warnings of both trainings.
struct Damaged {
  TrainOutcome outcome;
  std::vector<std::string> warnings;
  std::string text;
};
Damaged train_with(const SmallJob& small, const std::string& folder,
                   const std::function<void(std::string&)>& damage) {
  const Job job = small.job({"checkpoint.every_steps=4"});
  Silent first, second;
  small.train(job, folder, first, 1, false, [&] { return first.losses.size() >= 17; });
  std::string text = metrics_text(small, folder);
  damage(text);
  write_metrics(small, folder, text);
  Damaged damaged;
  damaged.outcome = small.train(job, folder, second, 1, true);
  damaged.warnings = second.warnings;
  damaged.text = metrics_text(small, folder);
  return damaged;
}

TEST_CASE("a training that goes on says which rows of its metrics are gone, or changed") {
  const SmallJob small(kTinyDense);
  const std::string expected = small.hash(small.job(), "twin");
  const std::string twin = without_timing(metrics_text(small, "twin"));
  const auto line = [](const std::string& text, int n) {
    size_t at = 0;
    for (; n > 0; --n) at = text.find('\n', at) + 1;
    return at;
  };
  const auto none = train_with(small, "none", [](std::string&) {});
  CHECK(none.warnings.empty());
  CHECK(without_timing(none.text) == twin);
  // Bytes after the checkpoint's rows do not count.
  const auto more = train_with(small, "more", [](std::string& text) { text += "{\"st"; });
  CHECK(more.warnings.empty());
  CHECK(without_timing(more.text) == twin);

  const auto check = [&](const Damaged& damaged, int64_t missing, const std::string& warning) {
    CHECK(damaged.outcome.weights_sha256 == expected);
    CHECK(damaged.outcome.lost_metrics.missing_rows() == missing);
    REQUIRE(damaged.warnings.size() == 1);
    CHECK(damaged.warnings[0] == "metrics.jsonl: " + warning);
    CHECK(damaged.outcome.lost_metrics.text() == warning);
  };
  // Lines 0 to 8 are steps, line 9 is the first epoch.
  const auto cut =
      train_with(small, "cut", [&](std::string& text) { text.resize(line(text, 12)); });
  check(cut, 6, "6 rows are missing: of steps 12 to 17");
  const auto emptied = train_with(small, "emptied", [](std::string& text) { text.clear(); });
  check(emptied, 17, "17 rows are missing: of steps 1 to 17");
  const auto holed = train_with(small, "holed", [&](std::string& text) {
    text.erase(line(text, 3), line(text, 4) - line(text, 3));
    text[line(text, 5) + 3] = '#';
  });
  check(holed, 2, "2 rows are missing: of steps 4, 7");
  const auto changed = train_with(small, "changed", [&](std::string& text) {
    text[text.find("\"loss\": ", line(text, 2)) + 10] ^= 1;
  });
  check(changed, 0, "some of the rows up to step 17 are not those that were written");
  const auto deleted = train_with(small, "deleted", [&](std::string& text) {
    std::filesystem::remove(small.path("deleted/metrics.jsonl"));
    text.clear();
  });
  check(deleted, 17, "17 rows are missing: of steps 1 to 17");
}

TEST_CASE("later trainings of a run know the lost rows of its metrics, too") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"checkpoint.every_steps=4"});
  Silent first, second, third;
  small.train(job, "run", first, 1, false, [&] { return first.losses.size() >= 9; });
  std::string text = metrics_text(small, "run");
  text[text.find("\"loss\": ") + 10] ^= 1;
  write_metrics(small, "run", text);
  small.train(job, "run", second, 1, true, [&] { return second.losses.size() >= 8; });
  const TrainOutcome outcome = small.train(job, "run", third, 1, true);
  REQUIRE(second.warnings.size() == 1);
  CHECK(third.warnings == second.warnings);
  CHECK(outcome.lost_metrics.changed_until == 9);
}

// The first values of w are a constant, which the training frees once the variables have them.
constexpr const char* kFromConstant = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
c (float[N,8,8] image) => (float[N,4] logits) {
  axis = Constant <value_ints = [2]> ()
  m = ReduceMean <keepdims = 0> (image, axis)
  first = Constant <value = float[8,4] {
    -0.3125, 0.265625, 0.203125, 0.140625, 0.078125, 0.015625, -0.046875, -0.109375,
    -0.171875, -0.234375, -0.296875, 0.28125, 0.21875, 0.15625, 0.09375, 0.03125,
    -0.03125, -0.09375, -0.15625, -0.21875, -0.28125, 0.296875, 0.234375, 0.171875,
    0.109375, 0.046875, -0.015625, -0.078125, -0.140625, -0.203125, -0.265625, 0.3125}> ()
  r = leat.Variable <name = "w", shape = [8,4]> ()
  = leat.Initialize (r, first)
  w = leat.Read (r)
  product = MatMul (m, w)
  [square] logits = Mul (product, product)
}
)";

TEST_CASE("the search for a NaN begins with the model's own values if there is no checkpoint") {
  const SmallJob small(kFromConstant);
  const auto cause = [&](const std::string& folder, const std::string& every) {
    const Job job = small.job({"optimizer={name: sgd, learning_rate: 1e38}", "lr_scheduler=null",
                               cat("checkpoint={every_steps: ", every, "}")});
    Silent watch;
    TrainOptions options{small.path(folder)};
    options.skip_checkpoints = false;
    const auto trainer = must(small.trainer(job, options));
    const std::string why(trainer->run(watch, [] { return false; }).status().message());
    INFO(why);
    CHECK(watch.losses.size() > 1);  // the first step changes w
    CHECK_THAT(why, Catch::Contains("the first that is not finite is Mul 'square'"));
    return why.substr(0, why.find("; "));
  };
  CHECK(cause("none", "100000") == cause("each", "1"));
}

TEST_CASE("a loss that is no number ends a training, which names the step and the node") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"optimizer={name: sgd, learning_rate: 1e38}", "num_workers=2",
                             "checkpoint={every_steps: 1, keep: 3}", "lr_scheduler=null"});
  Silent watch;
  TrainOptions options{small.path("run")};
  options.threads = 1;
  options.skip_checkpoints = false;
  const auto trainer = must(small.trainer(job, options));
  const auto outcome = trainer->run(watch, [] { return false; });
  REQUIRE_FALSE(outcome.ok());
  const std::string why(outcome.status().message());
  INFO(why);
  CHECK(outcome.status().code() == Code::failed_precondition);
  const int64_t step = static_cast<int64_t>(watch.losses.size());
  CHECK(step < 30);
  CHECK_FALSE(std::isfinite(watch.losses.back()));
  const std::string name(name_of_number(watch.losses.back()));
  CHECK_THAT(why, Catch::StartsWith(cat("the loss of step ", step, " is ", name,
                                        ": the first that is not finite is ")));
  CHECK_THAT(why, !Catch::Contains("not found"));
  const auto rows = rows_of(metrics_text(small, "run"));
  CHECK(rows.back()["step"] == step);
  CHECK(rows.back()["loss"] == name);
  // The checkpoints that are left verify and hold no NaN.
  const auto left = must(list_checkpoints(real_files(), small.path("run/checkpoints")));
  for (const std::string& path : left) {
    for (const auto& [name, value] : must(read_checkpoint(real_files(), path)).variables) {
      for (int64_t i = 0; i < value.elements(); ++i) REQUIRE(std::isfinite(value.at(i)));
    }
  }
}

TEST_CASE("a training that ignores a loss that is no number goes on, and shows it") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"optimizer={name: sgd, learning_rate: 1e38}", "on_nan=ignore"});
  Silent watch;
  const TrainOutcome outcome = small.train(job, "run", watch);
  CHECK(outcome.steps == 30);
  REQUIRE(watch.results.size() == 4);
  CHECK(std::isnan(watch.results.back().loss));
  CHECK(is_known(watch.results.back().loss));
  CHECK(is_known(watch.results.back().val_loss));
  CHECK(rows_of(metrics_text(small, "run")).back()["loss"] == "NaN");
}

TEST_CASE("a step takes as long as it takes, and is warned of") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"shards=2", "num_workers=3", "steps=3",
                             "strategy={name: parameter_server, total_num_replicas: 3, "
                             "replicas_to_aggregate: 2}"});
  struct Watch final : Silent {
    void warned(const std::string& message) override {
      Silent::warned(message);
      ++seen;
    }
    std::atomic<int> seen{0};
  } watch;
  const auto slow = [&](uint64_t) {
    while (watch.seen < 3) std::this_thread::yield();
    return Status();
  };
  const ScopedFailpoint one("replica/arrive/0", slow), two("replica/arrive/1", slow),
      three("replica/arrive/2", slow);
  TrainOptions options{small.path("run")};
  options.threads = 1;
  options.slow_step = std::chrono::milliseconds(1);
  const auto trainer = must(small.trainer(job, options));
  CHECK(must(trainer->run(watch, [] { return false; })).steps == 3);
  CHECK_THAT(watch.warnings[0], Catch::StartsWith("step 1 takes 0 s so far: "));
}

}  // namespace
}  // namespace leat
