#include <map>

#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "ops/capnp/wire_attr.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

constexpr std::string_view kEncoding = "encoding a graph";

// Writes one graph. It collects first and writes afterwards, because lists of a message have a
// fixed length, and the index of an op is its place in the sorted list of all.
class Encoder {
 public:
  Result<EncodedGraph> run(const Graph& graph) {
    LEAT_RETURN_IF_ERROR(collect(graph, 0));
    capnp::MallocMessageBuilder builder;
    wire::Graph::Builder root = builder.initRoot<wire::Graph>();
    root.setVersion(1);
    auto ops = root.initOps(static_cast<unsigned>(ops_.size()));
    unsigned next = 0;
    // The map is sorted by name, so equal graphs number their ops in the same way.
    for (auto& [name, index] : ops_) {
      index = next++;
      ops.set(index, wire_text(name));
    }
    auto regions = root.initRegions(static_cast<unsigned>(regions_.size()));
    for (unsigned i = 0; i < regions_.size(); ++i) {
      LEAT_RETURN_IF_ERROR(put_region(*regions_[i], regions[i]));
    }
    return finish(root.asReader());
  }

 private:
  // Collects regions in the order in which they occur, ops by name, and the totals to check against
  // limits.
  Status collect(const Graph& graph, int nesting) {
    LEAT_RETURN_IF_ERROR(
        wire_.at_most("nested graphs", limits::kNesting, static_cast<uint64_t>(nesting)));
    index_[&graph] = static_cast<uint32_t>(regions_.size());
    regions_.push_back(&graph);
    // A cycle has no order, and must be an error before anything relies on one.
    LEAT_RETURN_IF_ERROR(graph.topological_order().status());
    nodes_ += graph.nodes();
    LEAT_RETURN_IF_ERROR(wire_.at_most("nodes", limits::kNodes, nodes_));
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      const Node& node = graph.node(id);
      ops_[node.op->full_name()] = 0;
      edges_ += node.inputs.size();
      LEAT_RETURN_IF_ERROR(wire_.at_most("edges", limits::kEdges, edges_));
    }
    // Regions are numbered in topological order, each after the one that holds it. The reader
    // relies on this: it accepts only larger indices, so regions cannot contain each other.
    LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.topological_order());
    for (const NodeId id : order) {
      for (const auto& [_, attr] : graph.node(id).attrs) {
        const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr);
        if (region == nullptr) continue;
        // Two nodes may share a region in memory. The format has no such thing: a reader would
        // decode it once for each use, which could multiply the work without a limit.
        if (index_.contains(region->get())) {
          return invalid_argument("encoding a graph: expected each region once, one is shared");
        }
        LEAT_RETURN_IF_ERROR(collect(**region, nesting + 1));
      }
    }
    return {};
  }

  // Writes one graph. The ids of symbols, values and nodes in memory depend on how the graph was
  // made, so each gets a new index by its place: values in the order of inputs and then of nodes.
  Status put_region(const Graph& graph, wire::Region::Builder out) {
    out.setName(wire_text(graph.name));
    std::map<SymbolId, uint32_t> symbols;  // index + 1
    put_symbols(graph, out, symbols);
    std::vector<uint32_t> values(graph.values(), 0);  // index + 1
    uint32_t next = 0;
    auto inputs = out.initInputs(static_cast<unsigned>(graph.inputs().size()));
    for (unsigned i = 0; i < inputs.size(); ++i) {
      const ValueId id = graph.inputs()[i];
      values[id] = ++next;
      put_value(graph, id, symbols, inputs[i]);
    }
    LEAT_ASSIGN_OR_RETURN(const std::vector<NodeId> order, graph.topological_order());
    std::vector<uint32_t> positions(graph.nodes());
    auto nodes = out.initNodes(static_cast<unsigned>(order.size()));
    for (unsigned i = 0; i < order.size(); ++i) {
      positions[order[i]] = i;
      LEAT_RETURN_IF_ERROR(put_node(graph, order[i], values, next, positions, nodes[i]));
    }
    auto outputs = out.initOutputs(static_cast<unsigned>(graph.outputs().size()));
    // An output that no written node makes has no index.
    for (unsigned i = 0; i < outputs.size(); ++i) {
      const ValueId id = graph.outputs()[i];
      if (id == kNone || values[id] == 0) {
        return invalid_argument(
            cat("encoding graph '", graph.name, "': output ", i, " is no value of the graph"));
      }
      outputs.set(i, values[id] - 1);
    }
    return {};
  }

  // Writes the symbols in order of first use by an input, then those that only have a bound.
  // Symbols of other values are left out: the reader infers these types again.
  static void put_symbols(const Graph& graph, wire::Region::Builder out,
                          std::map<SymbolId, uint32_t>& symbols) {
    std::vector<SymbolId> used;
    const auto use = [&](SymbolId id) {
      if (id == kNone || !symbols.emplace(id, used.size() + 1).second) return;
      used.push_back(id);
    };
    for (const ValueId input : graph.inputs()) {
      for (const Dim dim : graph.value(input).type.shape.dims()) use(dim.symbol);
    }
    std::map<std::string, SymbolId>
        bounded;  // by name, because ids depend on the order of construction
    for (SymbolId id = 0; id < graph.symbols(); ++id) {
      if (graph.symbol_info(id).bound) bounded.emplace(graph.symbol_info(id).name, id);
    }
    for (const auto& [_, id] : bounded) use(id);
    auto list = out.initSymbols(static_cast<unsigned>(used.size()));
    for (unsigned i = 0; i < used.size(); ++i) {
      const Symbol& symbol = graph.symbol_info(used[i]);
      list[i].setName(wire_text(symbol.name));
      list[i].setBounded(symbol.bound.has_value());
      list[i].setBound(symbol.bound.value_or(0));
    }
  }

  // Writes an input with its type. A dimension without a symbol leaves 0 in the field, which means
  // none.
  static void put_value(const Graph& graph, ValueId id, const std::map<SymbolId, uint32_t>& symbols,
                        wire::Value::Builder out) {
    const ValueType& type = graph.value(id).type;
    out.setName(wire_text(graph.value_name(id)));
    out.setKind(static_cast<uint8_t>(type.kind));
    out.setDtype(static_cast<uint8_t>(dtype_onnx_code(type.dtype)));
    auto dims = out.initDims(static_cast<unsigned>(type.shape.rank()));
    for (int i = 0; i < type.shape.rank(); ++i) {
      const Dim dim = type.shape[i];
      dims[static_cast<unsigned>(i)].setFactor(dim.factor);
      if (!dim.is_constant()) dims[static_cast<unsigned>(i)].setSymbol(symbols.at(dim.symbol));
    }
  }

  // Writes a node and gives its outputs the next indices. Its inputs have theirs already, since the
  // nodes are written in topological order.
  Status put_node(const Graph& graph, NodeId id, std::vector<uint32_t>& values, uint32_t& next,
                  const std::vector<uint32_t>& positions, wire::Node::Builder out) {
    const Node& node = graph.node(id);
    LEAT_RETURN_IF_ERROR(wire_.at_most("inputs of a node", limits::kOperands, node.inputs.size()));
    LEAT_RETURN_IF_ERROR(
        wire_.at_most("outputs of a node", limits::kOperands, node.outputs.size()));
    LEAT_RETURN_IF_ERROR(wire_.at_most("bytes of a name", limits::kNameLength, node.name.size()));
    LEAT_RETURN_IF_ERROR(
        wire_.at_most("bytes of a device", limits::kNameLength, node.device.size()));
    out.setOp(ops_.at(node.op->full_name()));
    auto inputs = out.initInputs(static_cast<unsigned>(node.inputs.size()));
    for (unsigned i = 0; i < inputs.size(); ++i) {
      // `values` has the index + 1, as the message has it. An absent input stays 0.
      if (node.inputs[i] != kNone) inputs.set(i, values[node.inputs[i]]);
    }
    auto outputs = out.initOutputs(static_cast<unsigned>(node.outputs.size()));
    for (unsigned i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] == kNone) continue;
      const std::string& name = graph.value_name(node.outputs[i]);
      LEAT_RETURN_IF_ERROR(wire_.at_most("bytes of a name", limits::kNameLength, name.size()));
      values[node.outputs[i]] = ++next;
      outputs[i].setWanted(true);
      outputs[i].setName(wire_text(name));
    }
    // The rest has no ids of values: control edges by the position of the node, names, and
    // attributes.
    auto after = out.initAfter(static_cast<unsigned>(node.after.size()));
    for (unsigned i = 0; i < after.size(); ++i) after.set(i, positions[node.after[i]]);
    out.setDevice(wire_text(node.device));
    out.setName(wire_text(node.name));
    out.setSource(node.source);
    out.setFirstRow(node.first_row);
    return wire_.put(node.attrs, out.initAttrs(static_cast<unsigned>(node.attrs.size())))
        .while_doing(cat("encoding ", graph.describe_node(id)));
  }

  // Brings the message into its canonical form, which makes equal graphs equal bytes.
  Result<EncodedGraph> finish(wire::Graph::Reader root) {
    LEAT_ASSIGN_OR_RETURN(Bytes message, canonical_bytes(kEncoding, root));
    return EncodedGraph{std::move(message), wire_.take_chunks()};
  }

  WireAttrWriter wire_{std::string(kEncoding), [this](const Graph& region) -> Result<uint32_t> {
                         return index_.at(&region);
                       }};
  std::map<std::string, uint32_t> ops_;
  std::vector<const Graph*> regions_;
  std::map<const Graph*, uint32_t> index_;
  size_t nodes_ = 0, edges_ = 0;
};

}  // namespace

Result<EncodedGraph> encode_graph(const Graph& graph) {
  try {
    return Encoder().run(graph);
  } catch (const kj::Exception& e) {
    return internal_error(cat("encoding a graph: ", e.getDescription().cStr()));
  }
}

Result<std::string> graph_hash(const Graph& graph) {
  LEAT_ASSIGN_OR_RETURN(const EncodedGraph encoded, encode_graph(graph));
  return to_hex(sha256(encoded.message));
}

}  // namespace leat
