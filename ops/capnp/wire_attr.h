// Readers and writers of attributes, of tensors and of a message's frame, as in graph.capnp: graphs
// and plans share them. Private to the files that use Cap'n Proto. Exceptions of Cap'n Proto pass
// through here, and those files catch them.
//
// A message names the chunks of its large constants by SHA-256 and does not contain them. Equal
// graphs have equal messages: attributes are sorted, a constant has one form for its size, and the
// message is canonical.
#pragma once

#include <capnp/any.h>
#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph.capnp.h"
#include "ops/capnp/graph_file.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {

// Views of the argument, which must outlive them. The bytes are those of a container with data()
// and size() of elements of one byte.
template <typename T>
kj::ArrayPtr<const kj::byte> wire_bytes(const T& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
inline capnp::Text::Reader wire_text(const std::string& text) {
  return {text.c_str(), text.size()};
}

// Writes the attributes of one message, and collects the chunks of its constants. Errors are
// invalid_argument and begin with `doing`: "encoding a graph: expected at most ...". Threads: one.
class WireAttrWriter {
 public:
  // Returns the index of a region in the message, or an error.
  using Regions = std::function<Result<uint32_t>(const Graph&)>;
  // `regions` is called for each attribute that is a region; a plan has none and returns an error.
  WireAttrWriter(std::string doing, Regions regions)
      : doing_(std::move(doing)), regions_(std::move(regions)) {}

  // The error "expected at most MOST WHAT, received RECEIVED" if received > most.
  Status at_most(std::string_view what, uint64_t most, uint64_t received) const;
  // Writes all attributes in ascending order of their names, and checks their limits. REQUIRES:
  // `out` has as many elements as there are attributes.
  Status put(const Attrs& attrs, capnp::List<wire::Attr>::Builder out);
  // Writes a constant: up to limits::kInlineConstantBytes its bytes are in the message, else they
  // are cut every kChunkBytes into chunks, of which each is copied once.
  Status put(const Tensor& tensor, wire::Tensor::Builder out);
  // The chunks of all tensors so far, in order of first use, each once. May be called once.
  std::vector<EncodedChunk> take_chunks() { return std::move(chunks_); }

 private:
  Status put(const Attr& attr, wire::Attr::Builder out);

  const std::string doing_;
  const Regions regions_;
  std::set<Sha256Digest> seen_;
  std::vector<EncodedChunk> chunks_;
  uint64_t constant_bytes_ = 0;
};

// Reads the attributes of one message, which may come from anywhere. It checks everything that it
// reads, and the limits before it allocates memory. Errors are like those of the writer. Threads:
// one.
class WireAttrReader {
 public:
  // Returns the region with this index of the message as an attribute. It bounds the nesting.
  using Regions = std::function<Result<Attr>(uint32_t index)>;
  // `chunks` must outlive the reader.
  WireAttrReader(std::string doing, const ChunkSource& chunks)
      : doing_(std::move(doing)), chunks_(chunks) {}

  // An invalid_argument error that begins with `doing`.
  Status error(std::string_view message) const;
  // As in WireAttrWriter.
  Status at_most(std::string_view what, uint64_t most, uint64_t received) const;
  // A name of at most limits::kNameLength bytes. UTF-8 is checked by check_limits().
  Result<std::string> name(capnp::Text::Reader text) const;
  // The dtype with this code of ONNX; DType::invalid for 0, an error for any other unknown code.
  Result<DType> dtype(uint8_t code) const;
  // The ops by their names; an error names an op that the catalogue lacks.
  Result<std::vector<const OpDef*>> ops(capnp::List<capnp::Text>::Reader names,
                                        const Catalogue& catalogue) const;
  // The attributes of one node. It is an error if a name occurs twice, is no identifier, or is that
  // of an attribute that belongs to the graph (see is_reserved_attribute()).
  Result<Attrs> attrs(capnp::List<wire::Attr>::Reader list, const Regions& regions);
  // A constant with memory of its own. Its chunks are fetched from the source and their digests are
  // computed again; the total of all constants is bounded by limits::kConstantBytes.
  Result<Tensor> tensor(wire::Tensor::Reader in);

 private:
  Result<Attr> attr(wire::Attr::Reader in, const Regions& regions);
  Result<std::string> string(capnp::Data::Reader data) const;
  template <typename T, typename List>
  Result<Attr> list(const List& list) const;
  Result<Attr> strings(capnp::List<capnp::Data>::Reader list) const;
  Result<std::vector<std::span<const std::byte>>> pieces(wire::Tensor::Reader in, uint64_t bytes);
  Result<std::span<const std::byte>> fetch(wire::Chunk::Reader chunk, uint64_t size);

  const std::string doing_;
  const ChunkSource& chunks_;
  std::map<Sha256Digest, const std::byte*> checked_;
  uint64_t constant_bytes_ = 0;
};

// Checks the size of a message in canonical form. resource_exhausted beyond `most` bytes.
Status check_wire_size(std::string_view doing, uint64_t words, uint64_t most);
// The message of `root` in Cap'n Proto's canonical form: one segment without a table, in preorder,
// without trailing zeros. Equal contents have equal bytes.
template <typename Reader>
Result<Bytes> canonical_bytes(std::string_view doing, Reader root,
                              uint64_t most = limits::kMessageBytes) {
  // canonicalize() counts words in 29 bits, so larger messages must be refused before.
  LEAT_RETURN_IF_ERROR(check_wire_size(doing, root.totalSize().wordCount, most));
  const kj::Array<capnp::word> words = capnp::canonicalize(root);
  Bytes bytes(words.size() * sizeof(capnp::word));
  std::memcpy(bytes.data(), words.begin(), bytes.size());
  return bytes;
}

// Bytes as a message of one segment. The bytes must outlive it. It copies them only if their words
// are not aligned. The reader visits at most eight times the words of the message, so that shared
// pointers of a malicious one cannot multiply the work: Cap'n Proto throws beyond that.
class WireMessage {
 public:
  // invalid_argument unless there are 8 to `most` bytes in whole words. The contents are checked
  // when they are read.
  static Result<WireMessage> open(std::string_view doing, std::span<const std::byte> bytes,
                                  uint64_t most = limits::kMessageBytes);
  // May be called once. The root is valid as long as the message.
  template <typename T>
  typename T::Reader root() {
    return reader_->getRoot<T>();
  }

 private:
  WireMessage() = default;
  kj::Array<capnp::word> words_;
  std::unique_ptr<kj::ArrayPtr<const capnp::word>> segments_;  // at a constant address
  std::unique_ptr<capnp::SegmentArrayMessageReader> reader_;
};

// A source of chunks in memory, which must outlive it. Its error for a chunk that is not there is
// invalid_argument and begins with `doing`.
ChunkSource chunk_source(std::string doing, const std::vector<EncodedChunk>& chunks);

}  // namespace leat
