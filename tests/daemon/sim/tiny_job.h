// The job that simulated runners train. Its weights are two numbers. Each step computes new ones
// from all its samples, each of which it must use exactly once. So the last weights prove which
// samples were used, in which order and how often.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <vector>

namespace leat::sim {

// The job's two variables. A step applies one after the other.
struct Weights {
  uint64_t chain = 1;    // a hash over all steps, in order
  uint64_t samples = 0;  // the sum of all samples used
  bool operator==(const Weights&) const = default;
};

// The parameters of a job, and its mathematics.
struct TinyJob {
  uint64_t seed = 0;
  uint64_t steps = 1;
  uint64_t shards = 4;
  uint64_t batch = 8;  // samples of a step; a multiple of the shards
  uint64_t rows = 20;  // samples of an epoch; a batch may continue into the next one
  uint64_t every = 5;  // steps between checkpoints

  // The contribution of the shards [first, end) to the step that follows `weights`.
  Weights gradient(const Weights& weights, uint64_t step, uint64_t first, uint64_t end) const;
  // The weights with only the first variable updated, and with both updated.
  static Weights apply_first(const Weights& weights, const Weights& sum);
  static Weights apply(const Weights& weights, const Weights& sum);

  // The weights after each number of steps, as one process computes them without any fault.
  std::vector<Weights> twin() const;
  // The sum of all samples of the first `epochs` epochs.
  uint64_t all_samples(uint64_t epochs) const;
};

}  // namespace leat::sim
