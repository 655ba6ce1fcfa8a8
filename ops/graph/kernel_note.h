// Kernels that say of themselves why they run far below what the processor can do: `leat plan` and
// `--profile` show it, so that nobody loses time in silence.
#pragma once

#include <string>

#include "ops/graph/kernel.h"

namespace leat {

class NotedKernel {
 public:
  virtual std::string note() const = 0;  // "" where there is nothing to say

 protected:
  ~NotedKernel() = default;
};

// "" of a kernel that does not say so.
inline std::string kernel_note(const Kernel& kernel) {
  const auto* noted = dynamic_cast<const NotedKernel*>(&kernel);
  return noted ? noted->note() : std::string();
}

}  // namespace leat
