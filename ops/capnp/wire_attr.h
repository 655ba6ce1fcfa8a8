// Readers and writers of attributes, of tensors and of a message's frame, as in graph.capnp: graphs
// and plans share them. Private to the files that use Cap'n Proto. Exceptions of Cap'n Proto pass
// through here, and those files catch them.
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

template <typename T>
kj::ArrayPtr<const kj::byte> wire_bytes(const T& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
inline capnp::Text::Reader wire_text(const std::string& text) {
  return {text.c_str(), text.size()};
}

// Errors are invalid_argument and begin with `doing`: "encoding a graph: expected at most ...".
class WireAttrWriter {
 public:
  // Returns the index of a region, or an error.
  using Regions = std::function<Result<uint32_t>(const Graph&)>;
  WireAttrWriter(std::string doing, Regions regions)
      : doing_(std::move(doing)), regions_(std::move(regions)) {}

  Status at_most(std::string_view what, uint64_t most, uint64_t received) const;
  // REQUIRES: `out` has as many elements as there are attributes.
  Status put(const Attrs& attrs, capnp::List<wire::Attr>::Builder out);
  Status put(const Tensor& tensor, wire::Tensor::Builder out);
  // The chunks of all tensors so far, in order of first use, each once.
  std::vector<EncodedChunk> take_chunks() { return std::move(chunks_); }

 private:
  Status put(const Attr& attr, wire::Attr::Builder out);

  const std::string doing_;
  const Regions regions_;
  std::set<Sha256Digest> seen_;
  std::vector<EncodedChunk> chunks_;
  uint64_t constant_bytes_ = 0;
};

// Checks everything that it reads. Errors are like those of the writer.
class WireAttrReader {
 public:
  using Regions = std::function<Result<Attr>(uint32_t index)>;
  // `chunks` must outlive the reader.
  WireAttrReader(std::string doing, const ChunkSource& chunks)
      : doing_(std::move(doing)), chunks_(chunks) {}

  Status error(std::string_view message) const;
  Status at_most(std::string_view what, uint64_t most, uint64_t received) const;
  Result<std::string> name(capnp::Text::Reader text) const;
  Result<DType> dtype(uint8_t code) const;  // 0: invalid
  // The ops by their names; an error names an op that the catalogue lacks.
  Result<std::vector<const OpDef*>> ops(capnp::List<capnp::Text>::Reader names,
                                        const Catalogue& catalogue) const;
  Result<Attrs> attrs(capnp::List<wire::Attr>::Reader list, const Regions& regions);
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
// are not aligned.
class WireMessage {
 public:
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

// A source of chunks in memory, which must outlive it.
ChunkSource chunk_source(std::string doing, const std::vector<EncodedChunk>& chunks);

}  // namespace leat
