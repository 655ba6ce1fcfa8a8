// The other end of a link, which the test plays byte by byte, so that it can be a broken, hostile
// or dying peer.
#pragma once

#include <sys/socket.h>

#include <vector>

#include "devices/base/crc32c.h"
#include "devices/cpu/cpu_device.h"
#include "tests/transport/link_testing.h"
#include "transport/io/reactor.h"
#include "transport/links/frame.h"
#include "transport/tcp/tcp_link.h"

namespace leat {

inline std::vector<std::byte> frame(FrameHeader header, std::span<const std::byte> payload = {}) {
  header.bytes = static_cast<uint32_t>(payload.size());
  const bool value = header.kind == FrameKind::value;
  std::vector<std::byte> bytes(kFrameHeaderBytes + payload.size());
  encode_frame(header, value ? std::span<const std::byte>() : payload, bytes.data());
  std::copy(payload.begin(), payload.end(), bytes.begin() + kFrameHeaderBytes);
  if (!value) return bytes;
  const auto head = std::span<const std::byte>(bytes).first<kFrameHeaderBytes>();
  const uint32_t checksum = crc32c(payload, checksum_of(head));
  const auto behind = std::as_bytes(std::span(&checksum, 1));
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return bytes;
}

inline std::vector<std::byte> bundle(uint32_t sequence, const std::vector<Record>& records) {
  std::vector<std::byte> payload;
  for (const Record& record : records) {
    const size_t at = payload.size();
    payload.resize(at + record_bytes(record.payload.size()));
    encode_record(record, payload.data() + at);
  }
  FrameHeader header;
  header.kind = FrameKind::bundle;
  header.sequence = sequence;
  return frame(header, payload);
}

inline std::vector<std::byte> piece(uint32_t sequence, uint32_t edge, uint64_t turn, uint32_t piece,
                                    std::span<const std::byte> bytes) {
  FrameHeader header;
  header.kind = FrameKind::value;
  header.sequence = sequence;
  header.edge = edge;
  header.turn = turn;
  header.piece = piece;
  return frame(header, bytes);
}

inline Record value_record(uint32_t edge, uint64_t turn, std::span<const std::byte> value) {
  return {Record::What::value, edge, turn, value};
}
inline Record credit_record(uint32_t edge, uint64_t count) {
  return {Record::What::credit, edge, count, {}};
}

// Has worker-1's link and the sockets of worker-0. The first edges come from worker-0, and the
// others go to it.
struct RawPeer {
  RawPeer(std::vector<uint64_t> in, std::vector<uint64_t> out,
          std::chrono::milliseconds stall = 30s)
      : ends(std::move(in), std::move(out)) {
    cpu::CpuDevice device(0, 1);
    for (const LinkEdge& edge : ends.setup_b.incoming)
      REQUIRE(ends.slots_b.open(edge.edge, edge.bytes, device).ok());
    auto express_pair = socket_pair(), bulk_pair = socket_pair();
    REQUIRE((express_pair.ok() && bulk_pair.ok()));
    express = std::move(express_pair->first);
    bulk = std::move(bulk_pair->first);
    ends.setup_b.stall = stall;
    auto made = tcp::make_link(reactor, std::move(express_pair->second),
                               std::move(bulk_pair->second), ends.setup_b);
    REQUIRE(made.ok());
    link = std::move(*made);
  }

  void send(const Descriptor& socket, std::span<const std::byte> bytes) {
    REQUIRE(send_all(socket.get(), bytes, soon(), "test").ok());
  }
  SlotTable& slots() { return ends.slots_b; }
  Status arrived(uint32_t edge, uint64_t turn) {
    return slots().edge(edge).arrived.wait(turn + 1, soon());
  }

  LinkEnds ends;
  Reactor reactor;
  Descriptor express, bulk;
  std::unique_ptr<Link> link;
};

}  // namespace leat
