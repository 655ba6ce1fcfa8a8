// The kernel of one instruction, and what kernels say of themselves before anything runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"
#include "scheduler/plan/plan.h"

namespace leat {

// `kind`: of the device. `device` and `resources` may be null for kernels that use neither, which
// those of matrix products and convolutions do not. REQUIRES: an instruction that is a kernel.
Result<std::unique_ptr<Kernel>> make_instruction_kernel(const Partition& partition,
                                                        const PlanInstruction& instruction,
                                                        std::string_view kind, Device* device,
                                                        JobResources* resources);

// The types of the instruction's operands, in its partition. `attrs` are those of the instruction
// with their defaults, and outlive the answer.
OpTypes types_of(const Partition& partition, const PlanInstruction& instruction,
                 const Attrs& attrs);

// Why kernels of the plan would run far below what this processor can do, one line for each reason
// with the instructions' names: see ops/graph/kernel_note.h. Makes the kernel of each distinct
// matrix product and convolution on the way; the error of one that cannot be made.
Result<std::vector<std::string>> kernel_notes(const Plan& plan);

}  // namespace leat
