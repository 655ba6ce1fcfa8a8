#include "scheduler/plan/plan.h"

#include <algorithm>

#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "scheduler/graph/op_name.h"
#include "transport/slots.h"

namespace leat {

uint64_t Partition::resource_bytes() const {
  uint64_t bytes = 0;
  for (const PlanResource& resource : resources) bytes += resource.bytes;
  return bytes;
}

uint64_t Partition::constant_bytes() const {
  uint64_t bytes = 0;
  for (const Tensor& constant : constants) bytes += constant.bytes();
  return bytes;
}

// An absent operand has a type that is not present, so that operands keep their positions.
OpTypes Partition::types_of(const PlanInstruction& instruction, const Attrs& attrs) const {
  OpTypes types;
  types.attrs = &attrs;
  const auto type = [&](uint32_t v) { return v == kNone ? OperandType() : values[v].type; };
  for (uint32_t input : instruction.inputs) types.inputs.push_back(type(input));
  for (uint32_t output : instruction.outputs) types.outputs.push_back(type(output));
  return types;
}

// The link, and not the partition, may own this memory. It counts here because the device needs it.
uint64_t Partition::slot_bytes() const {
  uint64_t bytes = 0;
  for (const PlanInstruction& instruction : instructions) {
    // Every received value has two slots, for the step that is read and for the one that arrives. A
    // token has no output and no slot.
    if (instruction.kind != PlanInstruction::Kind::receive) continue;
    for (uint32_t output : instruction.outputs) bytes += kSlotDepth * values[output].type.bytes();
  }
  return bytes;
}

// An alias lies in the pages of its root, so it adds nothing.
uint64_t Partition::page_bytes() const {
  uint64_t bytes = 0;
  for (const PlanValue& value : values)
    if (value.home == Home::pages && value.alias == kNone) bytes += value.type.bytes();
  return bytes;
}

uint32_t Partition::last_write() const {
  for (size_t i = instructions.size(); i-- > 0;) {
    if (instructions[i].op && !instructions[i].op->writes.empty()) return static_cast<uint32_t>(i);
  }
  return kNone;
}

// verify() allows one Commit at most.
uint32_t Partition::commit() const {
  const auto found =
      std::find_if(instructions.begin(), instructions.end(),
                   [](const PlanInstruction& i) { return i.op && is_op(*i.op, "leat.Commit"); });
  return found == instructions.end() ? kNone : static_cast<uint32_t>(found - instructions.begin());
}

// A partition that writes nothing needs no Commit.
bool Plan::commits() const {
  return std::all_of(partitions.begin(), partitions.end(), [](const Partition& partition) {
    return partition.last_write() == kNone || partition.commit() != kNone;
  });
}

namespace {

// Formats an attribute. Of a tensor it shows the first elements only.
std::string attr_text(const Attr& attr) {
  if (const auto* tensor = std::get_if<Tensor>(&attr)) return tensor->to_string(8);
  if (const auto* text = std::get_if<std::string>(&attr)) return "\"" + *text + "\"";
  if (const auto* number = std::get_if<int64_t>(&attr)) return std::to_string(*number);
  if (const auto* number = std::get_if<double>(&attr)) return shortest(*number);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&attr))
    return "[" + join(*list, ",") + "]";
  if (const auto* list = std::get_if<std::vector<std::string>>(&attr))
    return "[" + join(*list, ",") + "]";
  if (const auto* list = std::get_if<std::vector<double>>(&attr)) {
    std::vector<std::string> numbers;
    for (double number : *list) numbers.push_back(shortest(number));
    return "[" + join(numbers, ",") + "]";
  }
  return "graph";
}

std::string attrs_text(const Attrs& attrs) {
  std::vector<std::string> items;
  for (const auto& [name, attr] : attrs) items.push_back(name + "=" + attr_text(attr));
  return items.empty() ? "" : " <" + join(items, ", ") + ">";
}

std::string values_text(const std::vector<uint32_t>& values) {
  std::vector<std::string> items;
  for (uint32_t value : values) items.push_back(value == kNone ? "_" : cat("v", value));
  return join(items, ", ");
}

// Prints one line: id, type, layout, home with its index and offset, alias, name.
void print_value(std::ostream& out, uint32_t id, const PlanValue& value) {
  static constexpr std::string_view kHomes[] = {"none", "arena", "resource", "constant",
                                                "slot", "pages", "joined"};
  out << "  v" << id << " " << value.type.dtype << value.type.shape;
  if (value.type.layout == Layout::channels16) out << " channels16";
  if (value.type.layout == Layout::channels_last) out << " channels_last";
  out << " " << kHomes[static_cast<int>(value.home)];
  if (value.home == Home::joined && value.alias == kNone)
    out << " " << values_text(value.pieces);
  else if (value.home != Home::none && value.home < Home::pages && value.home != Home::arena)
    out << " " << value.index;
  if (value.home == Home::arena || value.offset > 0) out << "+" << value.offset;
  if (value.alias != kNone) out << " = v" << value.alias;
  out << "  # " << value.name << "\n";
}

// Prints one line: outputs = op or transfer (inputs), then rows and chain.
void print_instruction(std::ostream& out, uint32_t id, const PlanInstruction& i) {
  static constexpr std::string_view kKinds[] = {"", "send", "receive", "retire", "fetch"};
  out << "  " << id << ": ";
  if (!i.outputs.empty()) out << values_text(i.outputs) << " = ";
  if (i.op)
    out << i.op->full_name() << attrs_text(i.attrs);
  else
    out << kKinds[static_cast<int>(i.kind)] << " " << i.edge;
  out << " (" << values_text(i.inputs) << ")";
  if (i.first_row != 0) out << " first_row=" << i.first_row;
  if (i.chain != kNone) out << " chain=" << i.chain << " tile_rows=" << i.tile_rows;
  out << "\n";
}

}  // namespace

// The golden files of tests hold this text, so its order and its spaces are part of it.
std::string Plan::text() const {
  std::ostringstream out;
  out << "plan " << name << "\n";
  for (size_t i = 0; i < feeds.size(); ++i)
    out << "feed " << i << " " << feeds[i].dtype << feeds[i].shape << " " << feeds[i].name << "\n";
  for (size_t i = 0; i < fetches.size(); ++i) {
    out << "fetch " << i << " " << fetches[i].dtype << fetches[i].shape << " " << fetches[i].name
        << " from partition " << fetches[i].partition << "\n";
  }
  for (size_t i = 0; i < edges.size(); ++i) {
    out << "edge " << i << " " << edges[i].from << " -> " << edges[i].to << " " << edges[i].bytes
        << " B  # " << edges[i].name << "\n";
  }
  for (size_t p = 0; p < partitions.size(); ++p) {
    const Partition& part = partitions[p];
    if (part.elsewhere) {
      out << "partition " << p << " " << part.device << " elsewhere\n";
      continue;
    }
    out << "partition " << p << " " << part.device << " arena " << part.arena_bytes << " B"
        << (part.tf32 ? ", tf32" : "") << "\n";
    for (size_t i = 0; i < part.resources.size(); ++i) {
      out << "  resource " << i << " " << part.resources[i].op->full_name()
          << attrs_text(part.resources[i].attrs) << "\n";
    }
    for (size_t i = 0; i < part.constants.size(); ++i)
      out << "  constant " << i << " " << part.constants[i].to_string(8) << "\n";
    for (uint32_t i = 0; i < part.values.size(); ++i) print_value(out, i, part.values[i]);
    for (uint32_t i = 0; i < part.instructions.size(); ++i)
      print_instruction(out, i, part.instructions[i]);
  }
  return std::move(out).str();
}

std::string Plan::summary(const std::vector<uint64_t>& workspaces) const {
  std::ostringstream out;
  // A reduced plan, as a runner gets it, describes its own partition only.
  for (size_t p = 0; p < partitions.size(); ++p) {
    const Partition& part = partitions[p];
    if (part.elsewhere) continue;
    size_t kernels = 0, sends = 0, receives = 0;
    uint64_t sent = 0;
    const uint64_t work = p < workspaces.size() ? workspaces[p] : 0;
    for (const PlanInstruction& i : part.instructions) {
      kernels += i.kind == PlanInstruction::Kind::kernel;
      receives += i.kind == PlanInstruction::Kind::receive;
      if (i.kind == PlanInstruction::Kind::send) {
        ++sends;
        sent += edges[i.edge].bytes;
      }
    }
    out << part.device << "\n"
        << "  instructions   " << counted(kernels, "kernel") << ", " << counted(sends, "send")
        << ", " << counted(receives, "receive") << "\n"
        << "  sends a step   " << human_bytes(sent) << "\n"
        << "  peak memory    " << human_bytes(part.memory_bytes() + work) << " (activations "
        << human_bytes(part.arena_bytes) << ", variables " << human_bytes(part.resource_bytes())
        << ", constants " << human_bytes(part.constant_bytes()) << ", receive slots "
        << human_bytes(part.slot_bytes() + part.page_bytes())
        << (p < workspaces.size() ? cat(", workspaces ", human_bytes(work)) : "") << ")\n";
  }
  return std::move(out).str();
}

}  // namespace leat
