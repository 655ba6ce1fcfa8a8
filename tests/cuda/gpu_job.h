// Small jobs on hosts with a GPU.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "tests/daemon/training_testing.h"

namespace leat::testing {

// Models of images of 8 x 8: a perceptron with dropout, a CNN, one with batch normalization, and
// four tokens, the quarters of an image, that attend to each other.
extern const char* const kMlp;
extern const char* const kCnn;
extern const char* const kNormedCnn;
extern const char* const kTransformer;

// Names a plain way in LEAT_GPU_PLAIN for its life (devices/cuda/plain_ways.h).
class PlainWay {
 public:
  explicit PlainWay(const char* word) { ::setenv("LEAT_GPU_PLAIN", word, 1); }
  PlainWay(const PlainWay&) = delete;
  PlainWay& operator=(const PlainWay&) = delete;
  ~PlainWay() { ::unsetenv("LEAT_GPU_PLAIN"); }
};

struct GpuTraining {
  TrainOutcome outcome;
  std::vector<double> losses;
  std::vector<std::string> warnings;
};

struct GpuTrainingOptions {
  uint64_t seed = 0;  // of the schedule of an emulated GPU
  bool resume = false;
  std::function<bool(const Silent&)> stop = {};
  std::function<void()> once_open = {};  // called when the devices are open
  bool skip_checkpoints = false;
  bool profile = false;
};

// A small job on hosts that have a GPU each; in this process, they share the one there is.
class GpuJob {
 public:
  explicit GpuJob(const char* graph) : small(graph) {}

  // Trains to the end, or until the options' `stop`.
  Result<GpuTraining> train(const Job& job, const std::string& folder,
                            const GpuTrainingOptions& options = {}) const;

  const SmallJob small;
};

}  // namespace leat::testing
