#include "scheduler/runtime/kernel_table.h"

#include <algorithm>
#include <utility>

#include "devices/base/align.h"
#include "ops/graph/joinable_kernel.h"
#include "scheduler/runtime/joins.h"
#include "scheduler/runtime/kernel_notes.h"
#include "scheduler/runtime/workspaces.h"

namespace leat {
namespace {

constexpr uint64_t kScratchAlignment = 64;  // a cache line

}  // namespace

Status KernelTable::make() {
  LEAT_RETURN_IF_ERROR(make_kernels());
  find_work();
  LEAT_RETURN_IF_ERROR(allocate_workspaces());
  return join();
}

Status KernelTable::make_kernels() {
  const size_t n = partition_.instructions.size();
  own_.resize(n);
  index_.assign(n, kNone);
  if (profile_) timed_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    // A transfer has no kernel, and no workspace.
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::kernel) continue;
    LEAT_ASSIGN_OR_RETURN(own_[i], make_instruction_kernel(partition_, instruction, device_.kind(),
                                                           &device_, &resources_));
    if (const auto* reader = dynamic_cast<const ReadingKernel*>(own_[i].get()))
      readers_.push_back(reader);
  }
  return {};
}

// Kernels that are joined are measured together: see join().
void KernelTable::find_work() {
  const auto n = static_cast<uint32_t>(own_.size());
  joins_.work.resize(n);
  for (uint32_t i = 0; i < n; ++i) joins_.work[i] = {i};
  for (std::vector<uint32_t>& group : find_joins(partition_, own_)) {
    for (const uint32_t member : group) joins_.work[member].clear();
    const uint32_t first = group[0];
    joins_.work[first] = std::move(group);
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (own_[i] && work_of(i).size() == 1) own_[i] = measured(std::move(own_[i]), i);
  }
}

// The kernel, or one that measures the time of what it does for the instruction.
std::unique_ptr<Kernel> KernelTable::measured(std::unique_ptr<Kernel> kernel,
                                              uint32_t instruction) {
  if (!profile_) return kernel;
  auto timed = std::make_unique<TimedKernel>(std::move(kernel), device_.queue());
  timed_[instruction] = timed.get();
  return timed;
}

// Scratch memory belongs to a thread, which runs one kernel at a time: the largest need decides.
Status KernelTable::allocate_workspaces() {
  std::vector<uint64_t> sizes(own_.size(), 0);
  for (size_t i = 0; i < own_.size(); ++i) {
    if (!own_[i]) continue;
    sizes[i] = align_up(own_[i]->workspace_bytes(), device_.alignment());
    scratch_bytes_ = std::max(scratch_bytes_, own_[i]->scratch_bytes());
  }
  scratch_bytes_ = align_up(scratch_bytes_, kScratchAlignment);
  WorkspacePlaces places = place_workspaces(partition_, sizes, !device_.host_visible());
  workspace_offsets_ = std::move(places.offsets);
  LEAT_ASSIGN_OR_RETURN(workspace_, device_.allocate(places.bytes));
  return {};
}

// Binds the first member of each group to the kernel that does the work of all.
Status KernelTable::join() {
  for (uint32_t first = 0; first < own_.size(); ++first) {
    const std::span<const uint32_t> group = work_of(first);
    if (group.size() < 2) continue;
    std::vector<JoinableKernel::Member> members;
    for (const uint32_t i : group) {
      members.push_back({dynamic_cast<const JoinableKernel&>(*own_[i]), bound_[bind(i)]->context});
    }
    LEAT_ASSIGN_OR_RETURN(JoinableKernel::Joined joined, members[0].kernel.join(members));
    joins_.kernels.push_back(measured(std::move(joined.kernel), first));
    BoundKernel& bound = *bound_[index_[first]];
    bound.kernel = joins_.kernels.back().get();
    for (uint64_t parity = 0; parity < kSlotDepth; ++parity)
      bound.context[parity].workspace = joined.workspaces[parity];
  }
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
