// Trainings whose steps compute in 16 bits: equal weights on any workers and threads, also after a
// stop, and a loss scale that follows the rule of torch.amp.GradScaler.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "daemon/training/predictor.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/metrics_text.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

constexpr const char* kNormed = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
normed (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (a1)
  f = Flatten (p1)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 4> (d)
}
)";
// The scale overflows float16 soon, and grows again soon.
constexpr const char* kFloat16 =
    "precision={compute: float16, loss_scale: {initial: 16777216, growth_interval: 3}}";

std::vector<nlohmann::json> rows_of(const SmallJob& small, const std::string& folder) {
  std::vector<nlohmann::json> rows;
  std::ifstream in(small.path(folder + "/metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    auto row = nlohmann::json::parse(line);
    if (!row.contains("epoch")) rows.push_back(std::move(row));
  }
  return rows;
}

std::string rows_of_metrics(const SmallJob& small, const std::string& folder) {
  std::ifstream in(small.path(folder + "/metrics.jsonl"), std::ios::binary);
  return without_timing(std::string(std::istreambuf_iterator<char>(in), {}));
}

Variables checkpoint_of(const SmallJob& small, const std::string& folder, int64_t step) {
  const std::string path = small.path(cat(folder, "/checkpoints/", checkpoint_name(step)));
  return must(read_checkpoint(real_files(), path)).variables;
}

// update() of torch.amp.GradScaler, whose growth factor is 2 and whose backoff factor is 0.5.
struct GradScaler {
  double scale;
  int64_t growth_interval;
  int64_t tracker = 0;
  void update(bool found_inf) {
    if (found_inf) {
      scale *= 0.5;
      tracker = 0;
    } else if (++tracker == growth_interval) {
      scale *= 2;
      tracker = 0;
    }
  }
};

TEST_CASE("the reference of loss scales gives the sequence of PyTorch") {
  // torch 2.13, GradScaler("cpu", init_scale=2**24, growth_interval=3), with an infinite gradient
  // where there is a 1.
  const std::string infinite = "1100010000001001000";
  const std::vector<int> log2 = {24, 23, 22, 22, 22, 23, 22, 22, 22, 23,
                                 23, 23, 24, 23, 23, 23, 22, 22, 22};
  GradScaler scaler{16777216, 3};
  for (size_t i = 0; i < log2.size(); ++i) {
    INFO(i);
    CHECK(scaler.scale == std::ldexp(1, log2[i]));
    scaler.update(infinite[i] == '1');
  }
}

TEST_CASE("a step in 16 bits gives the same weights on any workers and threads", "[cluster]") {
  const std::string precision = GENERATE(as<std::string>{}, "precision=bfloat16", kFloat16);
  INFO(precision);
  const SmallJob small(kNormed);
  const std::string adam = "optimizer={name: adam, learning_rate: 0.01}";
  Silent watch;
  const TrainOutcome one = small.train(small.job({precision, adam}), "one", watch);
  CHECK(one.weights_sha256 != small.hash(small.job({adam}), "float32"));
  const std::string servers = "strategy={name: parameter_server, num_ps: 2}";
  for (const auto& [workers, threads, strategy] :
       std::vector<std::tuple<int, int, std::string>>{{1, 3, "strategy=mirrored"},
                                                      {2, 1, "strategy=mirrored"},
                                                      {3, 2, "strategy=mirrored"},
                                                      {4, 1, "strategy=mirrored"},
                                                      {2, 2, servers},
                                                      {4, 1, servers}}) {
    INFO(workers << " workers, " << threads << " threads, " << strategy);
    const std::string folder = cat("run-", workers, threads, strategy.size());
    Silent other;
    const Job job = small.job({precision, adam, strategy, cat("num_workers=", workers)});
    const TrainOutcome outcome = small.train(job, folder, other, threads);
    CHECK(outcome.weights_sha256 == one.weights_sha256);
    CHECK(outcome.validation->loss == one.validation->loss);
    CHECK(rows_of_metrics(small, folder) == rows_of_metrics(small, "one"));
  }
}

TEST_CASE("a training in 16 bits that was stopped ends with the same weights and scales") {
  const std::string precision = GENERATE(as<std::string>{}, "precision=bfloat16", kFloat16);
  INFO(precision);
  const SmallJob small(kNormed);
  const std::string whole = small.hash(small.job({precision}), "whole");
  for (const int64_t stop : {2, 13, 21}) {
    INFO("stopped after step " << stop);
    const std::string folder = cat("stopped-", stop);
    Silent first, second;
    const Job before = small.job({precision, "num_workers=2"});
    small.train(before, folder, first, 1, false,
                [&] { return static_cast<int64_t>(first.losses.size()) >= stop; });
    const TrainOutcome outcome =
        small.train(small.job({precision, "num_workers=3"}), folder, second, 1, true);
    CHECK(second.first >= stop);
    CHECK(outcome.weights_sha256 == whole);
    CHECK(rows_of_metrics(small, folder) == rows_of_metrics(small, "whole"));
  }
}

TEST_CASE("a training in 16 bits ends with the same weights though a runner is killed",
          "[cluster]") {
  const SmallJob small(kNormed);
  ProcessCluster cluster(
      {.workers = 2, .data_path = small.path(), .master = {"--set", "chaos=true"}});
  for (const std::string precision : {"precision=bfloat16", kFloat16}) {
    INFO(precision);
    Job job = small.job({precision, "num_workers=2"});
    const std::string expected = small.hash(job, precision.substr(0, 14));
    job.data.root = "data";
    std::ofstream(small.path("job.yaml")) << print_job(job);
    const auto view = nlohmann::json::parse(
        cluster.run_with_fault(small.path("job.yaml"), "kill=runner:1@step=15"));
    CHECK(view["weights_sha256"] == expected);
    CHECK(view["precision"] == precision_name(job.precision));
    CHECK(view["history"].size() == 1);
  }
}

TEST_CASE("the loss scale changes as GradScaler's does, and a skipped step writes nothing else") {
  const SmallJob small(kNormed);
  const Job job = small.job({kFloat16, "checkpoint={every_steps: 1, keep: 40}"});
  Silent watch;
  const TrainOutcome outcome = small.train(job, "run", watch);
  GradScaler expected{16777216, 3};
  int64_t skipped = 0, grown = 0;
  const auto rows = rows_of(small, "run");
  REQUIRE(rows.size() == 30);
  Variables before;
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO("step " << i + 1);
    REQUIRE(rows[i]["loss_scale"].get<double>() == expected.scale);
    const double scale = expected.scale;
    const bool skips = rows[i]["skipped"] == 1;
    expected.update(skips);
    skipped += skips;
    grown += expected.scale > scale;
    const Variables after = checkpoint_of(small, "run", static_cast<int64_t>(i + 1));
    const double exponent = after.at(std::string(kLossScaleExponent)).at(0);
    CHECK(std::ldexp(16777216, static_cast<int>(exponent)) == expected.scale);
    CHECK(after.at(std::string(kLossScaleGoodSteps)).at(0) ==
          static_cast<double>(expected.tracker));
    for (const auto& [name, value] : before) {
      INFO(name);
      if (skips && !name.starts_with("optimizer/loss_scale"))
        CHECK(value.identical(after.at(name)));
    }
    for (const auto& [name, value] : after) {
      INFO(name);
      CHECK(value.dtype() == DType::f32);
      for (int64_t e = 0; e < value.elements(); ++e) REQUIRE(std::isfinite(value.at(e)));
    }
    before = after;
  }
  CHECK(skipped >= 2);
  CHECK(grown >= 2);
  CHECK(outcome.skipped_steps == skipped);
}

TEST_CASE("a fixed loss scale is divided out of the gradients again") {
  const SmallJob small(kTinyDense);
  Silent one, scaled;
  const TrainOutcome a =
      small.train(small.job({"precision={compute: float16, loss_scale: 256}"}), "a", one);
  const TrainOutcome b =
      small.train(small.job({"precision={compute: float16, loss_scale: 512}"}), "b", scaled);
  REQUIRE(one.losses.size() == scaled.losses.size());
  CHECK(one.losses.front() == scaled.losses.front());
  CHECK(std::abs(one.losses.back() - scaled.losses.back()) < 1e-3);
  CHECK(a.skipped_steps == 0);
  CHECK(b.skipped_steps == 0);
  CHECK_FALSE(rows_of(small, "a")[0].contains("loss_scale"));
}

TEST_CASE("a training in 16 bits comes as far as one in float32") {
  const SmallJob small(kTinyCnn);
  Silent watch;
  const TrainOutcome wide = small.train(small.job({"steps=60"}), "wide", watch);
  for (const char* precision : {"precision=bfloat16", "precision=float16"}) {
    INFO(precision);
    const TrainOutcome narrow = small.train(small.job({"steps=60", precision}), precision, watch);
    CHECK(*narrow.validation->accuracy >= *wide.validation->accuracy - 0.05);
  }
}

TEST_CASE("weights, statistics and the optimizer's state of a job in 16 bits are float32") {
  const SmallJob small(kNormed);
  Silent watch;
  small.train(small.job({"precision=bf16"}), "run", watch);
  const SafeTensors weights =
      must(read_safetensors(real_files(), small.path("run/weights.safetensors")));
  CHECK(weights.tensors.size() >= 6);
  for (const auto& [name, value] : weights.tensors) CHECK(value.dtype() == DType::f32);
  for (const auto& [name, value] : checkpoint_of(small, "run", 30))
    CHECK(value.dtype() == DType::f32);
}

TEST_CASE("a run goes on in another precision from its float32 weights") {
  const SmallJob small(kNormed);
  Silent first, second;
  small.train(small.job({"steps=10"}), "run", first);
  small.train(small.job({"steps=20", "precision=fp16"}), "run", second, 1, true);
  CHECK(second.first == 10);
  // The state of the loss scale is left behind.
  const TrainOutcome rest = small.train(small.job({"precision=bf16"}), "run", second, 1, true);
  CHECK(second.first == 20);
  CHECK(rest.steps == 30);
  CHECK_FALSE(checkpoint_of(small, "run", 30).contains(std::string(kLossScaleExponent)));
}

TEST_CASE("a prediction computes in the precision of its job") {
  const SmallJob small(kTinyDense);
  const Catalogue catalogue = standard_catalogue();
  const Tensor rows = must(read_npy(real_files(), small.path("val-x.npy")));
  const auto predicted = [&](const std::string& precision) {
    Silent watch;
    // One step whose rate is 0 in effect: all precisions have the same weights.
    const Job job = small.job(
        {"steps=1", "lr_scheduler=null", "optimizer={name: sgd, learning_rate: 1e-30}", precision});
    small.train(job, precision, watch);
    return must(predict(catalogue, real_files(), small.path(precision), {{"", rows}}));
  };
  const Tensor wide = predicted("precision=float32");
  const Tensor narrow = predicted("precision=bfloat16");
  CHECK(narrow.dtype() == DType::f32);
  REQUIRE(narrow.shape() == wide.shape());
  bool equal = true;
  for (int64_t i = 0; i < wide.elements(); ++i) {
    CHECK(std::abs(wide.at(i) - narrow.at(i)) < 0.05);
    equal = equal && wide.at(i) == narrow.at(i);
    // The last op rounded to bfloat16, the upper half of a float.
    CHECK(to_float(to_bfloat16(static_cast<float>(narrow.at(i)))) ==
          static_cast<float>(narrow.at(i)));
  }
  CHECK_FALSE(equal);
}

TEST_CASE("a pattern of the precision that names nothing ends the job at its start") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"precision={compute: bf16, float32: [Sofmax]}"});
  const auto trainer = must(small.trainer(job, {small.path("run")}));
  Silent watch;
  CHECK_THAT(trainer->run(watch, [] { return false; }).status().message(),
             Catch::Contains("received 'Sofmax', which matches none"));
}

TEST_CASE("the search for what is not finite goes through values of 16 bits") {
  // 10,000 times the product, which is above 6.5, is beyond float16.
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
large (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  ones = Constant <value = float[64,1] {)" +
                       [] {
                         std::string ones = "1";
                         for (int i = 1; i < 64; ++i) ones += ",1";
                         return ones;
                       }() +
                       R"(}> ()
  sum = MatMul (f, ones)
  many = Constant <value = float {10000}> ()
  [overflow] large = Mul (sum, many)
  logits = leat.Dense <units = 4> (large)
}
)");
  const auto trainer = must(small.trainer(small.job({"precision=float16"}), {small.path("run")}));
  Silent watch;
  CHECK_THAT(trainer->run(watch, [] { return false; }).status().message(),
             Catch::Contains("the first that is not finite is Mul 'overflow'"));
}

// Numbers that all three types hold exactly. The text form has the bits of 16-bit ones.
std::string model_in(const std::string& dtype) {
  std::string numbers;
  for (int i = 0; i < 256; ++i) {
    const float value = static_cast<float>(i * 37 % 41 - 20) / 64;
    numbers += i == 0 ? "" : ",";
    numbers += dtype == "float16"    ? cat(to_half(value).bits)
               : dtype == "bfloat16" ? cat(to_bfloat16(value).bits)
                                     : cat(value);
  }
  return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
half ()",
             dtype, R"([N,1,8,8] image) => ()", dtype, R"([N,4] logits) {
  first = Constant <value = )",
             dtype, "[64,4] {", numbers, R"(}> ()
  r = leat.Variable <name = "w", shape = [64,4], dtype = ")",
             dtype, R"("> ()
  = leat.Initialize (r, first)
  w = leat.Read (r)
  f = Flatten (image)
  logits = MatMul (f, w)
}
)");
}

TEST_CASE("a model whose weights are 16 bits trains as one of float32, or computes as it is") {
  const std::string dtype = GENERATE(as<std::string>{}, "bfloat16", "float16");
  INFO(dtype);
  const SmallJob narrow(model_in(dtype)), wide(model_in("float"));
  Silent watch, other;
  const TrainOutcome outcome = narrow.train(narrow.job(), "run", watch);
  CHECK(outcome.weights_sha256 == wide.hash(wide.job(), "run"));
  CHECK(watch.losses.back() < watch.losses.front());
  const std::string precision = "precision=" + dtype;
  CHECK(narrow.train(narrow.job({precision}), "mixed", other).weights_sha256 ==
        wide.hash(wide.job({precision}), "mixed"));
}

}  // namespace
}  // namespace leat
