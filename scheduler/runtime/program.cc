#include "scheduler/runtime/program.h"

#include <algorithm>
#include <cstring>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "devices/core/pages.h"
#include "ops/graph/validate.h"
#include "scheduler/runtime/kernel_notes.h"
#include "scheduler/runtime/places.h"
#include "scheduler/runtime/program_builder.h"
#include "transport/links/frame.h"

namespace leat {

Result<std::unique_ptr<Program>> Program::create(const Plan& plan, uint32_t partition,
                                                 Device& device, JobResources& resources,
                                                 Exchange exchange, bool profile) {
  std::unique_ptr<Program> program(new Program());
  program->plan_ = &plan;
  program->partition_ = &plan.partitions[partition];
  program->device_ = &device;
  program->resources_ = &resources;
  program->exchange_ = std::move(exchange);
  if (profile) program->timed_kernels_.resize(program->partition_->instructions.size());
  const Status status = Builder(*program, plan, partition).build();
  if (!status.ok()) {
    return status.while_doing(
        cat("registering '", plan.name, "' on ", plan.partitions[partition].device));
  }
  return program;
}

Program::~Program() = default;

void* Program::feed(uint32_t i) {
  const uint32_t value = i < partition_->feeds.size() ? partition_->feeds[i] : kNone;
  return value == kNone ? nullptr : addresses_[value][0];
}

void* Program::fetch(uint32_t i, uint64_t turn) {
  const PlanValue& value = partition_->values[fetch_values_[i]];
  return static_cast<std::byte*>(fetch_rings_[i]->data()) +
         (turn % kFetchDepth) * value.type.bytes();
}

const void* Program::value_address(uint32_t value, uint64_t turn) const {
  return addresses_[value][turn % kSlotDepth];
}

Program::Builder::Builder(Program& program, const Plan& plan, uint32_t partition)
    : program_(program), plan_(plan), partition_(plan.partitions[partition]) {}

Status Program::Builder::build() {
  LEAT_RETURN_IF_ERROR(allocate_memory());
  LEAT_RETURN_IF_ERROR(open_resources());
  LEAT_RETURN_IF_ERROR(bind_addresses());
  list_aliases();
  bind_places();
  LEAT_RETURN_IF_ERROR(bind_joined());
  LEAT_RETURN_IF_ERROR(make_kernels());
  LEAT_RETURN_IF_ERROR(allocate_workspaces());
  LEAT_RETURN_IF_ERROR(allocate_fetches());
  list_entries();
  return {};
}

Status Program::Builder::allocate_memory() {
  Device& device = *program_.device_;
  LEAT_ASSIGN_OR_RETURN(program_.arena_, device.allocate(partition_.arena_bytes));
  for (const Tensor& constant : partition_.constants) {
    LEAT_ASSIGN_OR_RETURN(auto buffer, device.allocate(constant.bytes()));
    device.copy_to_device(buffer->data(), constant.raw(), constant.bytes());
    program_.constants_.push_back(std::move(buffer));
  }
  SlotTable* slots = program_.exchange_.slots;
  for (uint32_t e = 0; slots && e < plan_.edges.size(); ++e) {
    const PlanEdge& edge = plan_.edges[e];
    if (&plan_.partitions[edge.to] != &partition_ || slots->is_open(e)) continue;
    LEAT_RETURN_IF_ERROR(slots->open(e, edge.bytes, device));
  }
  return {};
}

Status Program::Builder::open_resources() {
  for (const PlanResource& resource : partition_.resources) {
    const Attrs attrs = with_defaults(*resource.op, resource.attrs);
    KernelSetup setup;
    setup.types.attrs = &attrs;
    setup.resources = program_.resources_;
    setup.device = program_.device_;
    setup.subject = cat(resource.op->full_name(), " '", resource.name, "'");
    LEAT_ASSIGN_OR_RETURN(Resource * made, resource.op->make_resource(setup));
    resource_addresses_.push_back(made->address());
  }
  return {};
}

// Of a value that has its own bytes; null of one that has none, or shows those of others.
Result<void*> Program::Builder::home_address(const PlanValue& value, uint64_t parity) {
  SlotTable* slots = program_.exchange_.slots;
  switch (value.home) {
    case Home::none:
    case Home::joined:
      break;
    case Home::arena:
      return static_cast<std::byte*>(program_.arena_->data()) + value.offset;
    case Home::resource:
      return resource_addresses_[value.index];
    case Home::constant:
      return program_.constants_[value.index]->data();
    case Home::slot:
      if (slots) return slots->slot(value.index, parity);
      return internal_error(
          cat("value '", value.name, "': lands from another partition, but no slots were given"));
    case Home::pages:
      if (parity > 0) return program_.pages_.back()->data();
      LEAT_ASSIGN_OR_RETURN(auto pages, allocate_pages(value.type.bytes()));
      program_.pages_.push_back(std::move(pages));
      return program_.pages_.back()->data();
  }
  return nullptr;
}

Status Program::Builder::bind_addresses() {
  for (const PlanValue& value : partition_.values) {
    std::array<void*, kSlotDepth> address{};
    for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
      if (value.alias == kNone) {
        LEAT_ASSIGN_OR_RETURN(address[parity], home_address(value, parity));
      } else if (auto* of = static_cast<std::byte*>(program_.addresses_[value.alias][parity])) {
        address[parity] = of + (value.offset - partition_.values[value.alias].offset);
      }
    }
    program_.addresses_.push_back(address);
  }
  return {};
}

// Where pieces show as one. After all else is bound: a piece may have moved to a place.
Status Program::Builder::bind_joined() {
  pieces_.assign(partition_.values.size(), kNone);
  for (uint32_t v = 0; v < partition_.values.size(); ++v) {
    const PlanValue& value = partition_.values[v];
    if (value.home != Home::joined) continue;
    if (!program_.device_->host_visible())
      return unimplemented(
          cat("value '", value.name, "': cannot be joined on ", program_.device_->name()));
    for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
      auto& address = program_.addresses_[v][parity];
      if (value.alias != kNone) {
        address = static_cast<std::byte*>(program_.addresses_[value.alias][parity]) + value.offset;
        continue;
      }
      std::vector<Pages> pieces;
      for (uint32_t piece : value.pieces)
        pieces.push_back(
            {program_.addresses_[piece][parity], partition_.values[piece].type.bytes()});
      auto joined = join_pages(pieces);
      if (!joined.ok()) return joined.status().while_doing(cat("joining '", value.name, "'"));
      program_.joined_.push_back(std::move(*joined));
      address = program_.joined_.back()->data();
    }
    for (uint32_t piece : value.pieces) pieces_[piece] = v;
  }
  for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::receive || instruction.outputs.empty()) continue;
    uint32_t& piece = pieces_[instruction.outputs[0]];
    if (piece != kNone) piece = i;
  }
  for (uint32_t v = 0; v < partition_.values.size(); ++v)
    if (partition_.values[v].home != Home::slot || partition_.values[v].alias != kNone)
      pieces_[v] = kNone;
  return {};
}

uint32_t Program::Builder::root(uint32_t value) const {
  while (partition_.values[value].alias != kNone) value = partition_.values[value].alias;
  return value;
}

void Program::Builder::list_aliases() {
  aliases_.resize(partition_.values.size());
  for (uint32_t v = 0; v < partition_.values.size(); ++v) {
    if (partition_.values[v].alias != kNone) aliases_[root(v)].push_back(v);
  }
}

// Large values are computed where their channels want them, if they do: where the first wants it,
// and other channels may want it there, too.
void Program::Builder::bind_places() {
  if (!program_.device_->host_visible()) return;
  for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::send) continue;
    const PlanEdge& edge = plan_.edges[instruction.edge];
    Channel* const channel = program_.exchange_.channels[edge.to];
    if (edge.bytes <= kSmallBytes || !channel || !channel->place(instruction.edge, 0) ||
        !may_be_placed(partition_, i))
      continue;
    const uint32_t first = root(instruction.inputs[0]);
    if (places_.contains(first) && !is_in_place(i)) continue;
    const auto put = [&](uint32_t v) {
      places_[v].push_back(&channel->credit(instruction.edge));
      for (uint64_t parity = 0; parity < kSlotDepth; ++parity)
        program_.addresses_[v][parity] = channel->place(instruction.edge, parity);
    };
    put(first);
    for (uint32_t v : aliases_[first]) put(v);
  }
}

// Is what it sends computed where its channel wants it?
bool Program::Builder::is_in_place(uint32_t send) const {
  const PlanInstruction& instruction = partition_.instructions[send];
  const uint32_t value = instruction.inputs[0];
  Channel* const channel = program_.exchange_.channels[plan_.edges[instruction.edge].to];
  return places_.contains(value) &&
         program_.addresses_[value][0] == channel->place(instruction.edge, 0);
}

Status Program::Builder::make_kernel(uint32_t index) {
  const PlanInstruction& instruction = partition_.instructions[index];
  Device* const device = program_.device_;
  LEAT_ASSIGN_OR_RETURN(program_.owned_kernels_[index],
                        make_instruction_kernel(partition_, instruction, device->kind(), device,
                                                program_.resources_));
  if (!program_.timed_kernels_.empty()) {
    auto timed = std::make_unique<TimedKernel>(std::move(program_.owned_kernels_[index]));
    program_.timed_kernels_[index] = timed.get();
    program_.owned_kernels_[index] = std::move(timed);
  }
  return {};
}

Status Program::Builder::make_kernels() {
  program_.owned_kernels_.resize(partition_.instructions.size());
  for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
    if (partition_.instructions[i].kind == PlanInstruction::Kind::kernel)
      LEAT_RETURN_IF_ERROR(make_kernel(i));
  }
  return {};
}

Status Program::Builder::allocate_workspaces() {
  for (const auto& kernel : program_.owned_kernels_) {
    workspace_offsets_.push_back(workspace_bytes_);
    if (!kernel) continue;
    workspace_bytes_ += align_up(kernel->workspace_bytes(), program_.device_->alignment());
    program_.scratch_bytes_ = std::max(program_.scratch_bytes_, kernel->scratch_bytes());
  }
  program_.scratch_bytes_ = align_up(program_.scratch_bytes_, 64);
  LEAT_ASSIGN_OR_RETURN(program_.workspace_, program_.device_->allocate(workspace_bytes_));
  return {};
}

Status Program::Builder::allocate_fetches() {
  program_.fetch_values_.assign(plan_.fetches.size(), kNone);
  program_.fetch_rings_.resize(plan_.fetches.size());
  for (const PlanInstruction& instruction : partition_.instructions) {
    if (instruction.kind != PlanInstruction::Kind::fetch) continue;
    const uint32_t value = instruction.inputs[0];
    program_.fetch_values_[instruction.edge] = value;
    const size_t bytes = partition_.values[value].type.bytes() * kFetchDepth;
    LEAT_ASSIGN_OR_RETURN(program_.fetch_rings_[instruction.edge],
                          program_.device_->allocate(bytes));
  }
  return {};
}

uint32_t Program::Builder::bind(uint32_t index) {
  if (bound_[index] != kNone) return bound_[index];
  const PlanInstruction& instruction = partition_.instructions[index];
  auto bound = std::make_unique<BoundKernel>();
  bound->kernel = program_.owned_kernels_[index].get();
  bound->instruction = index;
  bound->inputs = static_cast<uint32_t>(instruction.inputs.size());
  bound->outputs = static_cast<uint32_t>(instruction.outputs.size());
  const size_t operands = instruction.inputs.size() + instruction.outputs.size();
  bound->operands.reserve(kSlotDepth * operands);  // contexts point into it
  for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
    const auto address = [&](uint32_t value) {
      return value == kNone ? nullptr : program_.addresses_[value][parity];
    };
    for (uint32_t input : instruction.inputs) bound->operands.push_back(address(input));
    for (uint32_t output : instruction.outputs) bound->operands.push_back(address(output));
    KernelContext& context = bound->context[parity];
    context.inputs = bound->operands.data() + parity * operands;
    context.outputs = context.inputs + instruction.inputs.size();
    context.workspace =
        static_cast<std::byte*>(program_.workspace_->data()) + workspace_offsets_[index];
    context.queue = &program_.device_->queue();
    context.instruction = index;
  }
  program_.kernels_.push_back(std::move(bound));
  return bound_[index] = static_cast<uint32_t>(program_.kernels_.size() - 1);
}

}  // namespace leat
