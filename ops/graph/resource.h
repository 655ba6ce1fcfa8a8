// A resource is state that an op names. Kernels receive its address; the rest of the graph knows
// only this interface.
#pragma once

#include <string_view>

namespace leat {

// State with a name. JobResources owns it and keeps it at one address as long as the job exists.
class Resource {
 public:
  virtual ~Resource() = default;
  // The address that kernels get for the resource operand.
  virtual void* address() { return this; }
  virtual std::string_view kind() const = 0;  // "variable", "queue", "dataset"
};

}  // namespace leat
