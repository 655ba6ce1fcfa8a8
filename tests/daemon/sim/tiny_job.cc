#include "tests/daemon/sim/tiny_job.h"

#include "tests/daemon/checkpoint/crash_files.h"

namespace leat::sim {
namespace {

uint64_t mix(uint64_t x) { return CrashFiles::mix(x); }
uint64_t sample(uint64_t seed, uint64_t epoch, uint64_t row) {
  return mix(mix(seed ^ mix(epoch)) + row);
}

}  // namespace

Weights TinyJob::gradient(const Weights& weights, uint64_t step, uint64_t first,
                          uint64_t end) const {
  Weights sum{0, 0};
  const uint64_t each = batch / shards;
  for (uint64_t i = first * each; i < end * each; ++i) {
    const uint64_t position = step * batch + i;
    const uint64_t used = sample(seed, position / rows, position % rows);
    sum.chain += mix(weights.chain ^ used ^ mix(step));
    sum.samples += used;
  }
  return sum;
}

Weights TinyJob::apply_first(const Weights& weights, const Weights& sum) {
  return {mix(weights.chain + sum.chain), weights.samples};
}

Weights TinyJob::apply(const Weights& weights, const Weights& sum) {
  return {mix(weights.chain + sum.chain), weights.samples + sum.samples};
}

std::vector<Weights> TinyJob::twin() const {
  std::vector<Weights> all{Weights{}};
  for (uint64_t step = 0; step < steps; ++step)
    all.push_back(apply(all.back(), gradient(all.back(), step, 0, shards)));
  return all;
}

uint64_t TinyJob::all_samples(uint64_t epochs) const {
  uint64_t sum = 0;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch)
    for (uint64_t row = 0; row < rows; ++row) sum += sample(seed, epoch, row);
  return sum;
}

}  // namespace leat::sim
