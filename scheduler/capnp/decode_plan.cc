#include <optional>
#include <unordered_map>

#include "devices/base/text.h"
#include "ops/capnp/wire_attr.h"
#include "ops/graph/limits.h"
#include "plan.capnp.h"
#include "scheduler/capnp/plan_file.h"

namespace leat {
namespace {

constexpr std::string_view kDoing = "decoding a plan";
// Longer attributes are not shared: the key would cost more than it saves.
constexpr size_t kLongestKey = 1024;

// The size comes first, so that two lists of parts never give the same key.
void add_bytes(std::string& key, const void* data, size_t bytes) {
  key.append(reinterpret_cast<const char*>(&bytes), sizeof bytes);
  key.append(static_cast<const char*>(data), bytes);
}

// Equal for attributes of the same bits alone. None where there is little to share, or where they
// are long or hold tensors.
std::optional<std::string> key_of(const Attrs& attrs) {
  if (attrs.empty()) return std::nullopt;
  std::string key;
  for (const auto& [name, attr] : attrs) {
    add_bytes(key, name.data(), name.size());
    key.push_back(static_cast<char>(attr.index()));
    if (const auto* number = std::get_if<int64_t>(&attr))
      add_bytes(key, number, sizeof *number);
    else if (const auto* real = std::get_if<double>(&attr))
      add_bytes(key, real, sizeof *real);
    else if (const auto* text = std::get_if<std::string>(&attr))
      add_bytes(key, text->data(), text->size());
    else if (const auto* list = std::get_if<std::vector<int64_t>>(&attr))
      add_bytes(key, list->data(), list->size() * sizeof(int64_t));
    else if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
      const size_t count = texts->size();
      add_bytes(key, &count, sizeof count);
      for (const std::string& each : *texts) add_bytes(key, each.data(), each.size());
    } else {
      return std::nullopt;
    }
    if (key.size() > kLongestKey) return std::nullopt;
  }
  return key;
}

// Builds the plan of one message; it checks every count before it allocates. verify()
// checks what the indices mean.
class Decoder {
 public:
  Decoder(wire::Plan::Reader root, const ChunkSource& chunks, const Catalogue& catalogue)
      : root_(root), catalogue_(catalogue), wire_(std::string(kDoing), chunks) {}

  Result<Plan> run() {
    if (root_.getVersion() != 1)
      return wire_.error(cat("expected version 1, received ", root_.getVersion()));
    // An unknown op is found first: the message may be from a build that has more ops.
    LEAT_ASSIGN_OR_RETURN(ops_, wire_.ops(root_.getOps(), catalogue_));
    Plan plan;
    LEAT_ASSIGN_OR_RETURN(plan.name, wire_.name(root_.getName()));
    LEAT_ASSIGN_OR_RETURN(plan.edges, edges());
    LEAT_ASSIGN_OR_RETURN(plan.feeds, borders("feeds", root_.getFeeds()));
    LEAT_ASSIGN_OR_RETURN(plan.fetches, borders("fetches", root_.getFetches()));
    const auto partitions = root_.getPartitions();
    LEAT_RETURN_IF_ERROR(wire_.at_most("partitions", limits::kPartitions, partitions.size()));
    for (const auto in : partitions) {
      LEAT_ASSIGN_OR_RETURN(Partition part, partition(in));
      plan.partitions.push_back(std::move(part));
    }
    // The fault is the message's, so the internal error of verify() becomes invalid_argument.
    const Status safe = verify(plan);
    if (!safe.ok()) return wire_.error(safe.message());
    return plan;
  }

 private:
  Result<std::vector<PlanEdge>> edges() const {
    const auto list = root_.getEdges();
    LEAT_RETURN_IF_ERROR(wire_.at_most("edges", limits::kPlanEdges, list.size()));
    std::vector<PlanEdge> edges;
    for (const auto in : list) {
      LEAT_ASSIGN_OR_RETURN(std::string name, wire_.name(in.getName()));
      edges.push_back({in.getFrom(), in.getTo(), in.getBytes(), std::move(name)});
    }
    return edges;
  }

  Result<Shape> shape(capnp::List<int64_t>::Reader list) const {
    LEAT_RETURN_IF_ERROR(wire_.at_most("dimensions", limits::kRank, list.size()));
    std::vector<int64_t> dims;
    for (const int64_t dim : list) dims.push_back(dim);
    const auto shape = Shape::checked(dims);
    if (!shape || shape->elements() > limits::kElements) {
      return wire_.error(
          cat("expected sizes of at least 0 and at most ", limits::kElements, " elements"));
    }
    return *shape;
  }

  Result<std::vector<PlanBorder>> borders(std::string_view what,
                                          capnp::List<wire::Border>::Reader list) const {
    LEAT_RETURN_IF_ERROR(wire_.at_most(what, limits::kOperands, list.size()));
    std::vector<PlanBorder> borders;
    for (const auto in : list) {
      PlanBorder border;
      LEAT_ASSIGN_OR_RETURN(border.name, wire_.name(in.getName()));
      LEAT_ASSIGN_OR_RETURN(border.dtype, wire_.dtype(in.getDtype()));
      LEAT_ASSIGN_OR_RETURN(border.shape, shape(in.getDims()));
      border.partition = in.getPartition();
      borders.push_back(std::move(border));
    }
    return borders;
  }

  // Reads one partition. A kind that this build does not know is an error.
  Result<Partition> partition(wire::Partition::Reader in) {
    Partition part;
    LEAT_ASSIGN_OR_RETURN(part.device, wire_.name(in.getDevice()));
    switch (in.which()) {
      case wire::Partition::ELSEWHERE:
        part.elsewhere = true;
        return part;
      case wire::Partition::BODY:
        LEAT_RETURN_IF_ERROR(
            fill(in.getBody(), part).while_doing(cat("decoding the part of ", part.device)));
        return part;
    }
    return wire_.error("expected a partition with a body, or elsewhere");
  }

  // Reads the body of a partition. Each list is checked against its limit before room is reserved
  // for it.
  Status fill(wire::Body::Reader in, Partition& part) {
    part.arena_bytes = in.getArenaBytes();
    const auto values = in.getValues();
    LEAT_RETURN_IF_ERROR(wire_.at_most("values", limits::kPlanValues, values.size()));
    part.values.reserve(values.size());
    for (const auto one : values) {
      LEAT_ASSIGN_OR_RETURN(PlanValue made, value(one));
      part.values.push_back(std::move(made));
    }
    const auto instructions = in.getInstructions();
    LEAT_RETURN_IF_ERROR(wire_.at_most("instructions", limits::kInstructions, instructions.size()));
    part.instructions.reserve(instructions.size());
    for (const auto one : instructions) {
      LEAT_ASSIGN_OR_RETURN(PlanInstruction made, instruction(one));
      part.instructions.push_back(std::move(made));
    }
    const auto resources = in.getResources();
    LEAT_RETURN_IF_ERROR(wire_.at_most("resources", limits::kInstructions, resources.size()));
    for (const auto one : resources) {
      LEAT_ASSIGN_OR_RETURN(PlanResource made, resource(one));
      part.resources.push_back(std::move(made));
    }
    const auto constants = in.getConstants();
    LEAT_RETURN_IF_ERROR(wire_.at_most("constants", limits::kInstructions, constants.size()));
    for (const auto one : constants) {
      LEAT_ASSIGN_OR_RETURN(Tensor made, wire_.tensor(one));
      part.constants.push_back(std::move(made));
    }
    LEAT_ASSIGN_OR_RETURN(part.feeds, ids("feeds", in.getFeeds()));
    part.tf32 = in.getTf32();
    return {};
  }

  // 0 is kNone.
  Result<std::vector<uint32_t>> ids(std::string_view what,
                                    capnp::List<uint32_t>::Reader list) const {
    LEAT_RETURN_IF_ERROR(wire_.at_most(what, limits::kOperands, list.size()));
    std::vector<uint32_t> ids;
    ids.reserve(list.size());
    // The subtraction wraps to kNone for 0. Indices that are too large are left to verify().
    for (const uint32_t id : list) ids.push_back(id - 1);
    return ids;
  }

  // A number of the wire as an enumerator.
  template <typename Enum>
  Result<Enum> one_of(std::string_view what, Enum last, uint8_t received) const {
    if (received <= static_cast<uint8_t>(last)) return static_cast<Enum>(received);
    return wire_.error(cat("expected ", what, " of 0 to ", static_cast<int>(last), ", received ",
                           static_cast<int>(received)));
  }

  // Reads a value. A field that its home does not use must be 0, because otherwise equal plans
  // could have different bytes.
  Result<PlanValue> value(wire::PlanValue::Reader in) const {
    PlanValue value;
    value.type.present = true;
    LEAT_ASSIGN_OR_RETURN(value.type.kind,
                          one_of("a kind of value", ValueKind::token, in.getKind()));
    LEAT_ASSIGN_OR_RETURN(value.type.dtype, wire_.dtype(in.getDtype()));
    LEAT_ASSIGN_OR_RETURN(value.type.shape, shape(in.getDims()));
    LEAT_ASSIGN_OR_RETURN(value.type.layout,
                          one_of("a layout", Layout::channels_last, in.getLayout()));
    LEAT_ASSIGN_OR_RETURN(value.home, one_of("a home", Home::joined, in.getHome()));
    LEAT_ASSIGN_OR_RETURN(value.name, wire_.name(in.getName()));
    value.offset = in.getOffset();
    value.index = in.getIndex();
    // 0 wraps to kNone, as for ids().
    value.alias = in.getAlias() - 1;
    const auto pieces = in.getPieces();
    LEAT_RETURN_IF_ERROR(wire_.at_most("pieces", limits::kOperands, pieces.size()));
    for (const uint32_t piece : pieces) value.pieces.push_back(piece - 1);
    const bool in_arena = value.home == Home::arena;
    const bool indexed =
        value.home == Home::resource || value.home == Home::constant || value.home == Home::slot;
    if ((!in_arena && value.alias == kNone && value.offset != 0) ||
        (!indexed && value.index != 0) ||
        (!value.pieces.empty() && (value.home != Home::joined || value.alias != kNone)))
      return wire_.error(cat("value '", value.name, "' has a place that its home does not have"));
    return value;
  }

  // Those of the same bits are shared.
  Result<Attrs> attrs(capnp::List<wire::Attr>::Reader list) {
    const auto regions = [this](uint32_t) -> Result<Attr> {
      return wire_.error("an attribute is a graph, which plans cannot hold");
    };
    LEAT_ASSIGN_OR_RETURN(Attrs made, wire_.attrs(list, regions));
    const auto key = key_of(made);
    // A plan repeats most of its attributes thousands of times. Attrs share their map when copied.
    return key ? known_.try_emplace(*key, std::move(made)).first->second : made;
  }

  // The index comes from the message, so it is checked here.
  Result<const OpDef*> op(uint32_t index) const {
    if (index < ops_.size()) return ops_[index];
    return wire_.error(cat("expected one of ", ops_.size(), " ops, received number ", index));
  }

  Result<PlanInstruction> instruction(wire::Instruction::Reader in) {
    PlanInstruction i;
    LEAT_ASSIGN_OR_RETURN(i.kind,
                          one_of("an instruction", PlanInstruction::Kind::fetch, in.getKind()));
    if (in.getOp() != 0) {
      LEAT_ASSIGN_OR_RETURN(i.op, op(in.getOp() - 1));
    }
    LEAT_ASSIGN_OR_RETURN(i.attrs, attrs(in.getAttrs()));
    LEAT_ASSIGN_OR_RETURN(i.inputs, ids("inputs", in.getInputs()));
    LEAT_ASSIGN_OR_RETURN(i.outputs, ids("outputs", in.getOutputs()));
    LEAT_ASSIGN_OR_RETURN(i.name, wire_.name(in.getName()));
    i.source = in.getSource();
    i.first_row = in.getFirstRow();
    i.edge = in.getEdge() - 1;
    i.chain = in.getChain() - 1;
    i.tile_rows = in.getTileRows();
    return i;
  }

  Result<PlanResource> resource(wire::Resource::Reader in) {
    PlanResource resource;
    LEAT_ASSIGN_OR_RETURN(resource.op, op(in.getOp()));
    LEAT_ASSIGN_OR_RETURN(resource.attrs, attrs(in.getAttrs()));
    LEAT_ASSIGN_OR_RETURN(resource.name, wire_.name(in.getName()));
    resource.bytes = in.getBytes();
    return resource;
  }

  const wire::Plan::Reader root_;
  const Catalogue& catalogue_;
  WireAttrReader wire_;
  std::vector<const OpDef*> ops_;
  std::unordered_map<std::string, Attrs> known_;
};

}  // namespace

Result<Plan> decode_plan(std::span<const std::byte> message, const ChunkSource& chunks,
                         const Catalogue& catalogue) {
  try {
    LEAT_ASSIGN_OR_RETURN(WireMessage words, WireMessage::open(kDoing, message, kPlanMessageBytes));
    return Decoder(words.root<wire::Plan>(), chunks, catalogue).run();
  } catch (const kj::Exception& e) {
    return invalid_argument(cat(kDoing, ": the message is broken: ", e.getDescription().cStr()));
  }
}

Result<Plan> decode_plan(const EncodedPlan& encoded, const Catalogue& catalogue) {
  return decode_plan(encoded.message, chunk_source(std::string(kDoing), encoded.chunks), catalogue);
}

}  // namespace leat
