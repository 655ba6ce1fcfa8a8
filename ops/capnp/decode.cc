#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "ops/capnp/wire_attr.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

constexpr std::string_view kDoing = "decoding a graph";

// Builds the graph of one message. It checks every count before it uses it.
class Decoder {
 public:
  Decoder(wire::Graph::Reader root, const ChunkSource& chunks, const Catalogue& catalogue)
      : version_(root.getVersion()),
        op_names_(root.getOps()),
        regions_(root.getRegions()),
        catalogue_(catalogue),
        wire_(std::string(kDoing), chunks) {}

  Result<Graph> run() {
    // A later version may mean anything by its fields, so nothing else is read of it.
    if (version_ != 1) return wire_.error(cat("expected version 1, received ", version_));
    LEAT_ASSIGN_OR_RETURN(ops_, wire_.ops(op_names_, catalogue_));
    if (regions_.size() == 0) return wire_.error("expected a graph, there is none");
    LEAT_RETURN_IF_ERROR(wire_.at_most("regions", limits::kNodes, regions_.size()));
    // Each region is used exactly once, so the work is bounded by the size of the message.
    used_.resize(regions_.size(), false);
    used_[0] = true;
    LEAT_ASSIGN_OR_RETURN(Graph graph, region(0, 0));
    if (std::find(used_.begin(), used_.end(), false) != used_.end()) {
      return wire_.error("expected every region to be used");
    }
    return graph;
  }

 private:
  // Builds one graph in the order of its values' indices: inputs, then the outputs of each node.
  // Indices in the message are then equal to ids in the graph.
  Result<Graph> region(uint32_t index, int nesting) {
    if (nesting > limits::kNesting) {
      return wire_.error(cat("expected at most ", limits::kNesting, " nested graphs"));
    }
    const wire::Region::Reader in = regions_[index];
    Graph graph(catalogue_);
    LEAT_ASSIGN_OR_RETURN(graph.name, wire_.name(in.getName()));
    LEAT_ASSIGN_OR_RETURN(const std::vector<SymbolId> symbols, add_symbols(in, graph));
    const auto inputs = in.getInputs();
    LEAT_RETURN_IF_ERROR(wire_.at_most("inputs", limits::kOperands, inputs.size()));
    for (const auto value : inputs) {
      LEAT_ASSIGN_OR_RETURN(std::string name, wire_.name(value.getName()));
      LEAT_ASSIGN_OR_RETURN(ValueType t, type(value, symbols));
      graph.add_input(std::move(name), std::move(t));
    }
    // The nodes. The count is of all regions together, as is the limit.
    const auto nodes = in.getNodes();
    nodes_ += nodes.size();
    LEAT_RETURN_IF_ERROR(wire_.at_most("nodes", limits::kNodes, nodes_));
    for (const auto node : nodes) {
      LEAT_RETURN_IF_ERROR(add_node(node, index, nesting, graph));
    }
    // The outputs, of which each may be any value.
    const auto outputs = in.getOutputs();
    LEAT_RETURN_IF_ERROR(wire_.at_most("outputs", limits::kOperands, outputs.size()));
    for (const uint32_t output : outputs) {
      if (output >= graph.values())
        return wire_.error(cat("an output is value ", output, " of ", graph.values()));
      graph.add_output(output);
    }
    return graph;
  }

  // Adds the symbols and returns their ids by index. A name with '*' would be read as a multiple of
  // a size in the text form, and two symbols of one name would become one there.
  Result<std::vector<SymbolId>> add_symbols(wire::Region::Reader in, Graph& graph) {
    const auto list = in.getSymbols();
    LEAT_RETURN_IF_ERROR(wire_.at_most("symbols", limits::kOperands, list.size()));
    std::vector<SymbolId> symbols;
    std::map<std::string, bool> names;
    for (const auto symbol : list) {
      LEAT_ASSIGN_OR_RETURN(const std::string name, wire_.name(symbol.getName()));
      const bool good = !name.empty() && name.find('*') == std::string::npos;
      if (!good || !names.emplace(name, true).second) {
        return wire_.error("expected symbols with names of their own, without '*'");
      }
      // All symbols are new, so their ids count up. symbol() would search all of them each time.
      symbols.push_back(graph.fresh_symbol());
      graph.symbol_info(symbols.back()).name = name;
      if (!symbol.getBounded()) continue;
      if (symbol.getBound() < 0) return wire_.error("expected a bound of at least 0");
      graph.symbol_info(symbols.back()).bound = symbol.getBound();
    }
    return symbols;
  }

  // Reads the type of an input. A constant size may be 0, but the factor of a symbol may not.
  Result<ValueType> type(wire::Value::Reader in, const std::vector<SymbolId>& symbols) {
    ValueType type;
    if (in.getKind() > static_cast<uint8_t>(ValueKind::token)) {
      return wire_.error(
          cat("expected a kind of value, received ", static_cast<int>(in.getKind())));
    }
    type.kind = static_cast<ValueKind>(in.getKind());
    LEAT_ASSIGN_OR_RETURN(type.dtype, wire_.dtype(in.getDtype()));
    const auto dims = in.getDims();
    LEAT_RETURN_IF_ERROR(wire_.at_most("dimensions", limits::kRank, dims.size()));
    for (const auto dim : dims) {
      const bool constant = dim.getSymbol() == 0;
      if (dim.getFactor() < (constant ? 0 : 1) || dim.getSymbol() > symbols.size()) {
        return wire_.error("expected a size of at least 0, or a symbol of the graph");
      }
      type.shape.push_back(constant
                               ? Dim::of(dim.getFactor())
                               : Dim::of_symbol(symbols[dim.getSymbol() - 1], dim.getFactor()));
    }
    return type;
  }

  // Adds a node with what it reads, then its outputs, and the rest of its fields.
  Status add_node(wire::Node::Reader in, uint32_t region, int nesting, Graph& graph) {
    const auto id = static_cast<NodeId>(graph.nodes());
    if (in.getOp() >= ops_.size())
      return wire_.error(cat("node ", id, " is op ", in.getOp(), " of ", ops_.size()));
    const auto list = in.getInputs();
    edges_ += list.size();
    LEAT_RETURN_IF_ERROR(wire_.at_most("edges", limits::kEdges, edges_));
    LEAT_RETURN_IF_ERROR(wire_.at_most("inputs of a node", limits::kOperands, list.size()));
    std::vector<ValueId> inputs;
    for (const uint32_t input : list) {
      // The input is an index + 1. At most graph.values() means that the value exists, so it was
      // made above.
      if (input > graph.values())
        return wire_.error(cat("node ", id, " reads value ", input - 1, " before it is made"));
      inputs.push_back(input == 0 ? kNone : input - 1);
    }
    // Regions are decoded while the attributes of their node are read. The recursion ends at
    // kNesting.
    const auto nested = [&](uint32_t index) { return this->nested(index, region, nesting); };
    LEAT_ASSIGN_OR_RETURN(Attrs attrs, wire_.attrs(in.getAttrs(), nested));
    graph.add_node(*ops_[in.getOp()], std::move(inputs), std::move(attrs), 0);
    LEAT_RETURN_IF_ERROR(add_outputs(in, id, graph));
    return fill_node(in, id, graph.node(id));
  }

  // Makes the outputs that are wanted, in order, and keeps the places of the others.
  Status add_outputs(wire::Node::Reader in, NodeId id, Graph& graph) {
    const auto outputs = in.getOutputs();
    LEAT_RETURN_IF_ERROR(wire_.at_most("outputs of a node", limits::kOperands, outputs.size()));
    for (unsigned i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].getWanted()) continue;
      LEAT_ASSIGN_OR_RETURN(std::string name, wire_.name(outputs[i].getName()));
      graph.set_value_name(graph.ensure_output(id, static_cast<int>(i)), std::move(name));
    }
    graph.node(id).outputs.resize(outputs.size(), kNone);
    return {};
  }

  // Reads control edges, names and the numbers of the node. Control edges lead to nodes above only,
  // so that no cycle can come from a message.
  Status fill_node(wire::Node::Reader in, NodeId id, Node& node) {
    const auto after = in.getAfter();
    edges_ += after.size();
    LEAT_RETURN_IF_ERROR(wire_.at_most("edges", limits::kEdges, edges_));
    for (const uint32_t before : after) {
      if (before >= id) return wire_.error(cat("node ", id, " waits for node ", before));
      node.after.push_back(before);
    }
    LEAT_ASSIGN_OR_RETURN(node.device, wire_.name(in.getDevice()));
    LEAT_ASSIGN_OR_RETURN(node.name, wire_.name(in.getName()));
    node.source = in.getSource();
    node.first_row = in.getFirstRow();
    return {};
  }

  // Decodes the region of an attribute. An index that is not larger than that of the region around
  // it, or that was used before, could make an endless recursion.
  Result<Attr> nested(uint32_t index, uint32_t region, int nesting) {
    if (index >= used_.size() || index <= region || used_[index]) {
      return wire_.error(
          cat("expected a region after ", region, " that is used once, received ", index));
    }
    used_[index] = true;
    LEAT_ASSIGN_OR_RETURN(Graph graph, this->region(index, nesting + 1));
    return Attr(std::make_shared<Graph>(std::move(graph)));
  }

  // Each access to a list uses up the reader's budget by its size, so a list is read once.
  const uint32_t version_;
  const capnp::List<capnp::Text>::Reader op_names_;
  const capnp::List<wire::Region>::Reader regions_;
  const Catalogue& catalogue_;
  WireAttrReader wire_;
  std::vector<const OpDef*> ops_;
  std::vector<bool> used_;
  size_t nodes_ = 0, edges_ = 0;
};

}  // namespace

Result<Graph> decode_graph(std::span<const std::byte> message, const ChunkSource& chunks,
                           const Catalogue& catalogue) {
  try {
    LEAT_ASSIGN_OR_RETURN(WireMessage words, WireMessage::open(kDoing, message));
    return Decoder(words.root<wire::Graph>(), chunks, catalogue).run();
  } catch (const kj::Exception& e) {
    // Cap'n Proto throws for pointers out of bounds and when the traversal limit is used up.
    return invalid_argument(
        cat("decoding a graph: the message is broken: ", e.getDescription().cStr()));
  }
}

Result<Graph> decode_graph(const EncodedGraph& encoded, const Catalogue& catalogue) {
  return decode_graph(encoded.message, chunk_source(std::string(kDoing), encoded.chunks),
                      catalogue);
}

}  // namespace leat
