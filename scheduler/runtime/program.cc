#include "scheduler/runtime/program.h"

#include <chrono>
#include <utility>

#include "devices/base/text.h"
#include "scheduler/runtime/list_entries.h"

namespace leat {
namespace {

constexpr auto kCopyDeadline = std::chrono::minutes(1);

}  // namespace

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
  LEAT_RETURN_IF_ERROR(allocate_borders(plan));
  LEAT_RETURN_IF_ERROR(await_constants());
  const ProgramParts parts{plan, partition_, device_, exchange_, memory_, kernels_};
  list_ = list_entries(parts);
  order_entries(parts, list_);
  return {};
}

// A fetch keeps its last kFetchDepth values in a ring: the run may be some steps ahead of its
// caller.
Status Program::allocate_borders(const Plan& plan) {
  fetch_values_.assign(plan.fetches.size(), kNone);
  fetch_rings_.resize(plan.fetches.size());
  fetch_departures_.resize(plan.fetches.size());
  for (const PlanInstruction& instruction : partition_.instructions) {
    if (instruction.kind != PlanInstruction::Kind::fetch) continue;
    const uint32_t value = instruction.inputs[0];
    fetch_values_[instruction.edge] = value;
    const size_t bytes = partition_.values[value].type.bytes();
    LEAT_ASSIGN_OR_RETURN(fetch_rings_[instruction.edge],
                          device_.allocate_host(bytes * kFetchDepth));
    if (device_.host_visible()) continue;
    for (auto& buffer : fetch_departures_[instruction.edge]) {
      LEAT_ASSIGN_OR_RETURN(buffer, device_.allocate(bytes));
    }
  }
  feed_stagings_.resize(partition_.feeds.size());
  for (size_t i = 0; i < partition_.feeds.size() && !device_.host_visible(); ++i) {
    if (partition_.feeds[i] == kNone) continue;
    const size_t bytes = partition_.values[partition_.feeds[i]].type.bytes();
    LEAT_ASSIGN_OR_RETURN(feed_stagings_[i], device_.allocate_host(bytes));
  }
  if (!device_.host_visible()) {
    LEAT_ASSIGN_OR_RETURN(step_numbers_, device_.allocate_host(kSlotDepth * sizeof(StepNumbers)));
  }
  return {};
}

// The constants are copied in a queue that the kernels' does not wait for.
Status Program::await_constants() {
  return device_.queue(QueueFor::copies_in)
      .settle(std::chrono::steady_clock::now() + kCopyDeadline);
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
