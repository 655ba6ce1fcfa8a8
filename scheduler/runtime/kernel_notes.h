// Makes the kernel of one instruction, and tells of a plan's kernels before it runs.
// The functions are pure, and any thread may call them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"
#include "scheduler/plan/plan.h"

namespace leat {

// Makes a kernel for a device of kind `kind`. `device` and `resources` may be null for a kernel
// that uses neither, such as those of matrix products and convolutions; otherwise they outlive it.
// resource_exhausted if a phase of the kernel has more tiles than limits::kTiles.
// REQUIRES: the instruction is a kernel.
Result<std::unique_ptr<Kernel>> make_instruction_kernel(const Partition& partition,
                                                        const PlanInstruction& instruction,
                                                        std::string_view kind, Device* device,
                                                        JobResources* resources);

// Lists why kernels of the plan would run far below what this processor can do: one line for each
// reason, with the names of the instructions. See ops/graph/kernel_note.h. It makes the kernel of
// each distinct matrix product and convolution, and returns the error if one cannot be made.
Result<std::vector<std::string>> kernel_notes(const Plan& plan);

// Returns, for each partition, the bytes in which its matrix products and convolutions on a CPU
// work, as a program places them. Those of other kernels, which are mostly small beside these, are
// not counted. It makes the same kernels, and returns the error if one cannot be made.
Result<std::vector<uint64_t>> workspace_bytes(const Plan& plan);

}  // namespace leat
