// Resumes a run of an .onnx model that an older version began. It trained every initializer of
// floats, and initializers that the exporter had merged stayed merged. old_run/run was interrupted
// after 12 of 24 steps; old_run/weights.safetensors has the weights of that version's uninterrupted
// training. The model has a buffer 'pos', a constant 'val_3' that its exporter computed, and a
// parameter 'w2' that the exporter merged into 'w'.
#include <cmath>
#include <filesystem>

#include "daemon/training/predictor.h"
#include "daemon/training/run_folder.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

const fs::path kOldRun = fs::path(LEAT_SOURCE_DIR) / "tests/daemon/old_run";

std::vector<std::string> names_of(const SafeTensors& weights) {
  std::vector<std::string> names;
  for (const auto& [name, value] : weights.tensors) names.push_back(name);
  return names;
}

// Processors differ in the last bits.
bool are_near(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (std::abs(a.data<float>()[i] - b.data<float>()[i]) > 1e-4f) return false;
  }
  return true;
}

TrainOutcome train_on(const std::string& folder, const std::string& steps) {
  const Catalogue catalogue = standard_catalogue();
  JobOverrides overrides;
  overrides.set = {"data.root=" + kOldRun.string(), "steps=" + steps};
  TrainOptions options;
  options.folder = folder;
  options.resume = true;
  options.threads = 1;
  const auto trainer = must(Trainer::create(
      catalogue, real_files(), must(load_run_job(real_files(), folder, overrides)), options));
  Silent watch;
  return must(trainer->run(watch, [] { return false; }));
}

TEST_CASE("a run that trained every initializer goes on so", "[onnx]") {
  const TemporaryDirectory directory;
  const std::string folder = directory / "run";
  fs::copy(kOldRun / "run", folder, fs::copy_options::recursive);
  const SafeTensors whole = must(read_safetensors(real_files(), kOldRun / "weights.safetensors"));
  REQUIRE(names_of(whole) == std::vector<std::string>{"b", "pos", "val_3", "w"});

  CHECK(train_on(folder, "18").steps == 18);
  CHECK(train_on(folder, "24").steps == 24);  // from a checkpoint of this version
  const SafeTensors weights = must(read_safetensors(real_files(), folder + "/weights.safetensors"));
  REQUIRE(names_of(weights) == names_of(whole));
  for (const auto& [name, value] : weights.tensors) {
    CAPTURE(name);
    CHECK(are_near(value, whole.tensors.at(name)));
  }

  const Tensor rows = must(read_npy(real_files(), kOldRun / "x.npy"));
  CHECK(must(predict(standard_catalogue(), real_files(), folder, {{"", rows}})).shape() ==
        Shape{48, 4});
}

TEST_CASE("a run that begins now trains the parameters alone", "[onnx]") {
  const TemporaryDirectory directory;
  const std::string folder = directory / "run";
  fs::copy(kOldRun / "run", folder, fs::copy_options::recursive);
  fs::remove_all(folder + "/checkpoints");
  const Catalogue catalogue = standard_catalogue();
  JobOverrides overrides;
  overrides.set = {"data.root=" + kOldRun.string()};
  const Job job = must(load_run_job(real_files(), folder, overrides));
  TrainOptions options;
  options.folder = directory / "anew";
  options.threads = 1;
  Silent watch;
  must(must(Trainer::create(catalogue, real_files(), job, options))->run(watch, [] {
    return false;
  }));
  const std::string file = options.folder + "/weights.safetensors";
  const SafeTensors begun = must(read_safetensors(real_files(), file));
  CHECK(names_of(begun) == std::vector<std::string>{"b", "pos", "val_3", "w", "w2"});
  options.resume = true;
  must(must(Trainer::create(catalogue, real_files(), job, options))->run(watch, [] {
    return false;
  }));
  CHECK(names_of(must(read_safetensors(real_files(), file))) == names_of(begun));
}

}  // namespace
}  // namespace leat
