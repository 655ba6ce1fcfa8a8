#include "daemon/training/averaged_weights.h"

#include <string>
#include <utility>

#include "devices/base/text.h"
#include "scheduler/recipes/optimizer.h"

namespace leat {
namespace {

// The order of operations is that of next_average() in scheduler/graph/weight_average.cc.
template <typename T>
Tensor averaged(const Tensor& average, const Tensor& weight, double factor) {
  Tensor out(weight.dtype(), weight.shape());
  const T keep = static_cast<T>(factor), take = static_cast<T>(1 - factor);
  for (int64_t i = 0; i < weight.elements(); ++i)
    out.data<T>()[i] = average.data<T>()[i] * keep + weight.data<T>()[i] * take;
  return out;
}

}  // namespace

Variables averaged_weights(const Variables& variables, double factor) {
  Variables out;
  const auto steps = variables.find(std::string(kAverageSteps));
  const bool begun = steps != variables.end() && steps->second.at(0) > 0;
  for (const auto& [name, weight] : variables) {
    if (name.starts_with(kOptimizerPrefix)) continue;
    const auto found = variables.find(cat(kOptimizerPrefix, name, "/", kAverageSlot));
    if (!begun || found == variables.end()) {
      out.emplace(name, weight);
    } else if (weight.dtype() == DType::f64) {
      out.emplace(name, averaged<double>(found->second, weight, factor));
    } else {
      out.emplace(name, averaged<float>(found->second, weight, factor));
    }
  }
  return out;
}

}  // namespace leat
