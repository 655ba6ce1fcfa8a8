#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "devices/base/text.h"
#include "graph.capnp.h"
#include "ops/capnp/graph_file.h"
#include "ops/limits.h"
#include "ops/op.h"
#include "ops/text/draft.h"
#include "ops/text/lexer.h"

namespace leat {
namespace {

// Builds the graph of one message; every count is looked at before anything is made of it.
class Decoder {
 public:
  Decoder(wire::Graph::Reader root, const ChunkSource& chunks, const Catalogue& catalogue)
      : version_(root.getVersion()),
        op_names_(root.getOps()),
        regions_(root.getRegions()),
        chunks_(chunks),
        catalogue_(catalogue) {}

  Result<Graph> run() {
    if (version_ != 1) return error(cat("expected version 1, received ", version_));
    LEAT_RETURN_IF_ERROR(find_ops());
    if (regions_.size() == 0) return error("expected a graph, there is none");
    LEAT_RETURN_IF_ERROR(at_most("regions", limits::kNodes, regions_.size()));
    used_.resize(regions_.size(), false);
    used_[0] = true;
    LEAT_ASSIGN_OR_RETURN(Graph graph, region(0, 0));
    if (std::find(used_.begin(), used_.end(), false) != used_.end()) {
      return error("expected every region to be used");
    }
    return graph;
  }

 private:
  static Status error(std::string_view message) {
    return invalid_argument(cat("decoding a graph: ", message));
  }
  static Status at_most(std::string_view what, uint64_t most, uint64_t received) {
    if (received <= most) return {};
    return error(cat("expected at most ", most, " ", what, ", received ", received));
  }
  static Result<std::string> name_of(capnp::Text::Reader text) {
    LEAT_RETURN_IF_ERROR(at_most("bytes of a name", limits::kNameLength, text.size()));
    return std::string(text.cStr(), text.size());
  }

  Status find_ops() {
    LEAT_RETURN_IF_ERROR(at_most("ops", limits::kNodes, op_names_.size()));
    for (const auto text : op_names_) {
      LEAT_ASSIGN_OR_RETURN(const std::string name, name_of(text));
      const OpDef* op = catalogue_.find(name);
      if (op == nullptr) {
        return error(
            cat("expected a known op, received '", name, "'", catalogue_.suggestion(name)));
      }
      ops_.push_back(op);
    }
    return {};
  }

  Result<Graph> region(uint32_t index, int nesting) {
    if (nesting > limits::kNesting) {
      return error(cat("expected at most ", limits::kNesting, " nested graphs"));
    }
    const wire::Region::Reader in = regions_[index];
    Graph graph(catalogue_);
    LEAT_ASSIGN_OR_RETURN(graph.name, name_of(in.getName()));
    LEAT_ASSIGN_OR_RETURN(const std::vector<SymbolId> symbols, add_symbols(in, graph));
    const auto inputs = in.getInputs();
    LEAT_RETURN_IF_ERROR(at_most("inputs", limits::kOperands, inputs.size()));
    for (const auto value : inputs) {
      LEAT_ASSIGN_OR_RETURN(std::string name, name_of(value.getName()));
      LEAT_ASSIGN_OR_RETURN(ValueType t, type(value, symbols));
      graph.add_input(std::move(name), std::move(t));
    }
    const auto nodes = in.getNodes();
    nodes_ += nodes.size();
    LEAT_RETURN_IF_ERROR(at_most("nodes", limits::kNodes, nodes_));
    for (const auto node : nodes) {
      LEAT_RETURN_IF_ERROR(add_node(node, index, nesting, graph));
    }
    const auto outputs = in.getOutputs();
    LEAT_RETURN_IF_ERROR(at_most("outputs", limits::kOperands, outputs.size()));
    for (const uint32_t output : outputs) {
      if (output >= graph.values())
        return error(cat("an output is value ", output, " of ", graph.values()));
      graph.add_output(output);
    }
    return graph;
  }

  static Result<std::vector<SymbolId>> add_symbols(wire::Region::Reader in, Graph& graph) {
    const auto list = in.getSymbols();
    LEAT_RETURN_IF_ERROR(at_most("symbols", limits::kOperands, list.size()));
    std::vector<SymbolId> symbols;
    std::map<std::string, bool> names;
    for (const auto symbol : list) {
      LEAT_ASSIGN_OR_RETURN(const std::string name, name_of(symbol.getName()));
      const bool good = !name.empty() && name.find('*') == std::string::npos;
      if (!good || !names.emplace(name, true).second) {
        return error("expected symbols with names of their own, without '*'");
      }
      // All are new, so their ids count up: symbol() would look through all of them each time.
      symbols.push_back(graph.fresh_symbol());
      graph.symbol_info(symbols.back()).name = name;
      if (!symbol.getBounded()) continue;
      if (symbol.getBound() < 0) return error("expected a bound of at least 0");
      graph.symbol_info(symbols.back()).bound = symbol.getBound();
    }
    return symbols;
  }

  static Result<DType> dtype_of(uint8_t code) {
    const DType dtype = dtype_from_onnx_code(code);
    if (dtype == DType::invalid && code != 0) {
      return error(cat("expected an element type, received ", static_cast<int>(code)));
    }
    return dtype;
  }

  static Result<ValueType> type(wire::Value::Reader in, const std::vector<SymbolId>& symbols) {
    ValueType type;
    if (in.getKind() > static_cast<uint8_t>(ValueKind::token)) {
      return error(cat("expected a kind of value, received ", static_cast<int>(in.getKind())));
    }
    type.kind = static_cast<ValueKind>(in.getKind());
    LEAT_ASSIGN_OR_RETURN(type.dtype, dtype_of(in.getDtype()));
    const auto dims = in.getDims();
    LEAT_RETURN_IF_ERROR(at_most("dimensions", limits::kRank, dims.size()));
    for (const auto dim : dims) {
      const bool constant = dim.getSymbol() == 0;
      if (dim.getFactor() < (constant ? 0 : 1) || dim.getSymbol() > symbols.size()) {
        return error("expected a size of at least 0, or a symbol of the graph");
      }
      type.shape.push_back(constant
                               ? Dim::of(dim.getFactor())
                               : Dim::of_symbol(symbols[dim.getSymbol() - 1], dim.getFactor()));
    }
    return type;
  }

  Status add_node(wire::Node::Reader in, uint32_t region, int nesting, Graph& graph) {
    const auto id = static_cast<NodeId>(graph.nodes());
    if (in.getOp() >= ops_.size())
      return error(cat("node ", id, " is op ", in.getOp(), " of ", ops_.size()));
    const auto list = in.getInputs();
    edges_ += list.size();
    LEAT_RETURN_IF_ERROR(at_most("edges", limits::kEdges, edges_));
    LEAT_RETURN_IF_ERROR(at_most("inputs of a node", limits::kOperands, list.size()));
    std::vector<ValueId> inputs;
    for (const uint32_t input : list) {
      if (input > graph.values())
        return error(cat("node ", id, " reads value ", input - 1, " before it is made"));
      inputs.push_back(input == 0 ? kNone : input - 1);
    }
    LEAT_ASSIGN_OR_RETURN(Attrs attrs, this->attrs(in, region, nesting));
    graph.add_node(*ops_[in.getOp()], std::move(inputs), std::move(attrs), 0);
    LEAT_RETURN_IF_ERROR(add_outputs(in, id, graph));
    return fill_node(in, id, graph.node(id));
  }

  static Status add_outputs(wire::Node::Reader in, NodeId id, Graph& graph) {
    const auto outputs = in.getOutputs();
    LEAT_RETURN_IF_ERROR(at_most("outputs of a node", limits::kOperands, outputs.size()));
    for (unsigned i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].getWanted()) continue;
      LEAT_ASSIGN_OR_RETURN(std::string name, name_of(outputs[i].getName()));
      graph.set_value_name(graph.ensure_output(id, static_cast<int>(i)), std::move(name));
    }
    graph.node(id).outputs.resize(outputs.size(), kNone);
    return {};
  }

  Status fill_node(wire::Node::Reader in, NodeId id, Node& node) {
    const auto after = in.getAfter();
    edges_ += after.size();
    LEAT_RETURN_IF_ERROR(at_most("edges", limits::kEdges, edges_));
    for (const uint32_t before : after) {
      if (before >= id) return error(cat("node ", id, " waits for node ", before));
      node.after.push_back(before);
    }
    LEAT_ASSIGN_OR_RETURN(node.device, name_of(in.getDevice()));
    LEAT_ASSIGN_OR_RETURN(node.name, name_of(in.getName()));
    node.source = in.getSource();
    node.first_row = in.getFirstRow();
    return {};
  }

  Result<Attrs> attrs(wire::Node::Reader in, uint32_t region, int nesting) {
    Attrs attrs;
    const auto list = in.getAttrs();
    LEAT_RETURN_IF_ERROR(at_most("attributes", limits::kAttributes, list.size()));
    for (const auto one : list) {
      LEAT_ASSIGN_OR_RETURN(std::string name, name_of(one.getName()));
      if (!is_identifier(name) || is_reserved_attribute(name)) {
        return error(cat("expected an attribute's name, received '", name, "'"));
      }
      LEAT_ASSIGN_OR_RETURN(Attr value, attr(one, region, nesting));
      if (!attrs.emplace(std::move(name), std::move(value)).second) {
        return error("expected each attribute of a node once");
      }
    }
    return attrs;
  }

  static Result<std::string> string_of(capnp::Data::Reader data) {
    LEAT_RETURN_IF_ERROR(at_most("bytes of a string", limits::kStringLength, data.size()));
    return std::string(reinterpret_cast<const char*>(data.begin()), data.size());
  }

  template <typename T, typename List>
  static Result<Attr> list_of(const List& list) {
    LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, list.size()));
    std::vector<T> elements;
    elements.reserve(list.size());
    for (const T element : list) elements.push_back(element);
    return Attr(std::move(elements));
  }

  Result<Attr> attr(wire::Attr::Reader in, uint32_t region, int nesting) {
    switch (in.which()) {
      case wire::Attr::INT:
        return Attr(in.getInt());
      case wire::Attr::FLOAT:
        return Attr(in.getFloat());
      case wire::Attr::STRING: {
        LEAT_ASSIGN_OR_RETURN(std::string text, string_of(in.getString()));
        return Attr(std::move(text));
      }
      case wire::Attr::TENSOR: {
        LEAT_ASSIGN_OR_RETURN(Tensor value, tensor(in.getTensor()));
        return Attr(std::move(value));
      }
      case wire::Attr::INTS:
        return list_of<int64_t>(in.getInts());
      case wire::Attr::FLOATS:
        return list_of<double>(in.getFloats());
      case wire::Attr::STRINGS:
        return strings(in.getStrings());
      case wire::Attr::REGION:
        return nested(in.getRegion(), region, nesting);
    }
    return error(cat("expected a kind of attribute, received ", static_cast<int>(in.which())));
  }

  static Result<Attr> strings(capnp::List<capnp::Data>::Reader list) {
    LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, list.size()));
    std::vector<std::string> strings;
    for (const auto data : list) {
      LEAT_ASSIGN_OR_RETURN(std::string text, string_of(data));
      strings.push_back(std::move(text));
    }
    return Attr(std::move(strings));
  }

  Result<Attr> nested(uint32_t index, uint32_t region, int nesting) {
    if (index >= used_.size() || index <= region || used_[index]) {
      return error(cat("expected a region after ", region, " that is used once, received ", index));
    }
    used_[index] = true;
    LEAT_ASSIGN_OR_RETURN(Graph graph, this->region(index, nesting + 1));
    return Attr(std::make_shared<Graph>(std::move(graph)));
  }

  Result<Tensor> tensor(wire::Tensor::Reader in) {
    LEAT_ASSIGN_OR_RETURN(const DType dtype, dtype_of(in.getDtype()));
    if (dtype == DType::invalid) return error("expected a constant with an element type");
    const auto list = in.getDims();
    LEAT_RETURN_IF_ERROR(at_most("dimensions", limits::kRank, list.size()));
    std::vector<int64_t> dims;
    for (const int64_t dim : list) dims.push_back(dim);
    const auto shape = Shape::checked(dims);
    if (!shape || shape->elements() > limits::kElements) {
      return error("expected a constant with sizes of at least 0 and at most 2^40 elements");
    }
    const uint64_t bytes = static_cast<uint64_t>(shape->elements()) * dtype_size(dtype);
    LEAT_ASSIGN_OR_RETURN(const auto pieces, pieces_of(in, bytes));
    LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, *shape));
    auto* out = static_cast<std::byte*>(tensor.raw());
    for (const auto piece : pieces) {
      if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    }
    return check_bools(tensor) ? Result<Tensor>(std::move(tensor))
                               : error("expected bools of 0 or 1");
  }

  static bool check_bools(const Tensor& tensor) {
    if (tensor.dtype() != DType::boolean) return true;
    const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
    return std::all_of(bytes, bytes + tensor.bytes(), [](uint8_t b) { return b <= 1; });
  }

  // The pieces of a constant, `bytes` in all, which lie in memory already.
  Result<std::vector<std::span<const std::byte>>> pieces_of(wire::Tensor::Reader in,
                                                            uint64_t bytes) {
    std::vector<std::span<const std::byte>> pieces;
    if (in.isInline()) {
      const capnp::Data::Reader data = in.getInline();
      if (data.size() != bytes || bytes > limits::kInlineConstantBytes) {
        return error(cat("expected a constant of ", bytes, " bytes, received ", data.size()));
      }
      pieces.push_back(std::as_bytes(std::span(data.begin(), data.size())));
      return pieces;
    }
    if (!in.isChunks()) return error("expected the bytes of a constant");
    constant_bytes_ += bytes;
    LEAT_RETURN_IF_ERROR(at_most("bytes of constants", limits::kConstantBytes, constant_bytes_));
    const auto chunks = in.getChunks();
    if (bytes <= limits::kInlineConstantBytes ||
        chunks.size() != (bytes + kChunkBytes - 1) / kChunkBytes) {
      return error(cat("expected a constant of ", bytes, " bytes in chunks of 1 MiB, received ",
                       chunks.size(), " chunks"));
    }
    uint64_t left = bytes;
    for (const auto chunk : chunks) {
      const uint64_t size = std::min<uint64_t>(left, kChunkBytes);
      LEAT_ASSIGN_OR_RETURN(const auto piece, fetch(chunk, size));
      pieces.push_back(piece);
      left -= size;
    }
    return pieces;
  }

  Result<std::span<const std::byte>> fetch(wire::Chunk::Reader chunk, uint64_t size) {
    Sha256Digest digest;
    const capnp::Data::Reader named = chunk.getSha256();
    if (named.size() != digest.size() || chunk.getSize() != size) {
      return error("expected chunks of 1 MiB with a digest of 32 bytes");
    }
    std::copy(named.begin(), named.end(), digest.begin());
    LEAT_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, chunks_(digest));
    if (bytes.size() != size) {
      return error(
          cat("chunk ", to_hex(digest), ": expected ", size, " bytes, received ", bytes.size()));
    }
    // A chunk that occurs twice is hashed once.
    const auto [it, fresh] = checked_.emplace(digest, bytes.data());
    if ((fresh || it->second != bytes.data()) && sha256(bytes) != digest) {
      return error(cat("chunk ", to_hex(digest), ": its bytes have another digest"));
    }
    return bytes;
  }

  // A list costs its size of the reader's budget each time it is asked for: so once.
  const uint32_t version_;
  const capnp::List<capnp::Text>::Reader op_names_;
  const capnp::List<wire::Region>::Reader regions_;
  const ChunkSource& chunks_;
  const Catalogue& catalogue_;
  std::vector<const OpDef*> ops_;
  std::vector<bool> used_;
  std::map<Sha256Digest, const std::byte*> checked_;
  size_t nodes_ = 0, edges_ = 0;
  uint64_t constant_bytes_ = 0;
};

}  // namespace

Result<Graph> decode_graph(std::span<const std::byte> message, const ChunkSource& chunks,
                           const Catalogue& catalogue) {
  if (message.empty() || message.size() % sizeof(capnp::word) != 0 ||
      message.size() > limits::kMessageBytes) {
    return invalid_argument(cat("decoding a graph: expected a message of 8 bytes to ",
                                human_bytes(limits::kMessageBytes), " in words, received ",
                                message.size(), " bytes"));
  }
  try {
    // Into words, which are aligned.
    const size_t words = message.size() / sizeof(capnp::word);
    kj::Array<capnp::word> copy = kj::heapArray<capnp::word>(words);
    std::memcpy(copy.begin(), message.data(), message.size());
    const kj::ArrayPtr<const capnp::word> segments[] = {copy};
    capnp::ReaderOptions options;
    // Lists are looked at more than once, and no cleverly shared pointer may make it more than so.
    options.traversalLimitInWords = 8 * words + 1024;
    capnp::SegmentArrayMessageReader reader(kj::arrayPtr(segments, 1), options);
    return Decoder(reader.getRoot<wire::Graph>(), chunks, catalogue).run();
  } catch (const kj::Exception& e) {
    return invalid_argument(
        cat("decoding a graph: the message is broken: ", e.getDescription().cStr()));
  }
}

Result<Graph> decode_graph(const EncodedGraph& encoded, const Catalogue& catalogue) {
  std::map<Sha256Digest, std::span<const std::byte>> chunks;
  for (const EncodedGraph::Chunk& chunk : encoded.chunks) chunks[chunk.digest] = chunk.bytes;
  const ChunkSource find = [&](const Sha256Digest& digest) -> Result<std::span<const std::byte>> {
    const auto it = chunks.find(digest);
    if (it != chunks.end()) return it->second;
    return invalid_argument(cat("decoding a graph: the chunk ", to_hex(digest), " is missing"));
  };
  return decode_graph(encoded.message, find, catalogue);
}

}  // namespace leat
