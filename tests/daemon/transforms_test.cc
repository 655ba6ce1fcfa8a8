// Jobs with transforms of their data: how a job file lists them, equal weights on any workers and
// threads, also after a stop or a kill, and predictions.
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/training/job_transforms.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

constexpr const char* kAugmented =
    "data.transforms=[{flip: {probability: 0.3}}, {random_crop: {padding: 1}}, "
    "{random_resized_crop: {size: 8, scale: [0.6, 1], mode: bicubic}}, "
    "{color_jitter: {brightness: 0.2, contrast: 0.2}}, {rand_augment: {magnitude: 3}}, "
    "{normalize: {mean: 0.3, std: 0.5}}, {random_erasing: 0.2}]";
constexpr const char* kOnlyNormalized = "data.transforms=[{normalize: {mean: 0.3, std: 0.5}}]";

std::string refusal_of_transform(const std::string& transforms) {
  const std::string text =
      cat("version: 1\nname: small\nmodel: {graph: model.onnxtxt}\ndata:\n  root: .\n"
          "  train: {format: npy, features: x.npy, labels: y.npy}\n  transforms:\n    - ",
          transforms,
          "\nloss: cross_entropy\noptimizer: {name: sgd, learning_rate: 0.1}\n"
          "global_batch_size: 8\nsteps: 1\n");
  return parse_job(text, "/job.yaml").status().message();
}

}  // namespace

TEST_CASE("transforms are printed with every argument, and read again") {
  const SmallJob small(kTinyDense);
  const Job job = small.job(
      {"data.transforms=[{flip: vertical, column: features}, {pad: [1, 2]}, {crop: 8}, "
       "{normalize: imagenet}, {resize: {size: [8, 9], mode: bicubic, antialias: false}}, "
       "{mixup: 0.2}, {one_hot: 4}, {cast: float32}]"});
  REQUIRE(job.data.transforms.size() == 8);
  CHECK(job.data.transforms[0].column == "features");
  CHECK(job.data.transforms[0].integer("axis") == 1);
  CHECK(job.data.transforms[0].number("probability") == 0.5);
  const std::string text = print_job(job);
  CHECK_THAT(text, Catch::Contains("    - {flip: {axis: vertical, probability: 0.5}, column: "
                                   "features}\n    - {pad: {padding: [1, 2], fill: 0, mode: "
                                   "constant}}\n"));
  CHECK_THAT(text, Catch::Contains("    - {mixup: {alpha: 0.2, probability: 1, classes: 0}}\n"));
  CHECK(must(parse_job(text, small.path("job.yaml"))) == job);
}

TEST_CASE("a transform that is not one is refused with its place") {
  CHECK(refusal_of_transform("{flop: 1}") ==
        "/job.yaml:8:14: data.transforms[0].flop: unknown transform (did you mean 'flip'?)");
  CHECK(refusal_of_transform("{flip: diagonal}") ==
        "/job.yaml:8:14: data.transforms[0].flip: expected one of horizontal, vertical, received "
        "the string 'diagonal'");
  CHECK(refusal_of_transform("{mixup: {probability: 0.5}}") ==
        "/job.yaml:8:15: data.transforms[0].mixup.alpha: missing; expected a number of at least "
        "0.001 and of at most 1000");
  CHECK(refusal_of_transform("{mixup: {alpha: 1, size: 3}}") ==
        "/job.yaml:8:26: data.transforms[0].mixup.size: unknown key; the keys here are alpha, "
        "probability, classes");
  CHECK(refusal_of_transform("{crop: 4.5}") ==
        "/job.yaml:8:14: data.transforms[0].crop: expected an integer of at least 1 and of at most "
        "65536, or a list of up to 2, received the number 4.5");
  CHECK(refusal_of_transform("{random_erasing: {scale: 0.5}}") ==
        "/job.yaml:8:32: data.transforms[0].random_erasing.scale: expected a list of 2, each a "
        "number greater than 0 and of at most 1, received the number 0.5");
  CHECK(refusal_of_transform("{crop: 4, flip: horizontal}") ==
        "/job.yaml:8:23: data.transforms[0].flip: expected one transform in each entry of the "
        "list");
  CHECK(refusal_of_transform("{column: x}") ==
        "/job.yaml:8:16: data.transforms[0].column: expected a transform "
        "beside it, received none");
  CHECK(refusal_of_transform("flip") ==
        "/job.yaml:8:7: data.transforms[0]: expected a map, received the string 'flip'");
}

TEST_CASE("a transform that does not fit the data ends a job before its first step") {
  const SmallJob small(kTinyDense);
  const auto failure = [&](const std::vector<std::string>& set) {
    TrainOptions options{small.path("refused"), false, 1};
    return small.trainer(small.job(set), options).status().message();
  };
  CHECK(failure({"data.transforms=[{crop: 9}]"}) ==
        "data.transforms[0]: crop: size: expected at most 8 by 8, the size of the images, received "
        "9 by 9");
  CHECK_THAT(failure({"data.transforms=[{crop: 6}]"}),
             Catch::Contains("expected records of the shape of a row of float[N,1,8,8]"));
}

TEST_CASE("a job with transforms has the same weights on any workers and threads") {
  const SmallJob small(kTinyCnn);
  Silent watch, plain;
  const TrainOutcome one = small.train(small.job({kAugmented}), "one", watch);
  CHECK(one.weights_sha256 != small.hash(small.job({kOnlyNormalized}), "plain"));
  for (const auto& [workers, threads, strategy] : std::vector<std::tuple<int, int, std::string>>{
           {1, 3, "strategy=mirrored"},
           {2, 1, "strategy=mirrored"},
           {3, 2, "strategy=mirrored"},
           {4, 4, "strategy=mirrored"},
           {2, 2, "strategy={name: parameter_server, num_ps: 1}"}}) {
    INFO(workers << " workers, " << threads << " threads, " << strategy);
    Silent other;
    const Job job = small.job({kAugmented, strategy, cat("num_workers=", workers)});
    const TrainOutcome outcome = small.train(job, cat("run-", workers, threads), other, threads);
    CHECK(outcome.weights_sha256 == one.weights_sha256);
    CHECK(outcome.validation->loss == one.validation->loss);
  }
}

TEST_CASE("mixed rows have shares of classes as labels, which the loss takes") {
  const SmallJob small(kTinyDense);
  const std::vector<std::string> mixed{"data.transforms=[{one_hot: 4}, {mixup: 0.4}]",
                                       "loss={name: cross_entropy, soft_labels: true}"};
  const std::string hash = small.hash(small.job(mixed), "one");
  std::vector<std::string> three = mixed;
  three.emplace_back("num_workers=3");
  CHECK(small.hash(small.job(three), "three", 2) == hash);
  CHECK(small.hash(small.job({}), "plain") != hash);
  const auto trainer =
      must(small.trainer(small.job({"data.transforms=[{mixup: 0.4}]"}), {small.path("refused")}));
  Silent watch;
  const auto refused = trainer->run(watch, [] { return false; });
  REQUIRE(!refused.ok());
  CHECK_THAT(refused.status().message(), Catch::Contains("soft_labels: true"));
}

TEST_CASE("a job with transforms that was stopped draws the same numbers again") {
  const SmallJob small(kTinyCnn);
  const std::string whole = small.hash(small.job({kAugmented}), "whole");
  for (const int64_t stop : {4, 17}) {
    INFO("stopped after step " << stop);
    const std::string folder = cat("stopped-", stop);
    Silent first, second;
    small.train(small.job({kAugmented, "num_workers=2"}), folder, first, 1, false,
                [&] { return static_cast<int64_t>(first.losses.size()) >= stop; });
    const TrainOutcome outcome =
        small.train(small.job({kAugmented, "num_workers=3"}), folder, second, 2, true);
    CHECK(second.first >= stop);
    CHECK(outcome.weights_sha256 == whole);
  }
}

TEST_CASE("a job with transforms has the same weights though a runner is killed", "[cluster]") {
  const SmallJob small(kTinyCnn);
  ProcessCluster cluster(
      {.workers = 2, .data_path = small.path(), .master = {"--set", "chaos=true"}});
  Job job = small.job({kAugmented, "num_workers=2"});
  const std::string expected = small.hash(job, "expected");
  job.data.root = "data";
  std::ofstream(small.path("job.yaml")) << print_job(job);
  const auto view = nlohmann::json::parse(
      cluster.run_with_fault(small.path("job.yaml"), "kill=runner:1@step=15"));
  CHECK(view["weights_sha256"] == expected);
  CHECK(view["history"].size() == 1);
}

TEST_CASE("random transforms leave the validation as it is") {
  // A rate that changes no weight: float32 rounds its updates away.
  const SmallJob small(kTinyDense);
  const std::string still = "optimizer={name: sgd, learning_rate: 1.0e-30}";
  Silent watch, other;
  const auto augmented = small.train(small.job({kAugmented, still}), "augmented", watch);
  const auto normalized = small.train(small.job({kOnlyNormalized, still}), "normalized", other);
  CHECK(augmented.validation->loss == normalized.validation->loss);
  CHECK(watch.losses != other.losses);
}

TEST_CASE("a prediction has no transform of labels, whatever their column is called") {
  Job job;
  job.loss.column = "depth";
  job.data.transforms = {{.name = "normalize", .column = "image", .arguments = {}},
                         {.name = "normalize", .column = "depth", .arguments = {}}};
  job.model.inputs = {{"x", "image"}};
  const auto kept = transforms_of_columns(job, {});
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].column == "");
  // Without names, the only input may read the column of the labels itself.
  job.model.inputs.clear();
  CHECK(transforms_of_columns(job, {}).size() == 2);
}

TEST_CASE("predictions and evaluations have the transforms that draw nothing") {
  // The crop takes the middle of padded images, and so gives back the images.
  const SmallJob small(kTinyDense);
  const std::string still = "optimizer={name: sgd, learning_rate: 1.0e-9}";
  const Job job = small.job(
      {"data.transforms=[{flip: horizontal, column: features}, {pad: 3, column: features}, {crop: "
       "8}, {normalize: {mean: 0.3, std: 0.5}}, {one_hot: 4}]",
       "loss=mse", "metrics=[]", still});
  Silent watch;
  const TrainOutcome outcome = small.train(job, "run", watch);
  const Job plain = small.job({"loss=mse", "metrics=[]", "data.rescale=1", still,
                               "data.transforms=[{one_hot: {classes: 4}, column: labels}]"});
  small.train(plain, "plain", watch);
  std::filesystem::copy_file(small.path("run/weights.safetensors"),
                             small.path("plain/weights.safetensors"),
                             std::filesystem::copy_options::overwrite_existing);
  Tensor bytes(DType::u8, {300, 1, 8, 8}), floats(DType::f32, {300, 1, 8, 8});
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    bytes.set(i, static_cast<double>(i * 7 % 256));
    const float x = static_cast<float>(i * 7 % 256) * 0.00392156862745098f;
    floats.data<float>()[i] = (x - 0.3f) / 0.5f;
  }
  must(write_npy(real_files(), small.path("bytes.npy"), bytes));
  must(write_npy(real_files(), small.path("floats.npy"), floats));
  const auto predicted = [&](const std::string& run, const std::string& input) {
    const Finished done =
        run_leat(small.path(), {"predict", run, "--input", input, "-o", run + ".npy"});
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    return must(read_npy(real_files(), small.path(run + ".npy")));
  };
  CHECK(predicted("run", "bytes.npy").identical(predicted("plain", "image=floats.npy")));
  CHECK(predicted("run", "image=bytes.npy").identical(predicted("plain", "floats.npy")));
  const Finished evaluated = run_leat(small.path(), {"evaluate", "run", "--json"});
  INFO(evaluated.out << evaluated.err);
  CHECK(evaluated.exit_code == 0);
  CHECK_THAT(evaluated.out, Catch::Contains(shortest(outcome.validation->loss)));
}

}  // namespace leat
