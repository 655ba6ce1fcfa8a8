// Every job file that is shipped, and the one in the documentation, must be a valid job.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon/spec/job.h"
#include "tests/catch.h"

namespace leat {
namespace {

const std::filesystem::path kSource = LEAT_SOURCE_DIR;

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.is_open());
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("every shipped job is a job whose graph file is there") {
  int jobs = 0;
  for (const auto& file : std::filesystem::directory_iterator(kSource / "configs/jobs")) {
    INFO(file.path().string());
    const auto job = load_job(file.path().string());
    REQUIRE(job.status().message() == "");
    CHECK(std::filesystem::is_regular_file(job->model.graph));
    CHECK(job->shards == 4);
    ++jobs;
  }
  CHECK(jobs >= 3);
}

TEST_CASE("the job in the documentation is the shipped one, and every key is explained") {
  const std::string page = contents(kSource / "docs/job.md");
  const size_t begin = page.find("```yaml\n") + 8;
  const std::string example = page.substr(begin, page.find("```", begin) - begin);
  const std::string shipped = (kSource / "configs/jobs/fashion_mnist_cnn.yaml").string();
  const auto documented = parse_job(example, shipped);
  REQUIRE(documented.status().message() == "");
  const auto real = load_job(shipped);
  REQUIRE(real.ok());
  CHECK(*documented == *real);
  for (const char* key : {"version",       "name",         "model.graph",    "model.weights",
                          "model.freeze",  "data.root",    "data.train",     "data.validation",
                          "data.rescale",  "data.shuffle", "format",         "features",
                          "labels",        "loss",         "metrics",        "optimizer",
                          "learning_rate", "weight_decay", "momentum",       "nesterov",
                          "beta_1",        "beta_2",       "epsilon",        "lazy",
                          "lr_scheduler",  "warmup_steps", "decay_steps",    "alpha",
                          "step_size",     "gamma",        "decay_rate",     "global_batch_size",
                          "epochs",        "steps",        "seed",           "shards",
                          "strategy",      "mode",         "num_ps",         "num_workers",
                          "checkpoint",    "every_steps",  "keep",           "path",
                          "precision",     "compute",      "loss_scale",     "on_nan",
                          "export",        "model.train",  "rename",         "strict",
                          "validation",    "rows",         "steps_per_epoch"}) {
    CHECK_THAT(page, Catch::Contains("`" + std::string(key) + "`"));
  }
  CHECK_THAT(page, Catch::Contains("`data.transforms`"));
  for (const char* key :
       {"clip_value",   "clip_norm",  "ema",      "sam",         "accumulate", "groups",
        "match",        "lr_scale",   "freeze",   "layer_decay", "milestones", "on_bad_record",
        "columns",      "categories", "from",     "field",       "bytes",      "fill",
        "delimiter",    "missing",    "names",    "header",      "table",      "distribution",
        "image_folder", "webdataset", "tfrecord", "size",        "channels",   "resize",
        "crop",         "short_side", "padding",  "scale",       "ratio",      "flip",
        "draw"}) {
    CHECK_THAT(page, Catch::Contains("`" + std::string(key) + "`"));
  }
}

TEST_CASE("the page about jobs has every optimizer and schedule with its keys") {
  const std::string page = contents(kSource / "docs/job.md");
  const auto has = [&](std::string_view name) {
    CHECK_THAT(page, Catch::Contains("`" + std::string(name) + "`"));
  };
  for (const Optimizer& optimizer : all_optimizers()) has(optimizer.name);
  for (const Setting& setting : all_optimizer_settings()) has(setting.name);
  for (const Schedule& schedule : all_schedules()) has(schedule.name);
  for (const Setting& setting : all_schedule_settings()) has(setting.name);
}

TEST_CASE("every loss and every metric is explained with its settings") {
  const std::string page = contents(kSource / "docs/job.md");
  const auto check = [&](std::string_view name, std::span<const Setting> settings) {
    INFO(name);
    CHECK(page.find("`" + std::string(name) + "`") != std::string::npos);
    for (const Setting& each : settings) CHECK_THAT(page, Catch::Contains(std::string(each.name)));
  };
  for (const LossRecipe& each : all_losses()) {
    if (each.has_name) check(each.name, each.settings);
  }
  for (const MetricRecipe& each : all_metrics()) check(each.name, each.settings);
  for (const char* key : {"early_stopping", "monitor", "mode", "patience", "min_delta", "best"})
    check(key, {});
}

}  // namespace
}  // namespace leat
