// The gradients of single steps of a run, computed again from its checkpoints.
#include "daemon/training/step_gradients.h"

#include <cmath>
#include <fstream>

#include "daemon/checkpoint/checkpoint_store.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

// A run with a checkpoint after each of its steps.
class SteppedRun {
 public:
  explicit SteppedRun(std::vector<std::string> set, int workers = 1) : small(kTinyCnn) {
    set.insert(set.end(),
               {"steps=5", "data.validation=", "metrics=[]", "lr_scheduler={name: constant}",
                cat("num_workers=", workers), "checkpoint={every_steps: 1, keep: 9}"});
    job = small.job(set);
    Silent watch;
    small.train(job, "run", watch, workers);
  }
  Checkpoint after(int64_t step) const {
    return must(
        read_checkpoint(real_files(), cat(small.path("run/checkpoints/"), checkpoint_name(step))));
  }
  SmallJob small;
  Job job;
};

TEST_CASE("the gradients of a step are those by which the run came to the next checkpoint") {
  const Catalogue catalogue = standard_catalogue();
  const SteppedRun run({"optimizer={name: sgd, learning_rate: 0.125, momentum: 0}"}, 2);
  const auto steps = must(StepGradients::create(catalogue, real_files(), run.job, false, 2));
  // In any order.
  for (const int64_t step : {3, 1, 4, 2}) {
    INFO(step);
    const Checkpoint before = run.after(step);
    const Variables gradients = must(steps->compute(before.variables, step));
    if (step == 4) continue;  // the row of the next checkpoint is that of the end
    const Checkpoint next = run.after(step + 1);
    size_t compared = 0;
    for (const auto& [name, gradient] : gradients) {
      INFO(name);
      const Tensor &from = before.variables.at(name), &to = next.variables.at(name);
      REQUIRE(gradient.shape() == from.shape());
      bool moves = false;
      for (int64_t i = 0; i < from.elements(); ++i) {
        const float expected =
            static_cast<float>(from.at(i)) - 0.125f * static_cast<float>(gradient.at(i));
        moves = moves || gradient.at(i) != 0;
        if (static_cast<float>(to.at(i)) != expected) FAIL_CHECK("element " << i);
        ++compared;
      }
      CHECK(moves);
    }
    CHECK(compared > 100);
  }
}

TEST_CASE("gradients are the same whatever the optimizer makes of them") {
  const Catalogue catalogue = standard_catalogue();
  const SteppedRun run(
      {"optimizer={name: adam, learning_rate: 0.01, groups: [{match: ['*bias*'], freeze: true}]}"});
  const auto steps = must(StepGradients::create(catalogue, real_files(), run.job, false, 1));
  const Checkpoint before = run.after(2), next = run.after(3);
  const Variables gradients = must(steps->compute(before.variables, 2));
  CHECK(!gradients.empty());
  for (const auto& [name, gradient] : gradients) {
    INFO(name);
    CHECK(name.find("bias") == std::string::npos);
    const std::string slot = cat("optimizer/", name, "/m");
    for (int64_t i = 0; i < gradient.elements(); ++i) {
      const double m = 0.9 * before.variables.at(slot).at(i) + 0.1 * gradient.at(i);
      if (std::abs(next.variables.at(slot).at(i) - m) > 1e-6 * (1 + std::abs(m)))
        FAIL_CHECK("element " << i);
    }
  }
  Variables lacking = before.variables;
  lacking.erase(gradients.begin()->first);
  CHECK(steps->compute(lacking, 2)
            .status()
            .message()
            .find("expected a value of float, received "
                  "none") != std::string::npos);
}

TEST_CASE("the distributions of gradients are written for TensorBoard") {
  const SteppedRun run({"optimizer={name: sgd, learning_rate: 0.1}"});
  const Finished done =
      run_leat(run.small.path(), {"metrics", "run", "--tensorboard", "board", "--gradients"});
  check_ok(done);
  std::ifstream in(run.small.path("board/run/events.out.tfevents.leat"), std::ios::binary);
  const std::string events{std::istreambuf_iterator<char>(in), {}};
  size_t tags = 0;
  for (size_t at = 0; (at = events.find("gradients/", at)) != std::string::npos; ++at) ++tags;
  const Variables variables = run.after(5).variables;
  const auto weights = std::count_if(variables.begin(), variables.end(), [](const auto& named) {
    return !named.first.starts_with("optimizer/") &&
           named.first.find("moving_") == std::string::npos;
  });
  CHECK(tags == 5 * static_cast<size_t>(weights));
  check_refused(run_leat(run.small.path(), {"metrics", "run", "--tensorboard", "board",
                                            "--gradients", "--set", "data.root=/nowhere"}),
                1, {"/nowhere"});
  check_refused(run_leat(run.small.path(), {"metrics", "run", "--gradients"}), 2,
                {"--tensorboard"});
}

}  // namespace
}  // namespace leat
