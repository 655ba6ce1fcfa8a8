// Resources outlive a step: variables, queues, opened data sets. A job owns one table of them on
// each worker. Its runs share this table and nothing else.
//
//   JobResources resources(device);
//   LEAT_ASSIGN_OR_RETURN(Variable* w, resources.variable("dense/kernel", DType::f32, {3, 4},
//   true));
//   // w is valid as long as `resources`; a second call returns the same variable.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "devices/core/tensor.h"
#include "ops/graph/resource.h"
#include "ops/state/commits.h"

namespace leat {

// A tensor that persists. Kernels read and write data() in place, in the order of the plan. Name,
// type and address never change. Threads: any, for all members. The variable has no lock: to read
// or write its elements outside of a step, the job must be in no step.
class Variable final : public Resource {
 public:
  // REQUIRES: `buffer` has at least the bytes of the shape.
  Variable(std::string name, DType dtype, Shape shape, std::unique_ptr<Buffer> buffer,
           bool trainable)
      : name_(std::move(name)),
        dtype_(dtype),
        shape_(shape),
        buffer_(std::move(buffer)),
        trainable_(trainable) {}
  void* address() override { return buffer_->data(); }
  std::string_view kind() const override { return "variable"; }
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // True if an optimizer updates it; false for running statistics and the slots of optimizers.
  bool trainable() const { return trainable_; }
  // The elements, row-major, in the memory of the device: the host may read them only if
  // Device::host_visible().
  void* data() const { return buffer_->data(); }
  size_t bytes() const { return static_cast<size_t>(shape_.elements()) * dtype_size(dtype_); }

 private:
  std::string name_;
  DType dtype_;
  Shape shape_;
  std::unique_ptr<Buffer> buffer_;
  bool trainable_;
};

// The table of one job on one worker. It owns all resources, and keeps them until it is destroyed,
// after the last run of the job: nothing is ever removed.
//
// Threads: any, but set_data_root() has no lock: no kernel of the job may be made meanwhile. No
// step calls these functions: kernels keep the addresses. A call may wait while another thread
// makes a resource.
class JobResources {
 public:
  // Allocates memory from `device`, which must outlive the table.
  explicit JobResources(Device& device) : device_(&device) {}

  // The device on which all variables of the table are.
  Device& device() { return *device_; }
  // The directory below which graphs may name files; "" allows any path. Readers refuse paths that
  // leave it, also through links.
  void set_data_root(std::string root) { data_root_ = std::move(root); }
  const std::string& data_root() const { return data_root_; }

  // Returns the variable of that name, or makes it, filled with zeros. failed_precondition if it
  // exists with another dtype or shape; resource_exhausted if there is no memory. A variable that
  // exists keeps its elements and its flag `trainable`, whatever the argument is.
  Result<Variable*> variable(std::string_view name, DType dtype, const Shape& shape,
                             bool trainable);
  // The variable, or null if there is none of that name.
  Variable* find_variable(std::string_view name);
  std::vector<Variable*> variables();  // ascending by name
  // The steps that the variables contain.
  Commits& commits() { return commits_; }

  // Returns any other resource; `make` makes it if (kind, name) is new. If `make` fails, its error
  // is returned and nothing is added. `make` runs under the lock of the table, so that only one
  // caller makes the resource: it must not call this table, and while it blocks (a data set reads
  // its files) so do the other callers. A resource that exists may differ from the one that `make`
  // would make; the caller compares them.
  Result<Resource*> find_or_make(std::string_view kind, std::string_view name,
                                 const std::function<Result<std::unique_ptr<Resource>>()>& make);

 private:
  Device* device_;
  std::string data_root_;
  Commits commits_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Variable>, std::less<>> variables_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Resource>> others_;
};

}  // namespace leat
