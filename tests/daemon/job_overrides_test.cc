// Tests how the options of a command line change a job file.
#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_text.h"

namespace leat {
namespace {

TEST_CASE("an override replaces a value, makes a key, or removes one") {
  JobOverrides overrides;
  overrides.set = {"seed=7",
                   "optimizer={name: adam, learning_rate: 1e-3}",
                   "precision=float64",
                   "data.validation=null",
                   "data.root=/elsewhere",
                   "checkpoint.path=../ckpt"};
  const auto job = parse_job(kGoodJob, kJobPath, overrides);
  REQUIRE(job.status().message() == "");
  CHECK(job->seed == 7);
  CHECK(job->optimizer.name == "adam");
  CHECK(job->precision == DType::f64);
  CHECK_FALSE(job->data.validation.has_value());
  CHECK(job->data.root == "/elsewhere");
  CHECK(job->checkpoint.path == "/ckpt");
}

TEST_CASE("an override of steps replaces epochs, and the other way round") {
  const auto steps =
      parse_job(kGoodJob, kJobPath, {.set = {"steps=50"}, .num_workers = {}, .seed = {}});
  REQUIRE(steps.status().message() == "");
  CHECK(steps->steps == 50);
  CHECK(steps->epochs == 0);
  const auto epochs = parse_job(job_with_line(14, "steps: 9"), kJobPath,
                                {.set = {"epochs=2"}, .num_workers = {}, .seed = {}});
  REQUIRE(epochs.status().message() == "");
  CHECK(epochs->steps == 0);
  CHECK(epochs->epochs == 2);
}

TEST_CASE("an error in an override says the override") {
  CHECK(job_error_with("epochs=five") ==
        "--set epochs=five: epochs: expected an integer from 1 to 1000000, received the string "
        "'five'");
  CHECK(job_error_with("optimizer.lr=1") ==
        "--set optimizer.lr=1: optimizer.lr: unknown key; the keys here are name, learning_rate, "
        "momentum, nesterov, weight_decay, lazy, clip_norm, clip_value, ema, sam, accumulate, "
        "groups, layer_decay");
  CHECK(job_error_with("epochs") == "--set epochs: expected path.to.key=value, received no '='");
  CHECK(job_error_with("=5") ==
        "--set =5: expected a key such as optimizer.learning_rate before '='");
  CHECK(job_error_with("data..root=5") ==
        "--set data..root=5: expected a key such as optimizer.learning_rate before '='");
  CHECK(job_error_with("seed.x=5") ==
        "--set seed.x=5: expected seed to be a map, but it is the integer 11");
  CHECK(job_error_with("metrics=[accuracy, acc]") ==
        cat("--set metrics=[accuracy, acc]: metrics[1]: expected one of ", kMetricNames,
            ", received the string 'acc' (did you mean 'auc'?)"));
  CHECK_THAT(job_error_with("metrics=[accuracy"),
             Catch::StartsWith("--set metrics=[accuracy: not valid YAML: "));
}

TEST_CASE("--workers changes the workers and never the shards") {
  const std::string without_shards = job_with_line(16, "");
  JobOverrides overrides;
  overrides.num_workers = 1;
  overrides.seed = 3;
  const auto job = parse_job(without_shards, kJobPath, overrides);
  REQUIRE(job.status().message() == "");
  CHECK(job->num_workers == 1);
  CHECK(job->shards == 2);
  CHECK(job->seed == 3);
  overrides.num_workers = 3;
  CHECK(job_error(without_shards, overrides) ==
        "--workers 3: num_workers: expected at most 2, the shards of the job, received 3; change "
        "num_workers, or shards, which is num_workers of the file (which changes the weights)");
  overrides.num_workers = 0;
  CHECK(job_error(kGoodJob, overrides) ==
        "--workers 0: num_workers: expected an integer from 1 to 4096, received the integer 0");
}

TEST_CASE("an elastic job has its most workers as shards, unless it says other") {
  const std::string elastic = job_with_line(18, "num_workers: [1, 2]");
  CHECK(parse_job(elastic, kJobPath)->shards == 4);
  std::string without_shards = elastic;
  without_shards.erase(without_shards.find("shards: 4\n"), 10);
  const auto job = parse_job(without_shards, kJobPath);
  REQUIRE(job.status().message() == "");
  CHECK(job->min_workers == 1);
  CHECK(job->num_workers == 2);
  CHECK(job->shards == 2);
  JobOverrides overrides;
  overrides.num_workers = 1;
  CHECK(parse_job(without_shards, kJobPath, overrides)->min_workers == 0);
  CHECK(parse_job(without_shards, kJobPath, overrides)->shards == 2);
  overrides.min_workers = 1;
  overrides.num_workers = 3;
  CHECK(job_error(without_shards, overrides) ==
        "--workers 1:3: num_workers: expected at most 2, the shards of the job, received 3; change "
        "num_workers, or shards, which is num_workers of the file (which changes the weights)");
  CHECK(job_error_with("strategy=single") == "(no error)");
  overrides = {};
  overrides.set = {"strategy=single"};
  CHECK(job_error(elastic, overrides) ==
        kJobPath +
            ":18:14: num_workers: expected one number with strategy single, of which each "
            "worker may hold what no other does, received [1, 2]; change num_workers, or write "
            "strategy: mirrored");
}

}  // namespace
}  // namespace leat
