#include "scheduler/plan/verify_partition.h"

#include <algorithm>

#include "devices/base/text.h"
#include "devices/core/pages.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/plan/verify_types.h"
#include "transport/slots.h"

namespace leat {
namespace {

using Kind = PlanInstruction::Kind;

constexpr uint64_t kAlignment = 64;  // of values in the arena: kernels load whole vectors
constexpr int64_t kMostGlobal = int64_t{1} << 62;  // elements that a first row may count over

bool is_plain_tensor(const OperandType& type) {
  return type.kind == ValueKind::tensor && type.layout == Layout::plain;
}
bool equal(const OperandType& type, DType dtype, const Shape& shape) {
  return type.dtype == dtype && type.shape == shape;
}
uint32_t bit_of(DType dtype) { return uint32_t{1} << static_cast<int>(dtype); }

}  // namespace

Status PartitionVerifier::wrong(const std::string& what) const {
  return internal_error(cat("plan '", plan_.name, "': partition ", index_, ": ", what));
}
Status PartitionVerifier::wrong(const PlanInstruction& instruction, const std::string& what) const {
  return wrong(cat("'", instruction.name, "' ", what));
}

Status PartitionVerifier::run() {
  // A runner knows only the device of such a partition, so anything else in it is a mistake.
  if (part_.elsewhere) {
    const bool empty = part_.values.empty() && part_.instructions.empty() &&
                       part_.resources.empty() && part_.constants.empty() && part_.feeds.empty() &&
                       part_.arena_bytes == 0;
    return empty ? Status() : wrong("is elsewhere, and yet has something in it");
  }
  fed_.assign(part_.values.size(), false);
  produced_.assign(part_.values.size(), false);
  contents_.assign(part_.values.size(), kNone);
  dtypes_.assign(part_.values.size(), 0);
  // Values are checked before instructions, because the checks of instructions rely on them. The
  // contents of each value are then followed through the step.
  LEAT_RETURN_IF_ERROR(check_sizes());
  LEAT_RETURN_IF_ERROR(check_resources());
  LEAT_RETURN_IF_ERROR(find_producers());
  for (uint32_t id = 0; id < part_.values.size(); ++id) LEAT_RETURN_IF_ERROR(check_value(id));
  LEAT_RETURN_IF_ERROR(check_feeds());
  for (uint32_t i = 0; i < part_.instructions.size(); ++i) {
    LEAT_RETURN_IF_ERROR(check_instruction(i));
  }
  LEAT_RETURN_IF_ERROR(check_commit());
  // This comes last: it relies on indices, offsets and aliases.
  const auto overlap = find_overlap(part_);
  if (!overlap) return {};
  return wrong(cat("value ", overlap->first, " '", part_.values[overlap->first].name,
                   "' shares bytes with value ", overlap->second, " while both are needed"));
}

Status PartitionVerifier::check_sizes() {
  const auto at_most = [&](std::string_view what, uint64_t most, uint64_t received) -> Status {
    if (received <= most) return {};
    return wrong(cat("expected at most ", most, " ", what, ", received ", received));
  };
  LEAT_RETURN_IF_ERROR(at_most("values", limits::kPlanValues, part_.values.size()));
  LEAT_RETURN_IF_ERROR(at_most("instructions", limits::kInstructions, part_.instructions.size()));
  LEAT_RETURN_IF_ERROR(at_most("resources", limits::kInstructions, part_.resources.size()));
  LEAT_RETURN_IF_ERROR(at_most("constants", limits::kInstructions, part_.constants.size()));
  // The bytes of constants and the arena count, and later those of resources, slots and pages.
  for (const Tensor& constant : part_.constants) {
    if (!constant.valid()) return wrong("has a constant without a type");
    LEAT_RETURN_IF_ERROR(take_memory(constant.bytes()));
  }
  return take_memory(part_.arena_bytes);
}

// Counts what the device needs: sums of it, in which nothing here may overflow.
Status PartitionVerifier::take_memory(uint64_t bytes) {
  if (bytes <= limits::kPartitionBytes && memory_ + bytes <= limits::kPartitionBytes) {
    memory_ += bytes;
    return {};
  }
  return wrong(cat("needs more than ", human_bytes(limits::kPartitionBytes), " of memory"));
}

Status PartitionVerifier::check_resources() {
  for (const PlanResource& resource : part_.resources) {
    // The op of a resource infers the type from its attributes. The bytes that the plan declares
    // must be those of this type, since memory is allocated by them.
    const std::string subject = cat("resource '", resource.name, "'");
    if (!resource.op || !resource.op->make_resource)
      return wrong(cat(subject, ": expected an op that makes a resource"));
    OpTypes types;
    types.outputs.resize(1);
    types.outputs[0].present = true;
    const auto inferred = infer_concrete(*resource.op, resource.attrs, subject, types, {});
    if (!inferred.ok()) return wrong(inferred.status().message());
    const OperandType& type = (*inferred)[0];
    if (type.kind != ValueKind::resource || resource.bytes != type.bytes())
      return wrong(cat(subject, ": expected ", type.bytes(), " bytes, received ", resource.bytes));
    LEAT_RETURN_IF_ERROR(take_memory(resource.bytes));
    resource_types_.push_back(type);
  }
  return {};
}

// Finds which values instructions produce, and checks that every operand is a value.
Status PartitionVerifier::find_producers() {
  for (const PlanInstruction& i : part_.instructions) {
    if (std::max(i.inputs.size(), i.outputs.size()) > limits::kOperands)
      return wrong(i, "has too many operands");
    for (const auto* list : {&i.inputs, &i.outputs}) {
      for (const uint32_t v : *list) {
        if (v != kNone && v >= part_.values.size()) return wrong(i, cat("names value ", v));
        if (v == kNone && i.kind != Kind::kernel) return wrong(i, "lacks an operand");
      }
    }
    for (const uint32_t v : i.outputs) {
      if (v == kNone) continue;
      // Two instructions that make one value would let a reader see either of them.
      if (produced_[v]) return wrong(i, cat("makes value ", v, ", which is made already"));
      produced_[v] = true;
    }
  }
  return {};
}

// ---------------------------------------------------------------------------------------------
// Values

Status PartitionVerifier::check_feeds() {
  if (part_.feeds.size() != plan_.feeds.size()) {
    return wrong(cat("has ", part_.feeds.size(), " feeds, the plan has ", plan_.feeds.size()));
  }
  for (size_t f = 0; f < part_.feeds.size(); ++f) {
    const uint32_t v = part_.feeds[f];
    if (v == kNone) continue;
    const PlanBorder& border = plan_.feeds[f];
    // The caller writes a feed between steps, so its bytes must be its own and no kernel may write
    // them.
    if (v >= part_.values.size() || fed_[v] || produced_[v] || part_.values[v].alias != kNone ||
        part_.values[v].home != Home::arena || !is_plain_tensor(part_.values[v].type) ||
        !equal(part_.values[v].type, border.dtype, border.shape)) {
      return wrong(cat("feed '", border.name, "' goes to value ", v,
                       ", which is none of its own of its type in the arena"));
    }
    fed_[v] = true;
    contents_[v] = v;
  }
  return {};
}

Status PartitionVerifier::check_value(uint32_t id) {
  const PlanValue& value = part_.values[id];
  if (const std::string fault = fault_of(value.type); !fault.empty())
    return wrong(cat("value ", id, " '", value.name, "' ", fault));
  if (value.type.kind == ValueKind::token) {
    if (value.home == Home::none && value.alias == kNone) return {};
    return wrong(cat("value ", id, " is a token with a place"));
  }
  // A value with bytes of its own. Constants and resources hold their contents before the step
  // begins.
  if (value.alias == kNone) {
    LEAT_RETURN_IF_ERROR(check_home(id));
    dtypes_[id] = bit_of(value.type.dtype);
    if (value.home == Home::constant || value.home == Home::resource) contents_[id] = id;
    return {};
  }
  if (value.alias >= id || part_.values[value.alias].alias != kNone)
    return wrong(cat("value ", id, " has a bad alias"));
  // An alias shares all bytes of an earlier value, or, as a view that no instruction makes, a
  // range.
  const PlanValue& of = part_.values[value.alias];
  const bool same_bytes = of.offset == value.offset && of.type.bytes() == value.type.bytes();
  const bool range = !produced_[id] && value.offset % kAlignment == 0 &&
                     value.offset >= of.offset && value.type.bytes() <= of.type.bytes() &&
                     value.offset - of.offset <= of.type.bytes() - value.type.bytes();
  if (of.home != value.home || of.home == Home::none || of.index != value.index ||
      !(same_bytes || range) || !value.pieces.empty() || value.type.kind != ValueKind::tensor) {
    return wrong(
        cat("value ", id, " has other bytes than value ", value.alias, ", whose bytes it shares"));
  }
  // A value that a kernel computes in place may have another type of the same size. Later views may
  // then use the bytes with this type, too.
  if (!produced_[id]) return check_view(id);
  dtypes_[value.alias] |= bit_of(value.type.dtype);
  return {};
}

Status PartitionVerifier::check_home(uint32_t id) {
  const PlanValue& value = part_.values[id];
  // Only resources are in resources, only values of the arena have offsets, only joined ones have
  // pieces.
  const bool is_resource = value.type.kind == ValueKind::resource;
  if (is_resource != (value.home == Home::resource) ||
      (value.home != Home::arena && value.offset != 0) ||
      value.pieces.empty() == (value.home == Home::joined))
    return wrong(cat("value ", id, " '", value.name, "' is not where its kind is"));
  switch (value.home) {
    case Home::none:
      return wrong(cat("value ", id, " '", value.name, "' is nowhere"));
    case Home::arena:
      if (value.offset % kAlignment == 0 && value.offset <= part_.arena_bytes &&
          value.type.bytes() <= part_.arena_bytes - value.offset)
        return {};
      return wrong(cat("value ", id, " '", value.name, "' ends outside the arena"));
    case Home::resource:
      if (value.index < resource_types_.size() && !produced_[id] &&
          equal(value.type, resource_types_[value.index].dtype, resource_types_[value.index].shape))
        return {};
      return wrong(cat("value ", id, " '", value.name, "' names no resource of its type"));
    case Home::constant:
      if (value.index < part_.constants.size() && !produced_[id] && is_plain_tensor(value.type) &&
          equal(value.type, part_.constants[value.index].dtype(),
                part_.constants[value.index].shape()))
        return {};
      return wrong(cat("value ", id, " '", value.name, "' names no constant of its type"));
    case Home::slot:
      if (value.index < plan_.edges.size() && plan_.edges[value.index].to == index_ &&
          plan_.edges[value.index].bytes == value.type.bytes() && is_plain_tensor(value.type))
        return {};
      return wrong(cat("value ", id, " '", value.name, "' names no edge of its size"));
    case Home::pages:
      if (!is_plain_tensor(value.type))
        return wrong(cat("value ", id, " '", value.name, "' is no tensor to have pages"));
      return take_memory(value.type.bytes());
    case Home::joined:
      return check_pieces(id);
  }
  return wrong(cat("value ", id, " has no home that there is"));
}

// Values that can be shown again, side by side.
Status PartitionVerifier::check_pieces(uint32_t id) const {
  const PlanValue& value = part_.values[id];
  uint64_t bytes = 0;
  // All pieces but the last must be whole pages, so the sum before each one is a multiple of a
  // page.
  for (const uint32_t p : value.pieces) {
    const PlanValue* piece = p < id ? &part_.values[p] : nullptr;
    if (!piece || piece->alias != kNone ||
        (piece->home != Home::slot && piece->home != Home::pages) ||
        piece->type.dtype != value.type.dtype || piece->type.bytes() < kLeastInPages ||
        bytes % kPageBytes != 0)
      return wrong(cat("value ", id, " '", value.name, "' cannot have value ", p, " as a piece"));
    bytes += piece->type.bytes();
    if (bytes > value.type.bytes()) break;
  }
  if (bytes == value.type.bytes() && is_plain_tensor(value.type) && !produced_[id]) return {};
  return wrong(cat("value ", id, " '", value.name, "' is not its pieces"));
}

// The bytes of an earlier value under another shape, or a range of them: no instruction makes it.
Status PartitionVerifier::check_view(uint32_t id) const {
  const PlanValue& value = part_.values[id];
  const PlanValue& of = part_.values[value.alias];
  // A view of a variable is allowed, but not one of a queue. The view must have a type with which
  // the bytes were used before: the bits of another type may be no valid elements.
  const bool readable = of.type.kind == ValueKind::tensor || dtype_size(of.type.dtype) > 0;
  if (readable && value.type.layout == Layout::plain && of.type.layout == Layout::plain &&
      (dtypes_[value.alias] & bit_of(value.type.dtype)) != 0)
    return {};
  return wrong(cat("value ", id, " '", value.name, "' is no view of value ", value.alias));
}

// ---------------------------------------------------------------------------------------------
// Instructions

Status PartitionVerifier::check_instruction(uint32_t index) {
  const PlanInstruction& i = part_.instructions[index];
  LEAT_RETURN_IF_ERROR(check_reads(i));
  if (i.kind == Kind::kernel) return check_kernel(index);
  // A transfer ends the current chain, and has nothing that only kernels have.
  chain_ = {};
  if (i.op || !i.attrs.empty() || i.chain != kNone || i.tile_rows != 0)
    return wrong(i, "is a transfer with a kernel");
  const size_t most = i.kind == Kind::fetch ? plan_.fetches.size() : plan_.edges.size();
  if (i.edge >= most)
    return wrong(i, cat("names ", i.kind == Kind::fetch ? "fetch " : "edge ", i.edge));
  switch (i.kind) {
    case Kind::send:
      return check_send(i);
    case Kind::receive:
      return check_receive(i);
    case Kind::retire:
      return check_retire(i);
    case Kind::fetch:
      return check_fetch(i);
    case Kind::kernel:
      break;
  }
  return wrong(i, "is of no kind that there is");
}

Status PartitionVerifier::check_reads(const PlanInstruction& instruction) const {
  for (const uint32_t v : instruction.inputs) {
    if (v == kNone || part_.values[v].type.kind == ValueKind::token) continue;
    if (!is_there(v)) return wrong(instruction, cat("reads value ", v, " when it is not there"));
  }
  return {};
}

bool PartitionVerifier::is_there(uint32_t id) const {
  const PlanValue& of = part_.values[part_.root(id)];
  if (of.home == Home::joined) {
    return std::all_of(of.pieces.begin(), of.pieces.end(),
                       [&](uint32_t piece) { return contents_[piece] == piece; });
  }
  // The bytes hold this value, or it is a view of whatever they hold now.
  const uint32_t held = contents_[part_.root(id)];
  const bool is_view = part_.values[id].alias != kNone && !produced_[id];
  return held != kNone && (held == id || is_view);
}

Status PartitionVerifier::check_send(const PlanInstruction& instruction) {
  const PlanEdge& edge = plan_.edges[instruction.edge];
  ++uses_.sent[instruction.edge];
  if (edge.from != index_ || instruction.inputs.size() != 1 || !instruction.outputs.empty())
    return wrong(instruction, "is sent from the wrong partition");
  const OperandType& type = part_.values[instruction.inputs[0]].type;
  const bool is_token = type.kind == ValueKind::token;
  if ((!is_token && !is_plain_tensor(type)) || (is_token ? 0 : type.bytes()) != edge.bytes)
    return wrong(instruction, "is sent in the wrong size");
  return {};
}

Status PartitionVerifier::check_receive(const PlanInstruction& instruction) {
  const uint32_t e = instruction.edge;
  if (plan_.edges[e].to != index_ || !instruction.inputs.empty() ||
      instruction.outputs.size() > 1) {
    return wrong(instruction, "is received by the wrong partition");
  }
  if (++uses_.received[e] > 1) return wrong(instruction, "is received twice");
  if (instruction.outputs.empty()) {
    landed_[e] = kNone;
    return plan_.edges[e].bytes == 0 ? Status() : wrong(instruction, "is received into nothing");
  }
  const uint32_t v = instruction.outputs[0];
  const PlanValue& value = part_.values[v];
  if (value.home != Home::slot || value.index != e || value.alias != kNone)
    return wrong(instruction, "is received into another place than its slot");
  // From here to its retire the slot holds the value.
  landed_[e] = contents_[v] = v;
  return take_memory(kSlotDepth * plan_.edges[e].bytes);
}

Status PartitionVerifier::check_retire(const PlanInstruction& instruction) {
  const auto landed = landed_.find(instruction.edge);
  if (landed == landed_.end()) return wrong(instruction, "is retired before it is received");
  if (++uses_.retired[instruction.edge] > 1) return wrong(instruction, "is retired twice");
  const bool has_value = landed->second != kNone;
  if (!instruction.outputs.empty() || instruction.inputs.size() != (has_value ? 1 : 0) ||
      (has_value && instruction.inputs[0] != landed->second))
    return wrong(instruction, "retires another value than the one received");
  // The sender may write to the slot from now on, so no later instruction may read it.
  if (has_value) contents_[landed->second] = kNone;
  return {};
}

Status PartitionVerifier::check_fetch(const PlanInstruction& instruction) {
  const PlanBorder& fetch = plan_.fetches[instruction.edge];
  ++uses_.fetched[instruction.edge];
  if (fetch.partition != index_ || instruction.inputs.size() != 1 || !instruction.outputs.empty())
    return wrong(instruction, "is fetched from the wrong partition");
  const OperandType& type = part_.values[instruction.inputs[0]].type;
  if (!is_plain_tensor(type) || !equal(type, fetch.dtype, fetch.shape))
    return wrong(instruction, cat("is no ", fetch.dtype, fetch.shape, " to fetch"));
  // A fetch keeps a ring of its last values.
  return take_memory(kFetchDepth * type.bytes());
}

// Checks that all of the step's writes follow the Commit, and that nothing among them waits.
Status PartitionVerifier::check_commit() const {
  const uint32_t commit = part_.commit(), last = part_.last_write();
  if (commit == kNone) return {};
  for (uint32_t index = 0; index < part_.instructions.size(); ++index) {
    const PlanInstruction& i = part_.instructions[index];
    const bool writes = i.op && !i.op->writes.empty();
    if (index < commit && writes) return wrong(i, "is written before the step is committed");
    if (index <= commit) continue;
    if (i.op == part_.instructions[commit].op) return wrong(i, "commits the step once more");
    // Between the Commit and the last write a transfer, or a kernel that uses a queue, could wait
    // for another run. If that run failed, half of a step would be written.
    if (last == kNone || index > last) continue;
    if (i.kind != Kind::kernel) return wrong(i, "stands between the writes of a commit");
    for (const uint32_t v : i.inputs) {
      if (v != kNone && part_.values[v].home == Home::resource &&
          part_.values[v].type.dtype == DType::invalid)
        return wrong(i, "may wait between the writes of a commit");
    }
  }
  return {};
}

// ---------------------------------------------------------------------------------------------
// Kernels

Status PartitionVerifier::check_kernel(uint32_t index) {
  const PlanInstruction& i = part_.instructions[index];
  if (!i.op) return wrong(i, "has no op");
  if (i.op->make_resource || i.edge != kNone) return wrong(i, "is no kernel");
  // The types of the operands with the attributes' defaults, as kernels see them.
  const Attrs attrs = with_defaults(*i.op, i.attrs);
  OpTypes types;
  types.attrs = &attrs;
  int64_t elements = 1;
  for (const auto& [values, out] :
       {std::pair(&i.inputs, &types.inputs), std::pair(&i.outputs, &types.outputs)}) {
    for (const uint32_t v : *values) {
      out->push_back(v == kNone ? OperandType() : part_.values[v].type);
      out->back().present = v != kNone;
      elements = std::max(elements, out->back().shape.elements());
    }
  }
  // Kernels multiply the first row by sizes of operands, which must not overflow.
  const auto reach = checked_mul(i.first_row, elements);
  if (i.first_row < 0 || !reach || *reach > kMostGlobal)
    return wrong(i, cat("begins at row ", i.first_row, " of the global tensor"));
  // The types come first: tilings and layouts are computed from types that the op's inference
  // accepted.
  LEAT_RETURN_IF_ERROR(check_types(i, types));
  if (!layouts_fit(*i.op, types)) return wrong(i, "has operands in layouts that it cannot have");
  LEAT_RETURN_IF_ERROR(check_chain(index, types));
  return check_outputs(i);
}

// The outputs must be what the op's own rule infers from the inputs.
Status PartitionVerifier::check_types(const PlanInstruction& instruction,
                                      const OpTypes& types) const {
  std::vector<const Tensor*> constants;
  for (const uint32_t v : instruction.inputs) {
    // A rule may look at the elements of a constant. A range of one is not known to it.
    const bool known = v != kNone && part_.values[v].home == Home::constant &&
                       part_.values[v].type.bytes() == part_.values[part_.root(v)].type.bytes();
    // Of a view: the same elements, whatever the shape; rules look at lists.
    constants.push_back(known ? &part_.constants[part_.values[v].index] : nullptr);
  }
  const std::string subject = instruction.op->full_name() + " '" + instruction.name + "'";
  const auto inferred =
      infer_concrete(*instruction.op, instruction.attrs, subject, types, constants);
  if (!inferred.ok()) return wrong(inferred.status().message());
  for (size_t k = 0; k < types.outputs.size(); ++k) {
    if (!types.outputs[k].present) continue;
    const OperandType& expected = (*inferred)[k];
    if (types.outputs[k].kind == expected.kind &&
        equal(types.outputs[k], expected.dtype, expected.shape))
      continue;
    return wrong(cat(subject, ": output ", k, ": expected ", expected.dtype, expected.shape,
                     ", received ", types.outputs[k].dtype, types.outputs[k].shape));
  }
  return {};
}

// Kernels write to the arena and to pages only, each value once.
Status PartitionVerifier::check_outputs(const PlanInstruction& instruction) {
  std::vector<uint32_t> overwritten;
  for (size_t k = 0; k < instruction.outputs.size(); ++k) {
    const uint32_t v = instruction.outputs[k];
    if (v == kNone || part_.values[v].type.kind == ValueKind::token) continue;
    // A slot, a constant or a variable is no output: kernels write to a variable by the op's own
    // rule, as an input.
    const Home home = part_.values[v].home;
    if ((home != Home::arena && home != Home::pages) || fed_[v])
      return wrong(instruction, cat("writes value ", v, ", which is not of the arena"));
    if (part_.values[v].alias == kNone) continue;
    // Two outputs may not take the bytes of the same input.
    if (!may_overwrite(instruction, k) ||
        std::find(overwritten.begin(), overwritten.end(), part_.root(v)) != overwritten.end())
      return wrong(instruction, cat("computes value ", v, " in place of another than its input"));
    overwritten.push_back(part_.root(v));
  }
  // Only now the old contents are gone: the instruction itself still reads them.
  for (const uint32_t v : instruction.outputs) {
    if (v != kNone && part_.values[v].type.kind != ValueKind::token) contents_[part_.root(v)] = v;
  }
  return {};
}

// May output k take the bytes of an input? If the op says so, and nothing else of it reads them.
bool PartitionVerifier::may_overwrite(const PlanInstruction& instruction, size_t k) const {
  const uint32_t from = part_.root(instruction.outputs[k]);
  const auto shares = [&](uint32_t v) { return v != kNone && part_.root(v) == from; };
  const auto& pairs = instruction.op->in_place;
  const bool allowed = std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
    const auto [out, in] = pair;
    return static_cast<size_t>(out) == k && static_cast<size_t>(in) < instruction.inputs.size() &&
           shares(instruction.inputs[static_cast<size_t>(in)]);
  });
  return allowed && !fed_[from] &&
         std::count_if(instruction.inputs.begin(), instruction.inputs.end(), shares) == 1 &&
         part_.values[from].type.layout == part_.values[instruction.outputs[k]].type.layout;
}

Status PartitionVerifier::check_chain(uint32_t index, const OpTypes& types) {
  const PlanInstruction& i = part_.instructions[index];
  if (i.chain == kNone) {
    chain_ = {};
    return i.tile_rows == 0 ? Status() : wrong(i, "has tiles and no chain");
  }
  // The first member begins the chain. All members must be cut into the same tiles, which each op
  // allows.
  const Tiling tiling = i.op->tiling ? i.op->tiling(types) : Tiling();
  if (i.chain == index) {
    chain_ = {};
    chain_.first = index;
    chain_.rows = tiling.rows;
    chain_.tile_rows = i.tile_rows;
  }
  if (chain_.first != i.chain)
    return wrong(i, cat("belongs to chain ", i.chain, ", which is over"));
  const int64_t most = std::max(tiling.rows, tiling.fixed_rows);
  if (tiling.rows < 1 || tiling.rows != chain_.rows || i.tile_rows != chain_.tile_rows ||
      i.tile_rows < 1 || i.tile_rows > most || tiling.rows / i.tile_rows >= limits::kTiles ||
      (tiling.fixed_rows > 0 && tiling.fixed_rows != i.tile_rows)) {
    return wrong(i, cat("has tiles of ", i.tile_rows, " rows, it cannot be cut so"));
  }
  return check_member(i, tiling);
}

// A member reads of what its chain made its own rows alone.
Status PartitionVerifier::check_member(const PlanInstruction& instruction, const Tiling& tiling) {
  for (size_t k = 0; k < instruction.inputs.size(); ++k) {
    const uint32_t v = instruction.inputs[k];
    // When a tile of this member runs, other tiles of earlier members may not be done. So it may
    // read what the chain made only row by row.
    const auto made = v == kNone ? chain_.made.end() : chain_.made.find(part_.root(v));
    if (made == chain_.made.end()) continue;
    const Shape& shape = part_.values[v].type.shape;
    const bool whole = part_.values[v].type.bytes() == part_.values[part_.root(v)].type.bytes();
    const bool by_rows = made->second && k < 32 && (tiling.row_inputs >> k & 1) && whole &&
                         shape.rank() > 0 && shape[0] == chain_.rows;
    if (!by_rows)
      return wrong(instruction, cat("reads value ", v, " before its chain has made it"));
  }
  for (size_t k = 0; k < instruction.outputs.size(); ++k) {
    const uint32_t v = instruction.outputs[k];
    if (v == kNone) continue;
    // A member runs on its first tile before earlier members run on their last. It may not
    // overwrite what those still have to read, unless the chain itself made it row by row.
    const bool fresh = !chain_.made.contains(part_.root(v));
    if (fresh && chain_.read.contains(part_.root(v)))
      return wrong(instruction,
                   cat("overwrites value ", part_.root(v), " while its chain reads it"));
    chain_.made[part_.root(v)] = k < 32 && (tiling.row_outputs >> k & 1);
  }
  for (const uint32_t v : instruction.inputs) {
    if (v != kNone) chain_.read.insert(part_.root(v));
  }
  return {};
}

}  // namespace leat
