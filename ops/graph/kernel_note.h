// Notes of kernels that run far below the speed of the processor, for example because a dtype is
// converted or a shape does not fit the fast loops. `leat plan` and `--profile` show them, so that
// a user learns of the loss and its reason.
#pragma once

#include <string>

#include "ops/graph/kernel.h"

namespace leat {

// The second base of a Kernel that may have a note. A kernel that wraps another one must be a
// NotedKernel as well and pass the note on.
class NotedKernel {
 public:
  // One clause for people; "" if there is no loss to report. It follows from the types that the
  // kernel was made for, and may be called at any time, from any thread.
  virtual std::string note() const = 0;

 protected:
  ~NotedKernel() = default;
};

// The kernel's note; "" if the kernel is no NotedKernel.
inline std::string kernel_note(const Kernel& kernel) {
  const auto* noted = dynamic_cast<const NotedKernel*>(&kernel);
  return noted ? noted->note() : std::string();
}

}  // namespace leat
