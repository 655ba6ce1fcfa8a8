// Optimizers and schedules against PyTorch, whose results tests/peers/recipe_references.py has
// written into tests/daemon/recipes/; and the same bits wherever and however often they are
// computed.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "daemon/training/run_evaluator.h"
#include "daemon/training/run_weights.h"
#include "daemon/training/train_specs.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "scheduler/recipes/optimizer.h"
#include "tests/catch.h"
#include "tests/daemon/differences.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr int64_t kRecipeRows = 24, kFeatures = 5, kHidden = 6, kOutputs = 3;
constexpr const char* kNetwork = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
recipe (float[N,5] x) => (float[N,3] d2) {
  d1 = leat.Dense <units = 6, activation = "tanh"> (x)
  d2 = leat.Dense <units = 3> (d1)
}
)";

struct Reference {
  std::string name;
  std::vector<std::string> set;
  std::vector<double> numbers;
};

std::vector<Reference> references(const std::string& folder) {
  std::vector<Reference> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    Reference reference{entry.path().stem(), {}, {}};
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("set: ")) {
        reference.set.push_back(line.substr(5));
      } else {
        reference.numbers.push_back(std::stod(line));
      }
    }
    out.push_back(std::move(reference));
  }
  std::sort(out.begin(), out.end(),
            [](const Reference& a, const Reference& b) { return a.name < b.name; });
  return out;
}

const std::string kReferences = cat(LEAT_SOURCE_DIR, "/tests/daemon/recipes");

const Catalogue& recipe_catalogue() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

// The data, the network and its first weights, as the script has them.
class RecipeJob {
 public:
  RecipeJob() {
    std::ofstream(directory_ / "model.onnxtxt") << kNetwork;
    Tensor x(DType::f32, Shape{kRecipeRows, kFeatures}),
        y(DType::f32, Shape{kRecipeRows, kOutputs});
    for (int64_t i = 0; i < kRecipeRows; ++i) {
      for (int64_t j = 0; j < kFeatures; ++j)
        x.set(i * kFeatures + j, static_cast<double>((i * 7 + j * 13) % 32 - 16) / 16);
      for (int64_t j = 0; j < kOutputs; ++j)
        y.set(i * kOutputs + j, static_cast<double>((i * 5 + j * 11) % 16 - 8) / 8);
    }
    must(write_npy(real_files(), directory_ / "x.npy", x));
    must(write_npy(real_files(), directory_ / "y.npy", y));
    SafeTensors weights;
    int64_t k = 0;
    const std::pair<const char*, Shape> variables[] = {{"d1/kernel", Shape{kFeatures, kHidden}},
                                                       {"d1/bias", Shape{kHidden}},
                                                       {"d2/kernel", Shape{kHidden, kOutputs}},
                                                       {"d2/bias", Shape{kOutputs}}};
    for (const auto& [name, shape] : variables) {
      Tensor tensor(DType::f64, shape);
      for (int64_t i = 0; i < tensor.elements(); ++i, ++k)
        tensor.set(i, static_cast<double>((k * 37 + 11) % 64 - 32) / 64);
      weights.tensors.emplace(name, std::move(tensor));
    }
    must(write_safetensors(real_files(), directory_ / "first.safetensors", weights));
  }

  Result<Job> read(const std::vector<std::string>& set) const {
    const std::string text =
        cat("version: 1\nname: recipe\nmodel: {graph: model.onnxtxt, weights: first.safetensors}\n",
            "data:\n  root: ", directory_.path(),
            "\n  train: {format: npy, features: x.npy, labels: y.npy}\n"
            "  validation: {format: npy, features: x.npy, labels: y.npy}\n  shuffle: false\n"
            "loss: mse\noptimizer: {name: sgd, learning_rate: 0.1}\nglobal_batch_size: 12\n"
            "steps: 50\nseed: 3\nprecision: float64\n");
    JobOverrides overrides;
    overrides.set = set;
    return parse_job(text, directory_ / "job.yaml", overrides);
  }
  Job job(const std::vector<std::string>& set) const { return must(read(set)); }

  Result<TrainOutcome> try_train(const Job& job, const std::string& folder) const {
    Silent watch;
    LEAT_ASSIGN_OR_RETURN(const auto trainer, Trainer::create(recipe_catalogue(), real_files(), job,
                                                              {directory_ / folder}));
    return trainer->run(watch, [] { return false; });
  }
  TrainOutcome train(const Job& job, const std::string& folder, Silent& watch, bool resume = false,
                     size_t stop_at = 1000) const {
    TrainOptions options{directory_ / folder, resume, 1};
    options.skip_checkpoints = false;
    const auto trainer = must(Trainer::create(recipe_catalogue(), real_files(), job, options));
    return must(trainer->run(watch, [&] { return watch.losses.size() >= stop_at; }));
  }
  std::string hash(const Job& job, const std::string& folder) const {
    Silent watch;
    return train(job, folder, watch).weights_sha256;
  }

  // The weights that a training has left, one after the other as the script writes them.
  std::vector<double> weights(const std::string& folder,
                              const std::string& file = "weights.safetensors") const {
    const SafeTensors content =
        must(read_safetensors(real_files(), cat(directory_ / folder, "/", file)));
    std::vector<double> out;
    for (const char* name : {"d1/kernel", "d1/bias", "d2/kernel", "d2/bias"}) {
      const Tensor& tensor = content.tensors.at(name);
      for (int64_t i = 0; i < tensor.elements(); ++i) out.push_back(tensor.at(i));
    }
    return out;
  }

 private:
  TemporaryDirectory directory_;
};

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
  }
  return largest;
}

TEST_CASE("every optimizer gives PyTorch's weights after 50 steps", "[minutes]") {
  const RecipeJob recipe;
  std::set<std::string> seen;
  for (const Reference& reference : references(kReferences)) {
    INFO(reference.name);
    const Job job = recipe.job(reference.set);
    seen.insert(job.optimizer.name);
    Silent watch;
    recipe.train(job, reference.name, watch);
    const double difference = largest_difference(recipe.weights(reference.name), reference.numbers);
    note_difference("optimizer", reference.name, difference);
    CHECK(difference < 1e-9);
  }
  for (const Optimizer& optimizer : all_optimizers())
    CHECK(seen.contains(std::string(optimizer.name)));
}

TEST_CASE("every schedule gives PyTorch's rates") {
  const RecipeJob recipe;
  std::set<std::string> seen{"constant"};
  for (const Reference& reference : references(kReferences + "/schedules")) {
    INFO(reference.name);
    const Job job = recipe.job(reference.set);
    seen.insert(job.lr_scheduler.name);
    FoundDataset found;
    found.info.count = kRecipeRows;
    const TrainSpec spec = train_spec(job, found, static_cast<int64_t>(reference.numbers.size()));
    std::vector<double> rates;
    for (size_t step = 0; step < reference.numbers.size(); ++step)
      rates.push_back(learning_rate_at(spec, static_cast<int64_t>(step)));
    const double difference = largest_difference(rates, reference.numbers);
    note_difference("schedule", reference.name, difference);
    CHECK(difference < 1e-9);
  }
  // plateau_test.cc has those that look at epochs.
  for (const Schedule& schedule : all_schedules())
    CHECK((schedule.looks_at_epochs || seen.contains(std::string(schedule.name))));
}

// The reference's job in 9 steps of 3 shards.
Job short_job(const RecipeJob& recipe, const Reference& reference,
              const std::vector<std::string>& more) {
  std::vector<std::string> set = reference.set;
  set.insert(set.end(), {"shards=3", "steps=9", "checkpoint={every_steps: 4}"});
  set.insert(set.end(), more.begin(), more.end());
  return recipe.job(set);
}

TEST_CASE("every optimizer gives the same bits on one worker and on parameter servers",
          "[minutes]") {
  const RecipeJob recipe;
  for (const Reference& reference : references(kReferences)) {
    INFO(reference.name);
    const Job servers = short_job(
        recipe, reference, {"num_workers=3", "strategy={name: parameter_server, num_ps: 2}"});
    CHECK(recipe.hash(servers, reference.name + "-servers") ==
          recipe.hash(short_job(recipe, reference, {}), reference.name));
  }
}

// Each worker updates the variables by itself, which one op does as a whole and others do not.
TEST_CASE("with asynchronous workers each optimizer trains, or is refused when it is submitted",
          "[minutes]") {
  const RecipeJob recipe;
  const std::string async = "strategy={name: parameter_server, mode: async}";
  std::vector<Reference> cases = references(kReferences);
  for (const Optimizer& each : all_optimizers()) {
    const std::string name(each.name);
    cases.push_back(
        {"name-" + name, {cat("optimizer={name: ", name, ", learning_rate: 0.01}")}, {}});
  }
  for (const char* setting :
       {"weight_decay: 0.1", "clip_value: 0.5", "clip_norm: 0.5", "sam: 0.05", "ema: 0.9",
        "accumulate: 2", "groups: [{match: d1/*, lr_scale: 0.5}, {match: d2/bias, freeze: true}]",
        "layer_decay: {factor: 0.5, layers: [d1/*, d2/*]}"}) {
    for (const char* name : {"sgd", "adam", "adamw"}) {
      cases.push_back(
          {cat(name, "-", std::string_view(setting).substr(0, std::string_view(setting).find(':'))),
           {cat("optimizer={name: ", name, ", learning_rate: 0.01, ", setting, "}")},
           {}});
    }
  }
  int trained = 0, refused = 0;
  for (const Reference& each : cases) {
    INFO(each.name);
    std::vector<std::string> set = each.set;
    set.insert(set.end(), {async, "steps=7", "num_workers=1"});
    const Result<Job> one = recipe.read(set);
    if (!one.ok()) {
      CHECK_THAT(one.status().message(), Catch::Contains("mode async"));
      CHECK_THAT(one.status().message(), Catch::Contains("optimizer"));
      ++refused;
      continue;
    }
    ++trained;
    // One worker has the weights of synchronous steps, and two train as well.
    Job together = *one;
    together.strategy = "mirrored";
    together.parameter_server = {};
    CHECK(recipe.hash(*one, each.name + "-one") == recipe.hash(together, each.name + "-together"));
    Job two = *one;
    two.num_workers = 2;
    recipe.hash(two, each.name + "-two");
    const std::vector<double> weights = recipe.weights(each.name + "-two");
    CHECK(std::all_of(weights.begin(), weights.end(), [](double w) { return std::isfinite(w); }));
  }
  // sgd, adam and adamw, with all of their settings but an average of the weights.
  CHECK(trained >= 3 + 7 * 3);
  CHECK(refused >= static_cast<int>(all_optimizers().size()) - 3 + 3);
}

TEST_CASE("optimizers with every kind of state go on from a checkpoint on other workers",
          "[minutes]") {
  const RecipeJob recipe;
  const std::set<std::string> chosen = {"nadam", "lbfgs", "muon", "ema", "adafactor", "sam"};
  for (const Reference& reference : references(kReferences)) {
    if (!chosen.contains(reference.name)) continue;
    INFO(reference.name);
    const std::string whole =
        recipe.hash(short_job(recipe, reference, {"num_workers=3"}), reference.name);
    Silent first, second;
    const std::string folder = reference.name + "-parts";
    recipe.train(short_job(recipe, reference, {}), folder, first, false, 6);
    const TrainOutcome rest =
        recipe.train(short_job(recipe, reference, {"num_workers=2"}), folder, second, true);
    CHECK(second.first < 9);
    CHECK(rest.weights_sha256 == whole);
  }
}

TEST_CASE("the averaged weights are evaluated, and the others are beside them") {
  const RecipeJob recipe;
  const std::string adam = "optimizer={name: adam, learning_rate: 0.02}";
  Silent plain, averaged;
  recipe.train(recipe.job({adam}), "plain", plain);
  const TrainOutcome outcome =
      recipe.train(recipe.job({adam, "optimizer.ema=0.9"}), "averaged", averaged);
  CHECK(averaged.losses == plain.losses);
  CHECK(recipe.weights("averaged", "raw_weights.safetensors") == recipe.weights("plain"));
  // The file of the averages and a checkpoint, which has the weights beside them, are evaluated
  // alike.
  const Job job = recipe.job({adam, "optimizer.ema=0.9"});
  const std::string folder = job.data.root + "/averaged";
  const auto evaluator =
      must(RunEvaluator::create(recipe_catalogue(), real_files(), job, false, 1));
  const auto loss_of = [&](const RunWeights& weights) {
    return must(evaluator->evaluate(weights.values, 50, [] { return false; })).first.loss;
  };
  CHECK(loss_of(must(read_weights_of_file(real_files(), weights_path(folder)))) ==
        outcome.validation->loss);
  CHECK(loss_of(must(read_weights_of_checkpoint(
            real_files(), checkpoints_path(job, folder) + "/step-00000050"))) ==
        outcome.validation->loss);
}

TEST_CASE("parts of a step are shards of a worker") {
  const RecipeJob recipe;
  const Job parts = recipe.job({"optimizer.accumulate=3", "steps=10"});
  CHECK(parts.shards == 3);
  CHECK(recipe.hash(parts, "parts") == recipe.hash(recipe.job({"shards=3", "steps=10"}), "shards"));
  CHECK(recipe.job({"optimizer.accumulate=2", "num_workers=2"}).shards == 4);
}

TEST_CASE("a wrong setting of an optimizer or a schedule is refused") {
  const RecipeJob recipe;
  const auto error = [&](const std::string& set) {
    const std::string text = recipe.read({set}).status().message();
    return text.substr(text.find(": ") == text.npos ? 0 : text.find(": ") + 2);
  };
  const auto with = [&](const std::string& more) {
    return error("optimizer={name: lion, learning_rate: 0.1, " + more + "}");
  };
  CHECK_THAT(with("momentum: 0.9"), Catch::Contains("momentum: is not a key of lion"));
  CHECK_THAT(with("lazy: true"), Catch::Contains("lazy: expected sgd, adam or adamw"));
  CHECK_THAT(with("ema: 1"), Catch::Contains("ema: expected a number"));
  CHECK_THAT(with("clip_norm: 0"), Catch::Contains("clip_norm: expected a number greater than 0"));
  CHECK_THAT(with("groups: [{weight_decay: 0}]"), Catch::Contains("groups[0].match: missing"));
  CHECK_THAT(with("groups: [{match: b, rho: 0}]"), Catch::Contains("groups[0].rho: is not a key"));
  CHECK_THAT(with("groups: [{match: []}]"), Catch::Contains("at least one glob"));
  CHECK_THAT(with("groups: 3"), Catch::Contains("groups: expected a list of maps"));
  CHECK_THAT(with("layer_decay: {factor: 2, layers: [a]}"), Catch::Contains("layer_decay.factor"));
  CHECK_THAT(error("lr_scheduler={name: multi_step}"), Catch::Contains("milestones: missing"));
  CHECK_THAT(error("lr_scheduler={name: multi_step, milestones: [3, x]}"),
             Catch::Contains("milestones[1]: expected"));
  CHECK_THAT(error("lr_scheduler={name: cosine, milestones: [3]}"),
             Catch::Contains("milestones: is not a key of cosine"));
  CHECK_THAT(error("lr_scheduler={name: wsd}"), Catch::Contains("decay_steps: missing"));
  CHECK_THAT(error("lr_scheduler={name: step, step_size: 3, per: hour}"),
             Catch::Contains("per: expected one of step, epoch"));
  const auto together = [&](const std::vector<std::string>& set) {
    return recipe.read(set).status().message();
  };
  const std::string async = "strategy={name: parameter_server, mode: async}";
  CHECK_THAT(together({async, "optimizer.name=lion"}), Catch::Contains("mode async"));
  CHECK_THAT(together({async, "optimizer.ema=0.9"}), Catch::Contains("ema: expected a strategy"));
  CHECK_THAT(together({"strategy={name: parameter_server, total_num_replicas: 3, "
                       "replicas_to_aggregate: 2}",
                       "optimizer.sam=0.1"}),
             Catch::Contains("sam: expected a strategy"));
  CHECK_THAT(together({"shards=4", "optimizer.accumulate=2"}),
             Catch::Contains("accumulate: expected it without the key shards"));
}

TEST_CASE("a group that matches no variable is an error before the first step") {
  const RecipeJob recipe;
  const auto error = [&](const std::string& set) {
    const Result<TrainOutcome> outcome = recipe.try_train(recipe.job({set}), "groups");
    return outcome.status().message();
  };
  CHECK_THAT(error("optimizer.groups=[{match: d3/*}, {match: d1/*}]"),
             Catch::Contains("expected globs of variables of 'recipe', 'd3/*' match none"));
  CHECK_THAT(error("optimizer.groups=[{match: [d1/bais]}]"), Catch::Contains("d1/bias"));
  CHECK_THAT(error("optimizer.layer_decay={factor: 0.5, layers: [d1/*, head]}"),
             Catch::Contains("'head' matches none"));
}

TEST_CASE("a job with groups, bounds and milestones is printed as it is read") {
  const RecipeJob recipe;
  for (const Reference& reference : references(kReferences)) {
    INFO(reference.name);
    const Job job = recipe.job(reference.set);
    CHECK(must(parse_job(print_job(job), job.data.root + "/again.yaml")) == job);
  }
  for (const Reference& reference : references(kReferences + "/schedules")) {
    INFO(reference.name);
    const Job job = recipe.job(reference.set);
    CHECK(must(parse_job(print_job(job), job.data.root + "/again.yaml")) == job);
  }
}

}  // namespace
}  // namespace leat
