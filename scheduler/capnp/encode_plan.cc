#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "ops/capnp/wire_attr.h"
#include "ops/graph/limits.h"
#include "plan.capnp.h"
#include "scheduler/capnp/plan_file.h"

namespace leat {
namespace {

constexpr std::string_view kEncoding = "encoding a plan";

Status wrong(std::string_view message) { return invalid_argument(cat(kEncoding, ": ", message)); }

class Encoder {
 public:
  // `only`: the partition that gets a body; kNone: all that are here.
  Encoder(const Plan& plan, uint32_t only) : plan_(plan), only_(only) {}

  Result<EncodedPlan> run() {
    // Lists of a message have a fixed length, so all sizes and ops are known before the first field
    // is written.
    LEAT_RETURN_IF_ERROR(check_sizes());
    LEAT_RETURN_IF_ERROR(collect_ops());
    capnp::MallocMessageBuilder builder;
    auto root = builder.initRoot<wire::Plan>();
    root.setVersion(1);
    LEAT_RETURN_IF_ERROR(check_name(plan_.name));
    root.setName(wire_text(plan_.name));
    auto ops = root.initOps(static_cast<unsigned>(ops_.size()));
    for (const auto& [name, index] : ops_) ops.set(index, wire_text(name));
    auto partitions = root.initPartitions(static_cast<unsigned>(plan_.partitions.size()));
    for (unsigned p = 0; p < partitions.size(); ++p)
      LEAT_RETURN_IF_ERROR(put_partition(p, partitions[p]));
    auto edges = root.initEdges(static_cast<unsigned>(plan_.edges.size()));
    for (unsigned e = 0; e < edges.size(); ++e) LEAT_RETURN_IF_ERROR(put_edge(e, edges[e]));
    LEAT_RETURN_IF_ERROR(
        put_borders(plan_.feeds, root.initFeeds(static_cast<unsigned>(plan_.feeds.size()))));
    LEAT_RETURN_IF_ERROR(
        put_borders(plan_.fetches, root.initFetches(static_cast<unsigned>(plan_.fetches.size()))));
    LEAT_ASSIGN_OR_RETURN(Bytes message,
                          canonical_bytes(kEncoding, root.asReader(), kPlanMessageBytes));
    return EncodedPlan{std::move(message), wire_.take_chunks()};
  }

 private:
  // True if the message describes the partition in full.
  bool has_body(uint32_t partition) const {
    return !plan_.partitions[partition].elsewhere && (only_ == kNone || only_ == partition);
  }
  Status check_name(const std::string& name) const {
    return wire_.at_most("bytes of a name", limits::kNameLength, name.size());
  }

  // Refuses what decode_plan() would refuse, so that an error appears on the side that made the
  // plan.
  Status check_sizes() const {
    LEAT_RETURN_IF_ERROR(wire_.at_most("partitions", limits::kPartitions, plan_.partitions.size()));
    LEAT_RETURN_IF_ERROR(wire_.at_most("edges", limits::kPlanEdges, plan_.edges.size()));
    LEAT_RETURN_IF_ERROR(wire_.at_most("feeds", limits::kOperands, plan_.feeds.size()));
    LEAT_RETURN_IF_ERROR(wire_.at_most("fetches", limits::kOperands, plan_.fetches.size()));
    for (const Partition& part : plan_.partitions) {
      LEAT_RETURN_IF_ERROR(wire_.at_most("values", limits::kPlanValues, part.values.size()));
      LEAT_RETURN_IF_ERROR(
          wire_.at_most("instructions", limits::kInstructions, part.instructions.size()));
      LEAT_RETURN_IF_ERROR(
          wire_.at_most("resources", limits::kInstructions, part.resources.size()));
      LEAT_RETURN_IF_ERROR(
          wire_.at_most("constants", limits::kInstructions, part.constants.size()));
      LEAT_RETURN_IF_ERROR(wire_.at_most("feeds", limits::kOperands, part.feeds.size()));
    }
    return {};
  }

  // Ops by name, of the partitions that have a body.
  Status collect_ops() {
    for (uint32_t p = 0; p < plan_.partitions.size(); ++p) {
      if (!has_body(p)) continue;
      for (const PlanInstruction& i : plan_.partitions[p].instructions) {
        if (i.op) ops_[i.op->full_name()] = 0;
      }
      for (const PlanResource& resource : plan_.partitions[p].resources) {
        if (!resource.op) return wrong(cat("resource '", resource.name, "' has no op"));
        ops_[resource.op->full_name()] = 0;
      }
    }
    // The map is sorted, so equal plans number their ops in the same way.
    uint32_t next = 0;
    for (auto& [name, index] : ops_) index = next++;
    return {};
  }

  // Writes one partition. One that the receiver does not run has its device only.
  Status put_partition(uint32_t p, wire::Partition::Builder out) {
    const Partition& part = plan_.partitions[p];
    LEAT_RETURN_IF_ERROR(check_name(part.device));
    out.setDevice(wire_text(part.device));
    if (!has_body(p)) {
      if (part.elsewhere && !(part.values.empty() && part.instructions.empty()))
        return wrong(cat("'", part.device, "' is elsewhere, and yet has something in it"));
      out.setElsewhere();
      return {};
    }
    wire::Body::Builder body = out.initBody();
    body.setArenaBytes(part.arena_bytes);
    body.setTf32(part.tf32);
    auto values = body.initValues(static_cast<unsigned>(part.values.size()));
    for (unsigned v = 0; v < values.size(); ++v)
      LEAT_RETURN_IF_ERROR(put_value(part.values[v], values[v]));
    auto instructions = body.initInstructions(static_cast<unsigned>(part.instructions.size()));
    for (unsigned i = 0; i < instructions.size(); ++i) {
      LEAT_RETURN_IF_ERROR(put_instruction(part.instructions[i], instructions[i])
                               .while_doing(cat("encoding '", part.instructions[i].name, "'")));
    }
    auto resources = body.initResources(static_cast<unsigned>(part.resources.size()));
    for (unsigned r = 0; r < resources.size(); ++r)
      LEAT_RETURN_IF_ERROR(put_resource(part.resources[r], resources[r]));
    auto constants = body.initConstants(static_cast<unsigned>(part.constants.size()));
    for (unsigned c = 0; c < constants.size(); ++c)
      LEAT_RETURN_IF_ERROR(wire_.put(part.constants[c], constants[c]));
    put_ids(part.feeds, body.initFeeds(static_cast<unsigned>(part.feeds.size())));
    return {};
  }

  // kNone + 1 is 0.
  static void put_ids(const std::vector<uint32_t>& ids, capnp::List<uint32_t>::Builder out) {
    for (unsigned i = 0; i < out.size(); ++i) out.set(i, ids[i] + 1);
  }

  // ONNX's number of the type, 0 for none. A value out of the enum's range is an error, not an
  // index.
  static Result<uint8_t> code_of(DType dtype) {
    if (static_cast<int>(dtype) < kDTypeCount) return static_cast<uint8_t>(dtype_onnx_code(dtype));
    return wrong(cat("expected an element type, received number ", static_cast<int>(dtype)));
  }

  Status put_value(const PlanValue& value, wire::PlanValue::Builder out) const {
    LEAT_RETURN_IF_ERROR(check_name(value.name));
    out.setKind(static_cast<uint8_t>(value.type.kind));
    LEAT_ASSIGN_OR_RETURN(const uint8_t dtype, code_of(value.type.dtype));
    out.setDtype(dtype);
    const auto dims = value.type.shape.dims();
    out.setDims(kj::arrayPtr(dims.data(), dims.size()));
    out.setLayout(static_cast<uint8_t>(value.type.layout));
    out.setHome(static_cast<uint8_t>(value.home));
    out.setOffset(value.offset);
    // The reader refuses an index where the home has none.
    if (value.home != Home::arena && value.home != Home::none) out.setIndex(value.index);
    LEAT_RETURN_IF_ERROR(wire_.at_most("pieces", limits::kOperands, value.pieces.size()));
    if (!value.pieces.empty())
      put_ids(value.pieces, out.initPieces(static_cast<unsigned>(value.pieces.size())));
    // kNone becomes 0, the default, which takes no room in a canonical message.
    out.setAlias(value.alias + 1);
    out.setName(wire_text(value.name));
    return {};
  }

  Status put_instruction(const PlanInstruction& i, wire::Instruction::Builder out) {
    const bool is_kernel = i.kind == PlanInstruction::Kind::kernel;
    if (is_kernel != (i.op != nullptr)) return wrong("expected an op of a kernel, and of no other");
    LEAT_RETURN_IF_ERROR(wire_.at_most("inputs", limits::kOperands, i.inputs.size()));
    LEAT_RETURN_IF_ERROR(wire_.at_most("outputs", limits::kOperands, i.outputs.size()));
    LEAT_RETURN_IF_ERROR(wire_.at_most("attributes", limits::kAttributes, i.attrs.size()));
    LEAT_RETURN_IF_ERROR(check_name(i.name));
    out.setKind(static_cast<uint8_t>(i.kind));
    if (i.op) out.setOp(ops_.at(i.op->full_name()) + 1);
    LEAT_RETURN_IF_ERROR(wire_.put(i.attrs, out.initAttrs(static_cast<unsigned>(i.attrs.size()))));
    put_ids(i.inputs, out.initInputs(static_cast<unsigned>(i.inputs.size())));
    put_ids(i.outputs, out.initOutputs(static_cast<unsigned>(i.outputs.size())));
    out.setName(wire_text(i.name));
    out.setSource(i.source);
    out.setFirstRow(i.first_row);
    out.setEdge(i.edge + 1);
    out.setChain(i.chain + 1);
    out.setTileRows(i.tile_rows);
    return {};
  }

  Status put_resource(const PlanResource& resource, wire::Resource::Builder out) {
    LEAT_RETURN_IF_ERROR(check_name(resource.name));
    LEAT_RETURN_IF_ERROR(wire_.at_most("attributes", limits::kAttributes, resource.attrs.size()));
    out.setOp(ops_.at(resource.op->full_name()));
    out.setName(wire_text(resource.name));
    out.setBytes(resource.bytes);
    return wire_.put(resource.attrs, out.initAttrs(static_cast<unsigned>(resource.attrs.size())));
  }

  Status put_edge(uint32_t e, wire::Edge::Builder out) const {
    const PlanEdge& edge = plan_.edges[e];
    LEAT_RETURN_IF_ERROR(check_name(edge.name));
    out.setFrom(edge.from);
    out.setTo(edge.to);
    out.setBytes(edge.bytes);
    // A plan of thousands of partitions has many edges. Their names would make up most of each
    // message.
    const bool ours = only_ == kNone || edge.from == only_ || edge.to == only_;
    out.setName(ours ? wire_text(edge.name) : capnp::Text::Reader(""));
    return {};
  }

  Status put_borders(const std::vector<PlanBorder>& borders,
                     capnp::List<wire::Border>::Builder out) const {
    for (unsigned b = 0; b < out.size(); ++b) {
      LEAT_RETURN_IF_ERROR(check_name(borders[b].name));
      LEAT_ASSIGN_OR_RETURN(const uint8_t dtype, code_of(borders[b].dtype));
      const auto dims = borders[b].shape.dims();
      out[b].setName(wire_text(borders[b].name));
      out[b].setDtype(dtype);
      out[b].setDims(kj::arrayPtr(dims.data(), dims.size()));
      out[b].setPartition(borders[b].partition);
    }
    return {};
  }

  const Plan& plan_;
  const uint32_t only_;
  std::map<std::string, uint32_t> ops_;
  // Plans have no regions yet, so an attribute that is one ends the encoding.
  WireAttrWriter wire_{std::string(kEncoding), [](const Graph&) -> Result<uint32_t> {
                         return wrong("an attribute is a graph, which plans cannot hold");
                       }};
};

// An exception here is a fault of ours, because all sizes were checked before.
Result<EncodedPlan> encode(const Plan& plan, uint32_t only) {
  try {
    return Encoder(plan, only).run();
  } catch (const kj::Exception& e) {
    return internal_error(cat(kEncoding, ": ", e.getDescription().cStr()));
  }
}

}  // namespace

Result<EncodedPlan> encode_plan(const Plan& plan) { return encode(plan, kNone); }

Result<EncodedPlan> encode_plan_for(const Plan& plan, uint32_t partition) {
  if (partition >= plan.partitions.size() || plan.partitions[partition].elsewhere) {
    return invalid_argument(cat(kEncoding, ": expected a partition that is here, of ",
                                plan.partitions.size(), ", received ", partition));
  }
  return encode(plan, partition);
}

Result<std::string> plan_hash(const Plan& plan) {
  LEAT_ASSIGN_OR_RETURN(const EncodedPlan encoded, encode_plan(plan));
  return to_hex(sha256(encoded.message));
}

}  // namespace leat
