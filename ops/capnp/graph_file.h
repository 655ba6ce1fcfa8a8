// A graph as bytes: ops/capnp/graph.capnp is the format. The text form is for people; this one is
// for files, for the wire, and for the hash that is a graph's identity.
//
// Nothing here throws: what Cap'n Proto throws becomes a Status. A function of bytes trusts none of
// them: limits are checked before memory is taken.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/sha256.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

inline constexpr size_t kChunkBytes = size_t{1} << 20;

// A piece of a large constant, 1 MiB at most, named by its digest.
struct EncodedChunk {
  Sha256Digest digest;
  Bytes bytes;
};

// A graph taken apart: the message, and the chunks of its large constants in order of first use,
// each once.
struct EncodedGraph {
  using Chunk = EncodedChunk;
  Bytes message;
  std::vector<Chunk> chunks;
};

// invalid_argument for a graph with a cycle or beyond the limits; resource_exhausted if the message
// would be larger than limits::kMessageBytes. Nodes are written in topological order and values
// in the order in which they are made: only so are equal graphs equal bytes.
Result<EncodedGraph> encode_graph(const Graph& graph);

// The bytes of the chunk with this digest; they are checked against it. Kept until decode is done.
using ChunkSource = std::function<Result<std::span<const std::byte>>(const Sha256Digest&)>;

// The graph of a message, not validated. The catalogue must outlive it. invalid_argument for a
// message that is cut, broken, or against a limit; an unknown op is named.
Result<Graph> decode_graph(std::span<const std::byte> message, const ChunkSource& chunks,
                           const Catalogue& catalogue);
Result<Graph> decode_graph(const EncodedGraph& encoded, const Catalogue& catalogue);

// The identity: 64 hexadecimal digits of SHA-256 over the message, which holds the digests of the
// chunks.
Result<std::string> graph_hash(const Graph& graph);

// One file with both, and a checksum: it is damage that unpack finds, decode finds what is wrong.
Bytes pack_graph_file(const EncodedGraph& encoded);
Result<EncodedGraph> unpack_graph_file(std::span<const std::byte> file);
// Writes the right checksum into bytes that are changed: for tests of what stands behind it.
void seal_graph_file(std::span<std::byte> file);

// encode and pack; unpack and decode.
Result<Bytes> write_graph(const Graph& graph);
Result<Graph> read_graph(std::span<const std::byte> file, const Catalogue& catalogue);

}  // namespace leat
