// Small jobs on hosts with a GPU.
#pragma once

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "tests/daemon/training_testing.h"

namespace leat::testing {

// Models of images of 8 x 8: a perceptron with dropout, a CNN with batch normalization, and four
// tokens, the quarters of an image, that attend to each other.
extern const char* const kMlp;
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

// A small job on hosts that have a GPU each; in this process, they share the one there is.
class GpuJob {
 public:
  explicit GpuJob(const char* graph) : small(graph) {}

  // Trains to the end, or until `stop`. `once_open` is called when the devices are open.
  Result<GpuTraining> train(const Job& job, const std::string& folder, uint64_t seed = 0,
                            bool resume = false,
                            const std::function<bool(const Silent&)>& stop = {},
                            const std::function<void()>& once_open = {},
                            bool skip_checkpoints = false) const;

  const SmallJob small;
};

}  // namespace leat::testing
