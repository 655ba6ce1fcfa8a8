#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "LEATGRPH";
constexpr size_t kHeader = 32;
constexpr size_t kChecksumAt = 12;
constexpr size_t kChecked = 16;  // the checksum covers the file from here to the end

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

// Fills a file from front to back.
class Filler {
 public:
  explicit Filler(size_t size) : bytes_(size) {}
  void add(std::span<const std::byte> bytes) {
    if (!bytes.empty()) std::memcpy(bytes_.data() + at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  template <typename T>
  void number(T value) {  // little-endian, as on all supported machines
    add(std::as_bytes(std::span(&value, 1)));
  }
  void pad() { at_ = padded(at_); }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;  // zeros at first
  size_t at_ = 0;
};

// Reads a number at a byte that need not be aligned. The caller has checked that it is there.
template <typename T>
T get(std::span<const std::byte> from, size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

// The error of a file that is no graph's file, or a damaged one.
Status broken(std::string_view message) {
  return invalid_argument(cat("reading a graph's file: ", message));
}

}  // namespace

Bytes pack_graph_file(const EncodedGraph& encoded) {
  // The size is known beforehand, so the file is allocated once. A chunk takes 8 bytes more for its
  // length.
  size_t size = kHeader + encoded.message.size();
  for (const EncodedGraph::Chunk& chunk : encoded.chunks) size += 8 + padded(chunk.bytes.size());
  Filler out(size);
  out.add(std::as_bytes(std::span(kMagic)));
  out.number(uint32_t{1});
  out.number(uint32_t{0});  // the checksum, which seal_graph_file() sets
  out.number(uint64_t{encoded.message.size()});
  out.number(uint64_t{encoded.chunks.size()});
  out.add(encoded.message);
  for (const EncodedGraph::Chunk& chunk : encoded.chunks) {
    out.number(uint64_t{chunk.bytes.size()});
    out.add(chunk.bytes);
    out.pad();
  }
  Bytes file = out.take();
  seal_graph_file(file);
  return file;
}

// The checksum leaves out the magic, the version and itself. The reader compares the first two.
void seal_graph_file(std::span<std::byte> file) {
  if (file.size() < kHeader) return;
  const uint32_t checksum = crc32c(file.subspan(kChecked));
  std::memcpy(file.data() + kChecksumAt, &checksum, sizeof checksum);
}

Result<EncodedGraph> unpack_graph_file(std::span<const std::byte> file) {
  if (file.size() < kHeader || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0) {
    return broken("expected a file that begins with LEATGRPH");
  }
  if (get<uint32_t>(file, 8) != 1) {
    return broken(cat("expected version 1, received ", get<uint32_t>(file, 8)));
  }
  const auto message = get<uint64_t>(file, 16), count = get<uint64_t>(file, 24);
  // Sizes in the file are only trusted after they were compared with what is there.
  if (message > limits::kMessageBytes || message % 8 != 0 || message > file.size() - kHeader) {
    return broken(cat("expected a message of ", message, " bytes, the file has ", file.size()));
  }
  EncodedGraph encoded;
  const auto begin = file.begin() + kHeader;
  encoded.message.assign(begin, begin + static_cast<std::ptrdiff_t>(message));
  std::span<const std::byte> rest = file.subspan(kHeader + message);
  // A chunk has at least one byte, so the loop ends with the file, whatever `count` says.
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t size = rest.size() < 8 ? 0 : get<uint64_t>(rest, 0);
    if (size == 0 || size > kChunkBytes || padded(size) > rest.size() - 8) {
      return broken(
          cat("expected ", count, " chunks of 1 byte to 1 MiB, the file ends in chunk ", i));
    }
    const auto bytes = rest.subspan(8, size);
    // The file has no digests: the message names them, and the decoder looks for each one.
    encoded.chunks.push_back({sha256(bytes), Bytes(bytes.begin(), bytes.end())});
    const auto filling = rest.subspan(8 + size, padded(size) - size);
    if (std::any_of(filling.begin(), filling.end(), [](std::byte b) { return b != std::byte{}; })) {
      return broken("expected zeros between chunks");
    }
    rest = rest.subspan(8 + padded(size));
  }
  // The checksum comes last, so that a file of the wrong size has an error that says so.
  if (!rest.empty()) return broken(cat("expected the end, found ", rest.size(), " bytes more"));
  const auto expected = get<uint32_t>(file, kChecksumAt), received = crc32c(file.subspan(kChecked));
  if (received != expected) {
    return broken(cat("expected bytes of CRC-32C ", expected, ", received ", received));
  }
  return encoded;
}

Result<Bytes> write_graph(const Graph& graph) {
  LEAT_ASSIGN_OR_RETURN(const EncodedGraph encoded, encode_graph(graph));
  return pack_graph_file(encoded);
}

Result<Graph> read_graph(std::span<const std::byte> file, const Catalogue& catalogue) {
  LEAT_ASSIGN_OR_RETURN(const EncodedGraph encoded, unpack_graph_file(file));
  return decode_graph(encoded, catalogue);
}

}  // namespace leat
