// A schedule that lowers the rate when a number of the epochs gets no better: PyTorch's rates, and
// the same ones wherever the job was interrupted. [cluster] runs under ThreadSanitizer.
#include "daemon/training/plateau.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/base/yaml_reader.h"
#include "daemon/metrics/metrics_log.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/differences.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

std::vector<double> numbers_in(std::istringstream& words) {
  std::vector<double> numbers;
  for (std::string word; words >> word;) numbers.push_back(word == "nan" ? NAN : std::stod(word));
  return numbers;
}

TEST_CASE("the rates of a plateau are PyTorch's") {
  const SmallJob small(kTinyDense);
  std::ifstream in(std::string(LEAT_SOURCE_DIR) + "/tests/daemon/recipes/schedules/plateau.rates");
  REQUIRE(in.is_open());
  std::vector<double> series;
  std::string settings;
  int compared = 0, falls = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "series") {
      words >> name;
      series = numbers_in(words);
    }
    if (kind == "set") settings = line.substr(4);
    if (kind != "rates") continue;
    const std::string keys = settings == "{}" ? "}" : cat(", ", settings.substr(1));
    const Job job = small.job({"optimizer={name: sgd, learning_rate: 0.5}",
                               cat("lr_scheduler={name: plateau, monitor: val_loss", keys)});
    INFO(name << " " << settings);
    CHECK(must(parse_job(print_job(job), "job.yaml")) == job);
    Plateau plateau(job);
    const std::vector<double> rates = numbers_in(words);
    double worst = 0;
    REQUIRE(rates.size() == series.size());
    for (size_t e = 0; e < series.size(); ++e) {
      EpochResult epoch;
      epoch.val_loss = computed(series[e]);
      falls += plateau.take(epoch) ? 1 : 0;
      CHECK(plateau.learning_rate() == rates[e]);
      worst = std::max(worst, std::abs(plateau.learning_rate() - rates[e]));
      CHECK(std::abs(0.5 / (1 + plateau.cut()) - rates[e]) <= 1e-15 * rates[e]);
      ++compared;
    }
    note_difference("schedule", cat("plateau ", settings), worst);
  }
  CHECK(compared == 3 * 6 * 40);
  CHECK(falls > 20);
}

// The accuracy soon rises no more. An epoch has 8 or 9 steps.
std::vector<std::string> flattening(const std::vector<std::string>& more = {}) {
  std::vector<std::string> set{
      "epochs=9", "checkpoint={every_steps: 5, keep: 3}", "metrics=[accuracy]",
      "optimizer={name: sgd, learning_rate: 0.01, momentum: 0.9}",
      "lr_scheduler={name: plateau, monitor: val_accuracy, patience: 0, factor: 0.4, "
      "warmup_steps: 4}"};
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

// The same on the validations that a job makes every 3 steps, and at the end of each epoch.
std::vector<std::string> validating(const std::vector<std::string>& more = {}) {
  std::vector<std::string> set = flattening(
      {"validation={every_steps: 3}",
       "lr_scheduler={name: plateau, monitor: val_accuracy, patience: 1, cooldown: 1, factor: 0.4, "
       "per: validation}"});
  set.insert(set.end(), more.begin(), more.end());
  return set;
}

// The rate of each step, as the log has it.
std::vector<double> rates_of(const SmallJob& small, const std::string& folder) {
  std::ifstream in(small.path(folder + "/metrics.jsonl"));
  std::vector<double> rates;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row.contains("learning_rate")) rates.push_back(row["learning_rate"]);
  }
  return rates;
}

std::string log_of(const SmallJob& small, const std::string& folder) {
  std::ifstream in(small.path(folder + "/metrics.jsonl"));
  std::ostringstream text;
  text << in.rdbuf();
  return without_timing(text.str());
}

TEST_CASE("a job takes the rates of its epochs wherever it was interrupted", "[cluster]") {
  const SmallJob small(kTinyDense);
  const Job job = small.job(flattening());
  Silent whole;
  const TrainOutcome expected = small.train(job, "whole", whole);
  // The rates are those of the rule on the rows of the epochs, and they fell.
  Plateau plateau(job);
  const std::vector<double> rates = rates_of(small, "whole");
  REQUIRE(rates.size() == whole.losses.size());
  size_t step = 0;
  for (const EpochResult& epoch : whole.results) {
    for (; step < epoch.step; ++step) {
      const double warm = std::min(1.0, static_cast<double>(step + 1) / 4);
      CHECK(rates[step] == Approx(plateau.learning_rate() * warm).epsilon(1e-6));
    }
    plateau.take(epoch);
  }
  REQUIRE(plateau.learning_rate() < 0.01 * 0.4 * 0.5);
  // The graph takes them: with a constant rate the weights are others.
  CHECK(small.hash(small.job(flattening({"lr_scheduler={name: constant, warmup_steps: 4}"})),
                   "constant") != expected.weights_sha256);
  CHECK(small.hash(small.job(flattening({"num_workers=3"})), "three", 2) ==
        expected.weights_sha256);
  CHECK(small.hash(small.job(flattening(
                       {"num_workers=2", "strategy={name: parameter_server, num_ps: 2}"})),
                   "servers", 2) == expected.weights_sha256);
  const size_t ends[] = {whole.results[2].step, whole.results[4].step};
  for (const size_t stop : {size_t{3}, ends[0] - 1, ends[0], ends[0] + 1, ends[1], ends[1] + 4}) {
    INFO("stopped after step " << stop);
    const std::string folder = cat("run-", stop);
    Silent first, second;
    small.train(job, folder, first, 1, false, [&] { return first.losses.size() >= stop; });
    const TrainOutcome rest =
        small.train(small.job(flattening({"num_workers=2"})), folder, second, 2, true);
    CHECK(rest.weights_sha256 == expected.weights_sha256);
    CHECK(log_of(small, folder) == log_of(small, "whole"));
  }
}

TEST_CASE("a plateau per validation cuts the rate between epochs, wherever it was interrupted",
          "[cluster]") {
  const SmallJob small(kTinyDense);
  const Job job = small.job(validating());
  CHECK(must(parse_job(print_job(job), small.path("job.yaml"))) == job);
  Silent whole;
  const TrainOutcome expected = small.train(job, "whole", whole);
  // The rates are those of the rule on the rows of the validations.
  const auto validations = must(read_validations(real_files(), small.path("whole/metrics.jsonl"),
                                                 std::numeric_limits<int64_t>::max()));
  REQUIRE(validations.size() > whole.results.size() * 3);
  Plateau plateau(job);
  const std::vector<double> rates = rates_of(small, "whole");
  size_t step = 0;
  std::vector<uint64_t> cuts;
  for (const EpochResult& each : validations) {
    for (; step < each.step; ++step)
      CHECK(rates[step] == Approx(plateau.learning_rate()).epsilon(1e-6));
    if (plateau.take(each)) cuts.push_back(each.step);
  }
  REQUIRE(cuts.size() >= 2);
  const bool between = std::any_of(cuts.begin(), cuts.end(), [&](uint64_t cut) {
    return std::none_of(whole.results.begin(), whole.results.end(),
                        [&](const EpochResult& epoch) { return epoch.step == cut; });
  });
  CHECK(between);
  CHECK(small.hash(small.job(validating({"num_workers=3"})), "three", 2) ==
        expected.weights_sha256);
  for (const size_t stop : {cuts[0] - 1, cuts[0], cuts[0] + 1, cuts[1], cuts[1] + 2}) {
    INFO("stopped after step " << stop);
    const std::string folder = cat("run-", stop);
    Silent first, second;
    small.train(job, folder, first, 1, false, [&] { return first.losses.size() >= stop; });
    const TrainOutcome rest =
        small.train(small.job(validating({"num_workers=2"})), folder, second, 2, true);
    CHECK(rest.weights_sha256 == expected.weights_sha256);
    CHECK(log_of(small, folder) == log_of(small, "whole"));
  }
}

TEST_CASE("a plateau needs a number of the epochs, and workers that step together") {
  const SmallJob small(kTinyDense);
  const auto error_of = [&](const std::vector<std::string>& set) {
    JobOverrides overrides;
    overrides.set = set;
    const auto job = parse_job(print_job(small.job()), "job.yaml", overrides);
    return std::string(job.status().message());
  };
  CHECK_THAT(error_of({"lr_scheduler={name: plateau}"}),
             Catch::Contains("lr_scheduler.monitor: missing"));
  CHECK_THAT(error_of({"lr_scheduler={name: plateau, monitor: val_f1}"}),
             Catch::Contains("monitor: expected"));
  CHECK_THAT(error_of({"lr_scheduler={name: cosine, monitor: val_loss}"}),
             Catch::Contains("monitor: unknown key"));
  CHECK_THAT(error_of({"lr_scheduler={name: plateau, monitor: val_loss}", "shards=1",
                       "strategy={name: parameter_server, mode: async}"}),
             Catch::Contains("lr_scheduler: expected a strategy whose workers do each step"));
  CHECK_THAT(error_of({"lr_scheduler={name: plateau, monitor: val_loss, per: validation}"}),
             Catch::Contains("per: validation: expected data.validation and "
                             "validation.every_steps, received none"));
  CHECK_THAT(error_of({"lr_scheduler={name: plateau, monitor: loss, per: validation}",
                       "validation={every_steps: 3}"}),
             Catch::Contains("expected a monitor of the validation, such as val_loss, received "
                             "loss"));
  CHECK_THAT(error_of({"lr_scheduler={name: plateau, monitor: val_loss, per: step}"}),
             Catch::Contains("per: expected one of epoch, validation, received the string 'step'"));
  CHECK_THAT(error_of({"lr_scheduler={name: cosine, per: validation}"}),
             Catch::Contains("per: expected one of step, epoch, received"));
  const Job job = small.job({"lr_scheduler={name: plateau, monitor: val_accuracy}"});
  CHECK(job.plateau.rises);
}

TEST_CASE("a run goes on with a plateau that it did not have, and without one") {
  const SmallJob small(kTinyDense);
  Silent first, second, third;
  const auto constant = [](int64_t epochs) {
    return flattening({"lr_scheduler={name: constant}", cat("epochs=", epochs)});
  };
  small.train(small.job(constant(2)), "run", first);
  small.train(small.job(flattening({"epochs=6"})), "run", second, 1, true);
  CHECK(second.results.size() == 4);
  // The epochs before count, too.
  Plateau plateau(small.job(flattening()));
  for (const EpochResult& epoch : first.results) plateau.take(epoch);
  const std::vector<double> rates = rates_of(small, "run");
  CHECK(rates.at(first.losses.size()) == Approx(plateau.learning_rate()).epsilon(1e-6));
  small.train(small.job(constant(7)), "run", third, 1, true);
  CHECK(rates_of(small, "run").back() == Approx(0.01).epsilon(1e-6));
}

}  // namespace
}  // namespace leat
