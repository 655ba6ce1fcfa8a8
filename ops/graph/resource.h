// A resource is state that an op names. Kernels receive its address; the rest of the graph knows
// only this interface.
#pragma once

#include <string_view>

namespace leat {

// State with a name. JobResources owns it and keeps it at one address as long as the job exists on
// this worker. An op with OpDef::make_resource finds or makes it when a plan is registered; kernels
// that get the address of another kind than they expect must notice it with a dynamic_cast.
class Resource {
 public:
  virtual ~Resource() = default;
  // The address that kernels get for the resource operand: the elements of a variable, and the
  // Resource itself for every other kind. It never changes.
  virtual void* address() { return this; }
  // A constant text, for messages and as part of the key in JobResources.
  virtual std::string_view kind() const = 0;  // "variable", "queue", "dataset"
};

}  // namespace leat
