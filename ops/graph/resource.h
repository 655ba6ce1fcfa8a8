// What a resource is to the rest of the graph: state that an op names, and kernels get the address
// of.
#pragma once

#include <string_view>

namespace leat {

// State with a name. Owned by JobResources, at one address for the job's life.
class Resource {
 public:
  virtual ~Resource() = default;
  // What kernels get as the address of the resource operand.
  virtual void* address() { return this; }
  virtual std::string_view kind() const = 0;  // "variable", "queue", "dataset"
};

}  // namespace leat
