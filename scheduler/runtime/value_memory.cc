#include "scheduler/runtime/value_memory.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "devices/core/pages.h"
#include "ops/graph/validate.h"
#include "scheduler/runtime/places.h"
#include "transport/links/frame.h"

namespace leat {

// Each part needs those before it: addresses come first, then a place moves a value and its
// aliases, and a joined value shows its pieces where they are in the end.
Status ValueMemory::bind() {
  LEAT_RETURN_IF_ERROR(allocate());
  LEAT_RETURN_IF_ERROR(open_resources());
  LEAT_RETURN_IF_ERROR(bind_addresses());
  aliases_.resize(partition_.values.size());
  for (uint32_t v = 0; v < partition_.values.size(); ++v) {
    if (partition_.values[v].alias != kNone) aliases_[partition_.root(v)].push_back(v);
  }
  bind_places();
  LEAT_RETURN_IF_ERROR(bind_joined());
  find_pieces();
  return {};
}

Status ValueMemory::allocate() {
  LEAT_ASSIGN_OR_RETURN(arena_, device_.allocate(partition_.arena_bytes));
  for (const Tensor& constant : partition_.constants) {
    LEAT_ASSIGN_OR_RETURN(auto buffer, device_.allocate(constant.bytes()));
    device_.copy_to_device(buffer->data(), constant.raw(), constant.bytes());
    constants_.push_back(std::move(buffer));
  }
  // Links have opened the slots that must lie in memory of their own. The others are opened here.
  SlotTable* slots = exchange_.slots;
  for (uint32_t e = 0; slots && e < plan_.edges.size(); ++e) {
    const PlanEdge& edge = plan_.edges[e];
    if (&plan_.partitions[edge.to] != &partition_ || slots->is_open(e)) continue;
    LEAT_RETURN_IF_ERROR(slots->open(e, edge.bytes, device_));
  }
  return device_.host_visible() ? Status() : allocate_transfers();
}

Status ValueMemory::allocate_transfers() {
  for (const PlanInstruction& instruction : partition_.instructions) {
    const bool sends = instruction.kind == PlanInstruction::Kind::send;
    if (!sends && instruction.kind != PlanInstruction::Kind::receive) continue;
    const uint64_t bytes = plan_.edges[instruction.edge].bytes;
    if (bytes == 0) continue;
    for (auto& buffer : (sends ? transfers_.departures : transfers_.landings)[instruction.edge]) {
      LEAT_ASSIGN_OR_RETURN(buffer, device_.allocate(bytes));
    }
    const uint32_t to = plan_.edges[instruction.edge].to;
    const Channel* channel = to < exchange_.channels.size() ? exchange_.channels[to] : nullptr;
    if (!sends || (channel && channel->takes_device_memory(instruction.edge))) continue;
    for (auto& buffer : transfers_.stagings[instruction.edge]) {
      LEAT_ASSIGN_OR_RETURN(buffer, device_.allocate_host(bytes));
    }
  }
  return {};
}

// Resources are found by name among the job's: the first plan that names one makes it.
Status ValueMemory::open_resources() {
  for (const PlanResource& resource : partition_.resources) {
    const Attrs attrs = with_defaults(*resource.op, resource.attrs);
    KernelSetup setup;
    setup.types.attrs = &attrs;
    setup.resources = &resources_;
    setup.device = &device_;
    setup.subject = cat(resource.op->full_name(), " '", resource.name, "'");
    LEAT_ASSIGN_OR_RETURN(Resource * made, resource.op->make_resource(setup));
    resource_addresses_.push_back(made->address());
  }
  return {};
}

// The address of a value with bytes of its own; null for one that has none, or is joined.
Result<void*> ValueMemory::home_address(const PlanValue& value, uint64_t parity) {
  switch (value.home) {
    case Home::none:
    case Home::joined:
      break;
    case Home::arena:
      return static_cast<std::byte*>(arena_->data()) + value.offset;
    case Home::resource:
      return resource_addresses_[value.index];
    case Home::constant:
      return constants_[value.index]->data();
    case Home::slot:
      if (void* landed = landing(value.index, parity)) return landed;
      if (exchange_.slots) return exchange_.slots->slot(value.index, parity);
      return internal_error(
          cat("value '", value.name, "': lands from another partition, but no slots were given"));
    case Home::pages:
      // Both parities have the same pages.
      if (parity > 0) return pages_.back()->data();
      LEAT_ASSIGN_OR_RETURN(auto pages, allocate_pages(value.type.bytes()));
      pages_.push_back(std::move(pages));
      return pages_.back()->data();
  }
  return nullptr;
}

// A value comes after the value whose bytes it shares, so that one pass binds both. A range begins
// behind its value by the difference of their offsets.
Status ValueMemory::bind_addresses() {
  for (const PlanValue& value : partition_.values) {
    std::array<void*, kSlotDepth> address{};
    for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
      if (value.alias == kNone) {
        LEAT_ASSIGN_OR_RETURN(address[parity], home_address(value, parity));
      } else if (auto* of = static_cast<std::byte*>(addresses_[value.alias][parity])) {
        address[parity] = of + (value.offset - partition_.values[value.alias].offset);
      }
    }
    addresses_.push_back(address);
  }
  return {};
}

// Moves large values to where their channels want them. The first channel decides; further channels
// that want the value in the same place have it there, too.
void ValueMemory::bind_places() {
  if (!device_.host_visible()) return;
  for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::send) continue;
    const PlanEdge& edge = plan_.edges[instruction.edge];
    Channel* const channel = exchange_.channels[edge.to];
    if (edge.bytes <= kSmallBytes || !channel || !channel->place(instruction.edge, 0) ||
        !may_be_placed(partition_, i))
      continue;
    const uint32_t first = partition_.root(instruction.inputs[0]);
    // The value has one place. A further channel with another one gets a copy when the value is
    // sent.
    if (places_.contains(first) && !is_in_place(i)) continue;
    const auto put = [&](uint32_t v) {
      places_[v].push_back(&channel->credit(instruction.edge));
      for (uint64_t parity = 0; parity < kSlotDepth; ++parity)
        addresses_[v][parity] = channel->place(instruction.edge, parity);
    };
    put(first);
    for (uint32_t v : aliases_[first]) put(v);
  }
}

bool ValueMemory::is_in_place(uint32_t send) const {
  const PlanInstruction& instruction = partition_.instructions[send];
  const uint32_t value = instruction.inputs[0];
  Channel* const channel = exchange_.channels[plan_.edges[instruction.edge].to];
  return places_.contains(value) && addresses_[value][0] == channel->place(instruction.edge, 0);
}

// After everything else is bound: a piece may have moved to a place.
Status ValueMemory::bind_joined() {
  for (uint32_t v = 0; v < partition_.values.size(); ++v) {
    const PlanValue& value = partition_.values[v];
    if (value.home != Home::joined) continue;
    if (!device_.host_visible())
      return unimplemented(cat("value '", value.name, "': cannot be joined on ", device_.name()));
    for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
      if (value.alias == kNone) {
        LEAT_ASSIGN_OR_RETURN(addresses_[v][parity], join(v, parity));
      } else {
        addresses_[v][parity] =
            static_cast<std::byte*>(addresses_[value.alias][parity]) + value.offset;
      }
    }
  }
  return {};
}

// Maps the pages of a joined value's pieces side by side.
Result<void*> ValueMemory::join(uint32_t value, uint64_t parity) {
  std::vector<Pages> pieces;
  for (uint32_t piece : partition_.values[value].pieces)
    pieces.push_back({addresses_[piece][parity], partition_.values[piece].type.bytes()});
  auto joined = join_pages(pieces);
  if (!joined.ok())
    return joined.status().while_doing(cat("joining '", partition_.values[value].name, "'"));
  joined_.push_back(std::move(*joined));
  return joined_.back()->data();
}

// Only pieces that land in slots of their own are received one by one. A piece that is computed
// here is ordered like any other value.
void ValueMemory::find_pieces() {
  std::vector<bool> is_piece(partition_.values.size(), false);
  for (const PlanValue& value : partition_.values) {
    if (value.home != Home::joined) continue;
    for (uint32_t piece : value.pieces) {
      const PlanValue& of = partition_.values[piece];
      is_piece[piece] = of.home == Home::slot && of.alias == kNone;
    }
  }
  pieces_.assign(partition_.values.size(), kNone);
  for (uint32_t i = 0; i < partition_.instructions.size(); ++i) {
    const PlanInstruction& instruction = partition_.instructions[i];
    if (instruction.kind != PlanInstruction::Kind::receive || instruction.outputs.empty()) continue;
    if (is_piece[instruction.outputs[0]]) pieces_[instruction.outputs[0]] = i;
  }
}

std::vector<ByteRange> ValueMemory::parts_of(uint32_t value, uint64_t begin, uint64_t end) const {
  const PlanValue& of = partition_.values[partition_.root(value)];
  if (of.home != Home::joined) return {{value, begin, end}};
  // A view's offset counts from the joined value, whose pieces follow each other without gaps.
  begin += partition_.values[value].offset;
  end += partition_.values[value].offset;
  std::vector<ByteRange> parts;
  uint64_t at = 0;
  for (uint32_t piece : of.pieces) {
    const uint64_t bytes = partition_.values[piece].type.bytes();
    if (begin < at + bytes && end > at)
      parts.push_back({piece, std::max(begin, at) - at, std::min(end, at + bytes) - at});
    at += bytes;
  }
  return parts;
}

}  // namespace leat
