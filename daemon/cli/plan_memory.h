// The memory of the process of `leat train`, as far as plans tell it before the training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "scheduler/plan/plan.h"

namespace leat {

class Trainer;

// The resident memory of this process, in bytes; zeros if the kernel does not tell it.
struct ResidentMemory {
  uint64_t own = 0;    // heap, stacks
  uint64_t files = 0;  // of programs and libraries
};
ResidentMemory resident_memory();

// In bytes. All workers of `leat train` are in its process; memory of accelerators does not count.
struct TrainingMemory {
  uint64_t program = 0;     // of the program itself, without any job
  uint64_t plans = 0;       // graphs, plans and kernels
  uint64_t start = 0;       // before the first step: the model's tensors and the variables
  uint64_t steps = 0;       // variables, activations, workspaces and the rest of all partitions
  uint64_t evaluation = 0;  // beside that of the steps, while the largest evaluation runs
  uint64_t checkpoint = 0;  // beside both: copies of the variables that are written while steps run
  bool copies = false;      // the job has a checkpoint at a step before its last one

  // The most at one time, without the program itself. Checkpoints by the clock do not count.
  uint64_t peak() const;
};

// Compiles the evaluations. `plans`: those of the training, and their workspaces by partition.
// `before`: as it was before the trainer was made.
Result<TrainingMemory> training_memory(Trainer& trainer,
                                       const std::vector<std::shared_ptr<const Plan>>& plans,
                                       const std::vector<std::vector<uint64_t>>& workspaces,
                                       const ResidentMemory& before);

// The rows of `leat plan` about it.
std::string memory_text(const TrainingMemory& memory);
// One line of JSON.
std::string memory_json(const TrainingMemory& memory);

}  // namespace leat
