// A graph as bytes, in the format of ops/capnp/graph.capnp. The text form is for people; this form
// is for files, for the network, and for the hash that identifies a graph.
//
// No function throws: exceptions of Cap'n Proto become a Status. Functions that read bytes check
// all of them: they check limits before they allocate memory.
//
//   LEAT_ASSIGN_OR_RETURN(const Bytes file, write_graph(graph));        // one file, to keep or
//   send LEAT_ASSIGN_OR_RETURN(Graph copy, read_graph(file, catalogue));
//   LEAT_RETURN_IF_ERROR(validate(copy));                               // a file is not trusted
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

// The size of all chunks of a constant but the last. It is part of the format: another size would
// change the hashes of graphs.
inline constexpr size_t kChunkBytes = size_t{1} << 20;

// A piece of a large constant, at most 1 MiB, named by its digest.
struct EncodedChunk {
  Sha256Digest digest;
  Bytes bytes;
};

// An encoded graph: the message, and the chunks of its large constants in order of first use, each
// once.
struct EncodedGraph {
  using Chunk = EncodedChunk;
  Bytes message;
  std::vector<Chunk> chunks;
};

// invalid_argument for a graph with a cycle or beyond the limits; resource_exhausted if the message
// would be larger than limits::kMessageBytes. Nodes are written in topological order, and values in
// the order in which nodes make them, so that equal graphs give equal bytes.
Result<EncodedGraph> encode_graph(const Graph& graph);

// Returns the bytes of the chunk with this digest, which the decoder checks against the digest. The
// bytes must be valid until the decoding is done.
using ChunkSource = std::function<Result<std::span<const std::byte>>(const Sha256Digest&)>;

// Decodes a message to a graph that is not validated. The catalogue must outlive it.
// invalid_argument for a message that is truncated, broken, or beyond a limit, and for an unknown
// op, with its name.
Result<Graph> decode_graph(std::span<const std::byte> message, const ChunkSource& chunks,
                           const Catalogue& catalogue);
Result<Graph> decode_graph(const EncodedGraph& encoded, const Catalogue& catalogue);

// The identity of a graph: 64 hexadecimal digits of SHA-256 over the message, which contains the
// digests of the chunks. It covers the names, devices and sources of nodes, too. Errors are those
// of encode_graph().
Result<std::string> graph_hash(const Graph& graph);

// Packs message and chunks into one file with a checksum. unpack finds damage; decode finds invalid
// content. The file, little-endian, each part padded with zeros to 8 bytes:
//
//   byte 0    "LEATGRPH"        byte 8    u32 version, 1    byte 12   u32 CRC-32C from byte 16 on
//   byte 16   u64 bytes of the message                      byte 24   u64 number of chunks
//   byte 32   the message       then      for each chunk u64 bytes, the bytes
Bytes pack_graph_file(const EncodedGraph& encoded);
// invalid_argument for another magic or version, sizes that do not fit the file, and a wrong
// checksum. The digests of the chunks are computed, since the file does not have them.
Result<EncodedGraph> unpack_graph_file(std::span<const std::byte> file);
// Writes the correct checksum into changed bytes, for tests of the checks behind it.
void seal_graph_file(std::span<std::byte> file);

// write_graph() encodes and packs; read_graph() unpacks and decodes.
Result<Bytes> write_graph(const Graph& graph);
Result<Graph> read_graph(std::span<const std::byte> file, const Catalogue& catalogue);

}  // namespace leat
