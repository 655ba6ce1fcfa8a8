// Resources outlive a step: variables, queues, opened data sets. A job owns one table of them on
// each worker. Its runs share this table and nothing else.
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

// A tensor that persists. Kernels read and write data() in place, in the order of the plan.
class Variable final : public Resource {
 public:
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
  bool trainable() const { return trainable_; }
  void* data() const { return buffer_->data(); }
  size_t bytes() const { return static_cast<size_t>(shape_.elements()) * dtype_size(dtype_); }

 private:
  std::string name_;
  DType dtype_;
  Shape shape_;
  std::unique_ptr<Buffer> buffer_;
  bool trainable_;
};

// Threads: any. No step calls these functions: kernels keep the addresses.
class JobResources {
 public:
  // Allocates memory from `device`, which must outlive the table.
  explicit JobResources(Device& device) : device_(&device) {}

  Device& device() { return *device_; }
  // The directory below which graphs may name files; "" allows any path.
  void set_data_root(std::string root) { data_root_ = std::move(root); }
  const std::string& data_root() const { return data_root_; }

  // Returns the variable of that name, or makes it, filled with zeros. failed_precondition if it
  // exists with another dtype or shape; resource_exhausted if there is no memory.
  Result<Variable*> variable(std::string_view name, DType dtype, const Shape& shape,
                             bool trainable);
  Variable* find_variable(std::string_view name);
  std::vector<Variable*> variables();  // ascending by name
  // The steps that the variables contain.
  Commits& commits() { return commits_; }

  // Returns any other resource; `make` makes it if (kind, name) is new.
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
