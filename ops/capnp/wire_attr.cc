#include "ops/capnp/wire_attr.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/text/draft.h"
#include "ops/text/lexer.h"

namespace leat {
namespace {

// False if a tensor of bools has a byte that is neither 0 nor 1, which no kernel may read, or one
// of a narrow type a byte that is no code.
bool has_only_elements(const Tensor& tensor) {
  const bool is_bool = tensor.dtype() == DType::boolean;
  if (!is_bool && !is_narrow(tensor.dtype())) return true;
  const int most = is_bool ? 1 : (1 << dtype_bits(tensor.dtype())) - 1;
  const auto* bytes = static_cast<const uint8_t*>(tensor.raw());
  return std::all_of(bytes, bytes + tensor.bytes(), [&](uint8_t b) { return b <= most; });
}

}  // namespace

// ---------------------------------------------------------------------------------------------
// Writing

Status WireAttrWriter::at_most(std::string_view what, uint64_t most, uint64_t received) const {
  if (received <= most) return {};
  return invalid_argument(
      cat(doing_, ": expected at most ", most, " ", what, ", received ", received));
}

Status WireAttrWriter::put(const Attrs& attrs, capnp::List<wire::Attr>::Builder out) {
  LEAT_RETURN_IF_ERROR(at_most("attributes", limits::kAttributes, attrs.size()));
  unsigned index = 0;
  for (const auto& [name, attr] : attrs) {
    // Attributes are sorted by name, so the message has them in ascending order.
    out[index].setName(wire_text(name));
    LEAT_RETURN_IF_ERROR(put(attr, out[index++]));
  }
  return {};
}

Status WireAttrWriter::put(const Attr& attr, wire::Attr::Builder out) {
  // Exactly one of the following cases holds.
  if (const auto* i = std::get_if<int64_t>(&attr)) out.setInt(*i);
  if (const auto* f = std::get_if<double>(&attr)) out.setFloat(*f);
  if (const auto* s = std::get_if<std::string>(&attr)) {
    LEAT_RETURN_IF_ERROR(at_most("bytes of a string", limits::kStringLength, s->size()));
    out.setString(wire_bytes(*s));
  }
  if (const auto* t = std::get_if<Tensor>(&attr)) return put(*t, out.initTensor());
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attr)) {
    LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, v->size()));
    out.setInts(kj::arrayPtr(v->data(), v->size()));
  }
  if (const auto* v = std::get_if<std::vector<double>>(&attr)) {
    LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, v->size()));
    out.setFloats(kj::arrayPtr(v->data(), v->size()));
  }
  if (const auto* v = std::get_if<std::vector<std::string>>(&attr)) {
    LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, v->size()));
    auto strings = out.initStrings(static_cast<unsigned>(v->size()));
    for (unsigned i = 0; i < strings.size(); ++i) {
      LEAT_RETURN_IF_ERROR(at_most("bytes of a string", limits::kStringLength, (*v)[i].size()));
      strings.set(i, wire_bytes((*v)[i]));
    }
  }
  if (const auto* region = std::get_if<std::shared_ptr<Graph>>(&attr)) {
    LEAT_ASSIGN_OR_RETURN(const uint32_t index, regions_(**region));
    out.setRegion(index);
  }
  return {};
}

// A small tensor is part of the message. A larger one is cut every 1 MiB into chunks, which stand
// outside of it under their digests.
Status WireAttrWriter::put(const Tensor& tensor, wire::Tensor::Builder out) {
  if (!tensor.valid()) return invalid_argument(cat(doing_, ": expected a tensor, it has no type"));
  out.setDtype(static_cast<uint8_t>(dtype_onnx_code(tensor.dtype())));
  const auto dims = tensor.shape().dims();
  out.setDims(kj::arrayPtr(dims.data(), dims.size()));
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(tensor.raw()),
                                         tensor.bytes());
  if (bytes.size() <= limits::kInlineConstantBytes) {
    out.setInline(wire_bytes(bytes));
    return {};
  }
  constant_bytes_ += bytes.size();
  LEAT_RETURN_IF_ERROR(at_most("bytes of constants", limits::kConstantBytes, constant_bytes_));
  const size_t count = (bytes.size() + kChunkBytes - 1) / kChunkBytes;
  auto chunks = out.initChunks(static_cast<unsigned>(count));
  for (unsigned i = 0; i < count; ++i) {
    const auto piece =
        bytes.subspan(i * kChunkBytes, std::min(kChunkBytes, bytes.size() - i * kChunkBytes));
    const Sha256Digest digest = sha256(piece);
    chunks[i].setSha256(wire_bytes(digest));
    chunks[i].setSize(static_cast<uint32_t>(piece.size()));
    // The chunk is kept once, however often its bytes occur.
    if (seen_.insert(digest).second) {
      chunks_.push_back({digest, Bytes(piece.begin(), piece.end())});
    }
  }
  return {};
}

// ---------------------------------------------------------------------------------------------
// Reading

Status WireAttrReader::error(std::string_view message) const {
  return invalid_argument(cat(doing_, ": ", message));
}

Status WireAttrReader::at_most(std::string_view what, uint64_t most, uint64_t received) const {
  if (received <= most) return {};
  return error(cat("expected at most ", most, " ", what, ", received ", received));
}

Result<std::string> WireAttrReader::name(capnp::Text::Reader text) const {
  LEAT_RETURN_IF_ERROR(at_most("bytes of a name", limits::kNameLength, text.size()));
  return std::string(text.cStr(), text.size());
}

// Code 0 means that the type is not known. Every other code must be a type that this build has.
Result<DType> WireAttrReader::dtype(uint8_t code) const {
  const DType dtype = dtype_from_onnx_code(code);
  if (dtype == DType::invalid && code != 0) {
    return error(cat("expected an element type, received ", static_cast<int>(code)));
  }
  return dtype;
}

Result<std::vector<const OpDef*>> WireAttrReader::ops(capnp::List<capnp::Text>::Reader names,
                                                      const Catalogue& catalogue) const {
  LEAT_RETURN_IF_ERROR(at_most("ops", limits::kNodes, names.size()));
  std::vector<const OpDef*> ops;
  for (const auto text : names) {
    LEAT_ASSIGN_OR_RETURN(const std::string name, this->name(text));
    const OpDef* op = catalogue.find(name);
    if (op == nullptr) {
      return error(cat("expected a known op, received '", name, "'", catalogue.suggestion(name)));
    }
    ops.push_back(op);
  }
  return ops;
}

// Reads the attributes of a node. The names of attributes that belong to the graph are refused: the
// text form would take them for the node's own fields.
Result<Attrs> WireAttrReader::attrs(capnp::List<wire::Attr>::Reader list, const Regions& regions) {
  Attrs attrs;
  LEAT_RETURN_IF_ERROR(at_most("attributes", limits::kAttributes, list.size()));
  for (const auto one : list) {
    LEAT_ASSIGN_OR_RETURN(std::string name, this->name(one.getName()));
    if (!is_identifier(name) || is_reserved_attribute(name)) {
      return error(cat("expected an attribute's name, received '", name, "'"));
    }
    LEAT_ASSIGN_OR_RETURN(Attr value, attr(one, regions));
    if (!attrs.emplace(std::move(name), std::move(value))) {
      return error("expected each attribute of a node once");
    }
  }
  return attrs;
}

Result<std::string> WireAttrReader::string(capnp::Data::Reader data) const {
  LEAT_RETURN_IF_ERROR(at_most("bytes of a string", limits::kStringLength, data.size()));
  return std::string(reinterpret_cast<const char*>(data.begin()), data.size());
}

template <typename T, typename List>
Result<Attr> WireAttrReader::list(const List& list) const {
  LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, list.size()));
  std::vector<T> elements;
  elements.reserve(list.size());
  for (const T element : list) elements.push_back(element);
  return Attr(std::move(elements));
}

Result<Attr> WireAttrReader::attr(wire::Attr::Reader in, const Regions& regions) {
  switch (in.which()) {
    case wire::Attr::INT:
      return Attr(in.getInt());
    case wire::Attr::FLOAT:
      return Attr(in.getFloat());
    case wire::Attr::STRING: {
      LEAT_ASSIGN_OR_RETURN(std::string text, string(in.getString()));
      return Attr(std::move(text));
    }
    case wire::Attr::TENSOR: {
      LEAT_ASSIGN_OR_RETURN(Tensor value, tensor(in.getTensor()));
      return Attr(std::move(value));
    }
    case wire::Attr::INTS:
      return this->list<int64_t>(in.getInts());
    case wire::Attr::FLOATS:
      return this->list<double>(in.getFloats());
    case wire::Attr::STRINGS:
      return strings(in.getStrings());
    case wire::Attr::REGION:
      return regions(in.getRegion());
  }
  return error(cat("expected a kind of attribute, received ", static_cast<int>(in.which())));
}

Result<Attr> WireAttrReader::strings(capnp::List<capnp::Data>::Reader list) const {
  LEAT_RETURN_IF_ERROR(at_most("elements of a list", limits::kListLength, list.size()));
  std::vector<std::string> strings;
  for (const auto data : list) {
    LEAT_ASSIGN_OR_RETURN(std::string text, string(data));
    strings.push_back(std::move(text));
  }
  return Attr(std::move(strings));
}

// The shape is checked and all bytes are at hand before the tensor is allocated, so a small message
// cannot declare a large one.
Result<Tensor> WireAttrReader::tensor(wire::Tensor::Reader in) {
  LEAT_ASSIGN_OR_RETURN(const DType dtype, this->dtype(in.getDtype()));
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
  LEAT_ASSIGN_OR_RETURN(const auto pieces, this->pieces(in, bytes));
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(dtype, *shape));
  // The pieces follow each other without gaps, and their sizes add up to that of the tensor.
  auto* out = static_cast<std::byte*>(tensor.raw());
  for (const auto piece : pieces) {
    if (!piece.empty()) std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
  if (has_only_elements(tensor)) return tensor;
  return error(dtype == DType::boolean
                   ? "expected bools of 0 or 1"
                   : cat("expected elements of ", dtype_bits(dtype), " bits for ", dtype));
}

// The pieces of a constant in memory, with `bytes` bytes in total.
Result<std::vector<std::span<const std::byte>>> WireAttrReader::pieces(wire::Tensor::Reader in,
                                                                       uint64_t bytes) {
  std::vector<std::span<const std::byte>> pieces;
  // A size has one form only: inline up to the limit, chunks beyond it. Otherwise equal graphs
  // could have different bytes, and different hashes.
  if (in.isInline()) {
    const capnp::Data::Reader data = in.getInline();
    if (data.size() != bytes || bytes > limits::kInlineConstantBytes) {
      return error(cat("expected a constant of ", bytes, " bytes, received ", data.size()));
    }
    pieces.push_back(std::as_bytes(std::span(data.begin(), data.size())));
    return pieces;
  }
  if (!in.isChunks()) return error("expected the bytes of a constant");
  // The total counts every use of a chunk, because each becomes memory of its own.
  constant_bytes_ += bytes;
  LEAT_RETURN_IF_ERROR(at_most("bytes of constants", limits::kConstantBytes, constant_bytes_));
  const auto chunks = in.getChunks();
  if (bytes <= limits::kInlineConstantBytes ||
      chunks.size() != (bytes + kChunkBytes - 1) / kChunkBytes) {
    return error(cat("expected a constant of ", bytes, " bytes in chunks of 1 MiB, received ",
                     chunks.size(), " chunks"));
  }
  // All chunks but the last are 1 MiB.
  uint64_t left = bytes;
  for (const auto chunk : chunks) {
    const uint64_t size = std::min<uint64_t>(left, kChunkBytes);
    LEAT_ASSIGN_OR_RETURN(const auto piece, fetch(chunk, size));
    pieces.push_back(piece);
    left -= size;
  }
  return pieces;
}

// Gets the bytes of a chunk from the source, which is not trusted: their digest is computed again.
Result<std::span<const std::byte>> WireAttrReader::fetch(wire::Chunk::Reader chunk, uint64_t size) {
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

// ---------------------------------------------------------------------------------------------
// Messages

Status check_wire_size(std::string_view doing, uint64_t words, uint64_t most) {
  const uint64_t size = words * sizeof(capnp::word);
  if (size <= most) return {};
  return resource_exhausted(cat(doing, ": expected a message of at most ", human_bytes(most),
                                ", it has ", human_bytes(size)));
}

Result<WireMessage> WireMessage::open(std::string_view doing, std::span<const std::byte> bytes,
                                      uint64_t most) {
  // The whole message is one segment without a table, so its size is that of the bytes.
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0 || bytes.size() > most) {
    return invalid_argument(cat(doing, ": expected a message of 8 bytes to ", human_bytes(most),
                                " in words, received ", bytes.size(), " bytes"));
  }
  WireMessage message;
  const size_t words = bytes.size() / sizeof(capnp::word);
  kj::ArrayPtr<const capnp::word> segment(reinterpret_cast<const capnp::word*>(bytes.data()),
                                          words);
  // Cap'n Proto reads words where they lie. Bytes from a file or a socket may lie at any address.
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(capnp::word) != 0) {
    message.words_ = kj::heapArray<capnp::word>(words);
    std::memcpy(message.words_.begin(), bytes.data(), bytes.size());
    segment = message.words_.asPtr();
  }
  // The reader keeps a pointer to the list of segments, and the message may move, so the list is on
  // the heap.
  message.segments_ = std::make_unique<kj::ArrayPtr<const capnp::word>>(segment);
  capnp::ReaderOptions options;
  // Lists are read more than once, and shared pointers in a malicious message must not multiply
  // that.
  options.traversalLimitInWords = 8 * words + 1024;
  message.reader_ = std::make_unique<capnp::SegmentArrayMessageReader>(
      kj::arrayPtr(message.segments_.get(), 1), options);
  return message;
}

ChunkSource chunk_source(std::string doing, const std::vector<EncodedChunk>& chunks) {
  std::map<Sha256Digest, std::span<const std::byte>> by_digest;
  // The function keeps its own index, but only views of the bytes.
  for (const EncodedChunk& chunk : chunks) by_digest[chunk.digest] = chunk.bytes;
  return [doing = std::move(doing), by_digest = std::move(by_digest)](
             const Sha256Digest& digest) -> Result<std::span<const std::byte>> {
    const auto it = by_digest.find(digest);
    if (it != by_digest.end()) return it->second;
    return invalid_argument(cat(doing, ": the chunk ", to_hex(digest), " is missing"));
  };
}

}  // namespace leat
