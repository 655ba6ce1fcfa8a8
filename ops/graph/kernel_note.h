// Notes of kernels that run far below the speed of the processor. `leat plan` and `--profile` show
// them, so that a user learns of the loss and its reason.
#pragma once

#include <string>

#include "ops/graph/kernel.h"

namespace leat {

class NotedKernel {
 public:
  virtual std::string note() const = 0;  // "" if there is no loss to report

 protected:
  ~NotedKernel() = default;
};

// The kernel's note; "" if the kernel is no NotedKernel.
inline std::string kernel_note(const Kernel& kernel) {
  const auto* noted = dynamic_cast<const NotedKernel*>(&kernel);
  return noted ? noted->note() : std::string();
}

}  // namespace leat
