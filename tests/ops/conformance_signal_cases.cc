// The cases of determinants, Fourier transforms, caches of sequences, and bits of numbers.
#include "tests/ops/conformance_more_cases.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

uint64_t signal_seed = 0;  // from 5000 in each table

Tensor signal(const Shape& shape, double low = -2, double high = 2) {
  return random_tensor(DType::f32, shape, ++signal_seed, low, high);
}

void add_determinants(std::vector<ConformanceCase>& cases) {
  cases.push_back(ConformanceCase{"Det", {signal({kBatch, 3, 3})}}.grad({0}));
  cases.push_back(ConformanceCase{"Det", {signal({kBatch, 2, 1, 1})}}.grad({0}));
  cases.push_back(ConformanceCase{"Det", {signal({4, 4})}}.grad({0}));
  cases.push_back({"Det", {signal({kBatch, 40, 40}, -0.2, 0.2)}});
  cases.push_back({"leat.DetGrad", {signal({kBatch}), signal({kBatch, 3, 3})}});
  cases.push_back({"leat.DetGrad", {signal({kBatch}, 0, 1), signal({kBatch, 30, 30}, -0.2, 0.2)}});
}

}  // namespace

void add_signal_cases(std::vector<ConformanceCase>& cases) {
  signal_seed = 5000;
  add_determinants(cases);
}

}  // namespace leat::testing
