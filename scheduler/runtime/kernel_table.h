// The kernels of a program, bound to addresses.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "devices/core/device.h"
#include "ops/graph/kernel.h"
#include "ops/graph/reading_kernel.h"
#include "ops/state/resources.h"
#include "scheduler/plan/plan.h"
#include "scheduler/runtime/profile.h"
#include "scheduler/runtime/tile_values.h"
#include "scheduler/runtime/value_memory.h"

namespace leat {

// A kernel with its operands, one context for each slot parity.
struct BoundKernel {
  Kernel* kernel = nullptr;
  uint32_t instruction = 0;
  uint32_t inputs = 0, outputs = 0;  // how many
  std::vector<void*> operands;       // for each parity the inputs, then the outputs
  std::array<KernelContext, kSlotDepth> context;
  std::vector<TileOperand> tile_operands;  // operands whose addresses follow from the tile
};

// Makes the kernels of a partition's instructions, allocates what they work in, and binds them to
// the addresses of their operands.
//
// Threads: one at a time while a program is made; afterwards the queries from any. A bound kernel
// belongs to the threads of the run that steps the program.
class KernelTable {
 public:
  // All outlive it. With `profile`, kernels measure their time.
  KernelTable(const Partition& partition, Device& device, JobResources& resources,
              const ValueMemory& memory, bool profile)
      : partition_(partition),
        device_(device),
        resources_(resources),
        memory_(memory),
        profile_(profile) {}

  // Makes a kernel for each instruction that needs one. Call it once, before all else.
  // REQUIRES: the memory is bound.
  Status make();
  // The kernel of an instruction; null for a transfer.
  const Kernel* of(uint32_t instruction) const { return own_[instruction].get(); }
  // The instructions whose work is done where this one stands: the instruction itself, or a group
  // whose kernels are joined (joins.h). Empty if it is done where another one stands.
  std::span<const uint32_t> work_of(uint32_t instruction) const { return joins_.work[instruction]; }
  // The times of work_of(instruction); null for a transfer, where there is no work, and in a
  // program that is not profiled.
  const TimedKernel* timed(uint32_t instruction) const {
    return timed_.empty() ? nullptr : timed_[instruction];
  }
  // The address of the instruction's workspace.
  std::byte* workspace(uint32_t instruction) const {
    return static_cast<std::byte*>(workspace_->data()) + workspace_offsets_[instruction];
  }

  // The most of ReadingKernel::steps_ahead(). Threads: any.
  int64_t steps_ahead() const;

  // Binds the instruction's kernel, if it is not bound yet. Returns its index for bound().
  uint32_t bind(uint32_t instruction);
  // Binds the instructions [first, last) of a chain side by side, whether they are bound already or
  // not, with these values in tile memory. Returns the index of the first.
  uint32_t bind_chain(uint32_t first, uint32_t last, const TileValues& values);
  BoundKernel& bound(uint32_t i) { return *bound_[i]; }
  const BoundKernel& bound(uint32_t i) const { return *bound_[i]; }

  // The scratch memory that a thread needs: first the kernels' own, then, from tile_memory() on,
  // that of the values in tile memory. Both are multiples of a cache line.
  size_t scratch_bytes() const { return scratch_bytes_ + tile_memory_bytes_; }
  size_t tile_memory() const { return scratch_bytes_; }

 private:
  struct Joins {
    std::vector<std::vector<uint32_t>> work;  // by instruction
    std::vector<std::unique_ptr<Kernel>> kernels;
  };

  Status make_kernels();
  Status allocate_workspaces();
  void find_work();
  Status join();
  std::unique_ptr<Kernel> measured(std::unique_ptr<Kernel> kernel, uint32_t instruction);

  const Partition& partition_;
  Device& device_;
  JobResources& resources_;
  const ValueMemory& memory_;
  const bool profile_;
  std::vector<std::unique_ptr<Kernel>> own_;  // by instruction; null for transfers
  Joins joins_;
  std::vector<const TimedKernel*> timed_;      // by instruction; empty if not profiled
  std::vector<const ReadingKernel*> readers_;  // of own_
  std::unique_ptr<Buffer> workspace_;          // of all kernels
  std::vector<uint64_t> workspace_offsets_;    // by instruction
  std::vector<uint32_t> index_;                // by instruction: its place in bound_, or kNone
  std::vector<std::unique_ptr<BoundKernel>> bound_;
  size_t scratch_bytes_ = 0, tile_memory_bytes_ = 0;
};

}  // namespace leat
