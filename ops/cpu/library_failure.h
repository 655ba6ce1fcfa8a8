// The end of a tile in which oneDNN failed.
#pragma once

#include <string_view>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"

namespace leat {

// Fails the step with internal. `doing`: "multiply". oneDNN compiles its kernels at run time, so a
// process that may not make memory executable is the likely cause. Threads: any.
inline Progress library_failed(KernelContext& context, std::string_view doing) {
  context.step->fail(context.instruction,
                     internal_error(cat("oneDNN failed to ", doing,
                                        "; may this process make memory executable "
                                        "(MemoryDenyWriteExecute)?")));
  return Progress::failed;
}

}  // namespace leat
