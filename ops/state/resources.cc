#include "ops/state/resources.h"

#include "devices/base/text.h"

namespace leat {

Result<Variable*> JobResources::variable(std::string_view name, DType dtype, const Shape& shape,
                                         bool trainable) {
  std::lock_guard lock(mutex_);
  const auto it = variables_.find(name);
  // A later plan of the job finds the variables of the one before it, with their values.
  if (it != variables_.end()) {
    Variable* existing = it->second.get();
    if (existing->dtype() != dtype || !(existing->shape() == shape)) {
      return failed_precondition(cat("variable '", name, "': expected ", existing->dtype(),
                                     existing->shape(), " as it was made, received ", dtype,
                                     shape));
    }
    return existing;
  }
  const auto bytes = checked_mul(shape.elements(), static_cast<int64_t>(dtype_size(dtype)));
  if (!bytes) return resource_exhausted(cat("variable '", name, "': ", shape, " is too large"));
  // The device's memory is zeroed, which the header promises.
  auto buffer = device_->allocate(static_cast<size_t>(*bytes));
  if (!buffer.ok()) return buffer.status().while_doing(cat("making variable '", name, "'"));
  auto made =
      std::make_unique<Variable>(std::string(name), dtype, shape, std::move(*buffer), trainable);
  Variable* raw = made.get();
  variables_.emplace(std::string(name), std::move(made));
  return raw;
}

Variable* JobResources::find_variable(std::string_view name) {
  std::lock_guard lock(mutex_);
  const auto it = variables_.find(name);
  return it == variables_.end() ? nullptr : it->second.get();
}

// The map is sorted by name.
std::vector<Variable*> JobResources::variables() {
  std::lock_guard lock(mutex_);
  std::vector<Variable*> out;
  for (auto& [name, variable] : variables_) out.push_back(variable.get());
  return out;
}

// `make` runs under the lock, so that only one caller makes the resource. It must not look up or
// make another one.
Result<Resource*> JobResources::find_or_make(
    std::string_view kind, std::string_view name,
    const std::function<Result<std::unique_ptr<Resource>>()>& make) {
  std::lock_guard lock(mutex_);
  const auto key = std::make_pair(std::string(kind), std::string(name));
  const auto it = others_.find(key);
  if (it != others_.end()) return it->second.get();
  LEAT_ASSIGN_OR_RETURN(auto made, make());
  Resource* raw = made.get();
  others_.emplace(key, std::move(made));
  return raw;
}

}  // namespace leat
