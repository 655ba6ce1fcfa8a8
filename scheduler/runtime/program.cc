#include "scheduler/runtime/program.h"

#include <utility>

#include "devices/base/text.h"
#include "scheduler/runtime/list_entries.h"

namespace leat {

Program::Program(const Plan& plan, uint32_t partition, Device& device, JobResources& resources,
                 Exchange exchange, bool profile)
    : partition_(plan.partitions[partition]),
      device_(device),
      resources_(resources),
      exchange_(std::move(exchange)),
      memory_(plan, partition_, device, resources, exchange_),
      kernels_(partition_, device, resources, memory_, profile) {}

Result<std::unique_ptr<Program>> Program::create(const Plan& plan, uint32_t partition,
                                                 Device& device, JobResources& resources,
                                                 Exchange exchange, bool profile) {
  // The constructor allocates nothing, so make() can report each failure as a Status.
  std::unique_ptr<Program> program(
      new Program(plan, partition, device, resources, std::move(exchange), profile));
  const Status status = program->make(plan);
  if (!status.ok()) {
    return status.while_doing(
        cat("registering '", plan.name, "' on ", plan.partitions[partition].device));
  }
  return program;
}

// Each part needs those before it: kernels bind addresses, and entries ask kernels for their tiles.
Status Program::make(const Plan& plan) {
  LEAT_RETURN_IF_ERROR(memory_.bind());
  LEAT_RETURN_IF_ERROR(kernels_.make());
  LEAT_RETURN_IF_ERROR(allocate_fetches(plan.fetches.size()));
  const ProgramParts parts{plan, partition_, device_, exchange_, memory_, kernels_};
  list_ = list_entries(parts);
  order_entries(parts, list_);
  return {};
}

// A fetch keeps its last kFetchDepth values in a ring: the run may be some steps ahead of its
// caller.
Status Program::allocate_fetches(size_t fetches) {
  fetch_values_.assign(fetches, kNone);
  fetch_rings_.resize(fetches);
  for (const PlanInstruction& instruction : partition_.instructions) {
    if (instruction.kind != PlanInstruction::Kind::fetch) continue;
    const uint32_t value = instruction.inputs[0];
    fetch_values_[instruction.edge] = value;
    const size_t bytes = partition_.values[value].type.bytes() * kFetchDepth;
    LEAT_ASSIGN_OR_RETURN(fetch_rings_[instruction.edge], device_.allocate(bytes));
  }
  return {};
}

void* Program::feed(uint32_t i) {
  // Both parities of a value of the arena have one address, so that of the first is the feed's.
  const uint32_t value = i < partition_.feeds.size() ? partition_.feeds[i] : kNone;
  return value == kNone ? nullptr : memory_.addresses(value)[0];
}

void* Program::fetch(uint32_t i, uint64_t turn) {
  // The ring has kFetchDepth values side by side.
  const PlanValue& value = partition_.values[fetch_values_[i]];
  return static_cast<std::byte*>(fetch_rings_[i]->data()) +
         (turn % kFetchDepth) * value.type.bytes();
}

}  // namespace leat
