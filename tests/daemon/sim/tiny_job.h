// The job that simulated runners train: its weights are two numbers, of which every step makes new
// ones from all that it is to use, once. So the last weights prove what was used, in which order,
// and how often.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <vector>

namespace leat::sim {

// Two variables; a step applies one after the other.
struct Weights {
  uint64_t chain = 1;    // of all steps, in order
  uint64_t samples = 0;  // all that were used, added up
  bool operator==(const Weights&) const = default;
};

struct TinyJob {
  uint64_t seed = 0;
  uint64_t steps = 1;
  uint64_t shards = 4;
  uint64_t batch = 8;  // samples of a step; a multiple of the shards
  uint64_t rows = 20;  // samples of an assembly; a batch may run on into the next one
  uint64_t every = 5;  // steps between checkpoints

  // What the shards [first, end) add to the step, from the weights before it.
  Weights gradient(const Weights& weights, uint64_t step, uint64_t first, uint64_t end) const;
  // The first variable alone is new; and both.
  static Weights apply_first(const Weights& weights, const Weights& sum);
  static Weights apply(const Weights& weights, const Weights& sum);

  // By the number of steps that are done: what one process makes of it that nothing befalls.
  std::vector<Weights> twin() const;
  // What all samples of the first `assemblies` assemblies add up to.
  uint64_t all_samples(uint64_t assemblies) const;
};

}  // namespace leat::sim
