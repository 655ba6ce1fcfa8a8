#include "scheduler/runtime/program.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/validate.h"
#include "scheduler/runtime/program_builder.h"

namespace leat {
namespace {

uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

bool is_variable(const PlanValue& value) { return value.type.dtype != DType::invalid; }

}  // namespace

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

Status Program::Builder::bind_addresses() {
  auto* arena = static_cast<std::byte*>(program_.arena_->data());
  SlotTable* slots = program_.exchange_.slots;
  for (const PlanValue& value : partition_.values) {
    std::array<void*, kSlotDepth> address{};
    for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
      switch (value.home) {
        case Home::none:
          break;
        case Home::arena:
          address[parity] = arena + value.offset;
          break;
        case Home::resource:
          address[parity] = resource_addresses_[value.index];
          break;
        case Home::constant:
          address[parity] = program_.constants_[value.index]->data();
          break;
        case Home::slot:
          if (!slots)
            return internal_error(cat("value '", value.name,
                                      "': lands from another partition, but no slots were given"));
          address[parity] = slots->slot(value.index, parity);
          break;
      }
    }
    program_.addresses_.push_back(address);
  }
  return {};
}

Status Program::Builder::make_kernel(uint32_t index) {
  const PlanInstruction& instruction = partition_.instructions[index];
  const Attrs attrs = with_defaults(*instruction.op, instruction.attrs);
  Node node;
  node.op = instruction.op;
  node.attrs = instruction.attrs;
  node.source = instruction.source;
  node.first_row = instruction.first_row;
  node.name = instruction.name;
  KernelSetup setup;
  setup.types.attrs = &attrs;
  setup.node = &node;
  setup.tile_rows = instruction.tile_rows;
  setup.device = program_.device_;
  setup.resources = program_.resources_;
  setup.subject = cat(instruction.op->full_name(), " '", instruction.name, "'");
  for (uint32_t input : instruction.inputs) {
    setup.types.inputs.push_back(input == kNone ? OperandType() : partition_.values[input].type);
    const bool known = input != kNone && partition_.values[input].home == Home::constant;
    setup.constants.push_back(known ? &partition_.constants[partition_.values[input].index]
                                    : nullptr);
  }
  for (uint32_t output : instruction.outputs) {
    setup.types.outputs.push_back(output == kNone ? OperandType() : partition_.values[output].type);
  }
  const auto factory = instruction.op->kernels.find(program_.device_->kind());
  if (factory == instruction.op->kernels.end()) {
    return unimplemented(cat(setup.subject, ": has no kernel for ", program_.device_->kind()));
  }
  LEAT_ASSIGN_OR_RETURN(program_.owned_kernels_[index], factory->second(setup));
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
  for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
    const auto address = [&](uint32_t value) {
      return value == kNone ? nullptr : program_.addresses_[value][parity];
    };
    for (uint32_t input : instruction.inputs) bound->inputs[parity].push_back(address(input));
    for (uint32_t output : instruction.outputs) bound->outputs[parity].push_back(address(output));
    KernelContext& context = bound->context[parity];
    context.inputs = bound->inputs[parity].data();
    context.outputs = bound->outputs[parity].data();
    context.workspace =
        static_cast<std::byte*>(program_.workspace_->data()) + workspace_offsets_[index];
    context.queue = &program_.device_->queue();
    context.instruction = index;
  }
  program_.kernels_.push_back(std::move(bound));
  return bound_[index] = static_cast<uint32_t>(program_.kernels_.size() - 1);
}

// Phases [from, to) of one instruction, an entry each.
void Program::Builder::list_kernel(uint32_t index, int from, int to) {
  const PlanInstruction& instruction = partition_.instructions[index];
  const uint32_t kernel = bind(index);
  bool may_block = false;
  for (uint32_t input : instruction.inputs) {
    may_block = may_block || (input != kNone && partition_.values[input].home == Home::resource &&
                              !is_variable(partition_.values[input]));
  }
  for (int phase = from; phase < to; ++phase) {
    Entry entry;
    entry.phase = phase;
    entry.may_block = may_block;
    entry.tiles = static_cast<uint32_t>(program_.kernels_[kernel]->kernel->tiles(phase));
    entry.first = kernel;
    entry.last = kernel + 1;
    entry.instruction = index;
    program_.entries_.push_back(std::move(entry));
  }
}

bool Program::Builder::chain_fits(uint32_t first, uint32_t last) const {
  int tiles = -1;
  for (uint32_t i = first; i < last; ++i) {
    const Kernel& kernel = *program_.owned_kernels_[i];
    const int own = kernel.tiles(kernel.row_phase());
    if (tiles >= 0 && own != tiles) return false;
    tiles = own;
  }
  return true;
}

// What comes before the rows of each member, then the rows of all of them tile by tile, then what
// comes after.
void Program::Builder::list_chain(uint32_t first, uint32_t last) {
  for (uint32_t i = first; i < last; ++i)
    list_kernel(i, 0, program_.owned_kernels_[i]->row_phase());
  // Members stand side by side in kernels_, whether they were bound above or not.
  Entry entry;
  entry.first = static_cast<uint32_t>(program_.kernels_.size());
  entry.instruction = first;
  TileValues values;
  if (program_.device_->host_visible()) values = find_tile_values(partition_, first, last);
  program_.tile_memory_bytes_ = std::max(program_.tile_memory_bytes_, align_up(values.bytes, 64));
  for (uint32_t i = first; i < last; ++i) {
    bound_[i] = kNone;
    program_.kernels_[bind(i)]->tile_operands =
        tile_operands(partition_, partition_.instructions[i], values);
  }
  entry.last = static_cast<uint32_t>(program_.kernels_.size());
  const Kernel& kernel = *program_.owned_kernels_[first];
  entry.tiles = static_cast<uint32_t>(kernel.tiles(kernel.row_phase()));
  entry.phase = -1;  // each member's row phase
  program_.entries_.push_back(std::move(entry));
  for (uint32_t i = first; i < last; ++i) {
    list_kernel(i, program_.owned_kernels_[i]->row_phase() + 1,
                program_.owned_kernels_[i]->phases());
  }
}

void Program::Builder::list_entries() {
  bound_.assign(partition_.instructions.size(), kNone);
  const auto n = static_cast<uint32_t>(partition_.instructions.size());
  for (uint32_t i = 0; i < n;) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::kernel) {
      Entry entry;
      static constexpr Entry::Kind kKinds[] = {Entry::Kind::kernel, Entry::Kind::send,
                                               Entry::Kind::receive, Entry::Kind::retire,
                                               Entry::Kind::fetch};
      entry.kind = kKinds[static_cast<int>(instruction.kind)];
      entry.instruction = i;
      entry.edge = instruction.edge;
      if (entry.kind == Entry::Kind::send) entry.edge_peer = plan_.edges[instruction.edge].to;
      program_.entries_.push_back(std::move(entry));
      ++i;
      continue;
    }
    uint32_t last = i + 1;
    while (instruction.chain != kNone && last < n &&
           partition_.instructions[last].chain == instruction.chain)
      ++last;
    if (last > i + 1 && chain_fits(i, last)) {
      list_chain(i, last);
    } else {
      for (uint32_t k = i; k < last; ++k) list_kernel(k, 0, program_.owned_kernels_[k]->phases());
    }
    i = last;
  }
  // What each entry touches.
  std::vector<std::vector<Access>> accesses(program_.entries_.size());
  const auto touch = [&](size_t e, uint32_t value, bool write) {
    if (value == kNone) return;
    const PlanValue& v = partition_.values[value];
    const bool opaque = v.home == Home::resource && !is_variable(v);  // a queue: in plan order
    const size_t bytes = opaque ? 1 : v.type.bytes();
    for (void* address : program_.addresses_[value]) {
      const auto begin = reinterpret_cast<uintptr_t>(address);
      if (address) accesses[e].push_back({begin, begin + bytes, write || opaque});
    }
  };
  const auto touch_instruction = [&](size_t e, uint32_t index) {
    const PlanInstruction& instruction = partition_.instructions[index];
    const bool hands_back = instruction.kind == PlanInstruction::Kind::retire;
    for (size_t k = 0; k < instruction.inputs.size(); ++k) {
      const auto& writes = instruction.op ? instruction.op->writes : std::vector<int>();
      const bool written =
          std::find(writes.begin(), writes.end(), static_cast<int>(k)) != writes.end();
      touch(e, instruction.inputs[k], written || hands_back);
    }
    for (uint32_t output : instruction.outputs) touch(e, output, true);
    if (const Kernel* kernel = program_.owned_kernels_[index].get();
        kernel && kernel->workspace_bytes() > 0) {
      const auto begin =
          reinterpret_cast<uintptr_t>(program_.workspace_->data()) + workspace_offsets_[index];
      accesses[e].push_back({begin, begin + kernel->workspace_bytes(), true});
    }
  };
  for (size_t e = 0; e < program_.entries_.size(); ++e) {
    const Entry& entry = program_.entries_[e];
    if (entry.kind != Entry::Kind::kernel) {
      touch_instruction(e, entry.instruction);
      continue;
    }
    for (uint32_t k = entry.first; k < entry.last; ++k)
      touch_instruction(e, program_.kernels_[k]->instruction);
  }
  find_dependencies(accesses, program_.entries_);
  // The phases of one instruction follow each other even if they share no bytes.
  for (size_t e = 1; e < program_.entries_.size(); ++e) {
    Entry& entry = program_.entries_[e];
    const Entry& before = program_.entries_[e - 1];
    if (entry.kind == Entry::Kind::kernel && before.kind == Entry::Kind::kernel &&
        entry.phase > 0 && entry.instruction == before.instruction && entry.after.empty()) {
      entry.after.push_back(static_cast<uint32_t>(e - 1));
    }
  }
}

}  // namespace leat
