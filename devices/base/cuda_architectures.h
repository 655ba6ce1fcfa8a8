// The architectures of GPUs that a build of CUDA code is for.
#pragma once

#include <string>
#include <string_view>

namespace leat {

// True if code for `architectures`, nvcc's names with commas between them, runs on a GPU of this
// compute capability, which is 10 times the major number plus the minor one. Code for "86-real"
// runs on 8.6 and newer GPUs of the same major number, "90-virtual" on 9.0 and all that are newer,
// "90" is both, and "90a-real" runs on 9.0 alone. An empty list names no restriction.
bool runs_on(std::string_view architectures, int capability);

// "9.0" for 90.
std::string capability_text(int capability);

}  // namespace leat
