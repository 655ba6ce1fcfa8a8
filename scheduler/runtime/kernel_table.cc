#include "scheduler/runtime/kernel_table.h"

#include <algorithm>
#include <utility>

#include "devices/base/align.h"
#include "scheduler/runtime/kernel_notes.h"
#include "scheduler/runtime/workspaces.h"

namespace leat {
namespace {

constexpr uint64_t kScratchAlignment = 64;  // a cache line

}  // namespace

// Scratch memory belongs to a thread, which runs one kernel at a time: the largest need decides.
Status KernelTable::make() {
  const size_t n = partition_.instructions.size();
  own_.resize(n);
  index_.assign(n, kNone);
  if (profile_) timed_.resize(n);
  std::vector<uint64_t> workspaces(n, 0);
  for (size_t i = 0; i < n; ++i) {
    // A transfer has no kernel, and no workspace.
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::kernel) continue;
    LEAT_ASSIGN_OR_RETURN(own_[i], make_instruction_kernel(partition_, instruction, device_.kind(),
                                                           &device_, &resources_));
    if (const auto* reader = dynamic_cast<const ReadingKernel*>(own_[i].get()))
      readers_.push_back(reader);
    if (profile_) {
      auto timed = std::make_unique<TimedKernel>(std::move(own_[i]), device_.queue());
      timed_[i] = timed.get();
      own_[i] = std::move(timed);
    }
    workspaces[i] = align_up(own_[i]->workspace_bytes(), device_.alignment());
    scratch_bytes_ = std::max(scratch_bytes_, own_[i]->scratch_bytes());
  }
  scratch_bytes_ = align_up(scratch_bytes_, kScratchAlignment);
  WorkspacePlaces places = place_workspaces(partition_, workspaces, !device_.host_visible());
  workspace_offsets_ = std::move(places.offsets);
  LEAT_ASSIGN_OR_RETURN(workspace_, device_.allocate(places.bytes));
  return {};
}

int64_t KernelTable::steps_ahead() const {
  int64_t most = 0;
  for (const ReadingKernel* reader : readers_) most = std::max(most, reader->steps_ahead());
  return most;
}

uint32_t KernelTable::bind(uint32_t index) {
  if (index_[index] != kNone) return index_[index];
  const PlanInstruction& instruction = partition_.instructions[index];
  auto bound = std::make_unique<BoundKernel>();
  bound->kernel = own_[index].get();
  bound->instruction = index;
  bound->inputs = static_cast<uint32_t>(instruction.inputs.size());
  bound->outputs = static_cast<uint32_t>(instruction.outputs.size());
  const size_t operands = instruction.inputs.size() + instruction.outputs.size();
  bound->operands.reserve(kSlotDepth * operands);  // contexts point into it
  // A value in a slot has another address in odd turns than in even ones, so there are two
  // contexts.
  for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
    const auto address = [&](uint32_t value) {
      return value == kNone ? nullptr : memory_.address(value, parity);
    };
    for (uint32_t input : instruction.inputs) bound->operands.push_back(address(input));
    for (uint32_t output : instruction.outputs) bound->operands.push_back(address(output));
    KernelContext& context = bound->context[parity];
    context.inputs = bound->operands.data() + parity * operands;
    context.outputs = context.inputs + instruction.inputs.size();
    context.workspace = workspace(index);
    context.queue = &device_.queue();
    context.instruction = index;
  }
  bound_.push_back(std::move(bound));
  return index_[index] = static_cast<uint32_t>(bound_.size() - 1);
}

// The kernels of a chain stand side by side, so that an entry can name them as one range. A member
// that is bound for its earlier phases gets a second BoundKernel here.
uint32_t KernelTable::bind_chain(uint32_t first, uint32_t last, const TileValues& values) {
  const auto begin = static_cast<uint32_t>(bound_.size());
  tile_memory_bytes_ = std::max(tile_memory_bytes_, align_up(values.bytes, kScratchAlignment));
  for (uint32_t i = first; i < last; ++i) {
    index_[i] = kNone;
    bound_[bind(i)]->tile_operands = tile_operands(partition_, partition_.instructions[i], values);
  }
  return begin;
}

}  // namespace leat
