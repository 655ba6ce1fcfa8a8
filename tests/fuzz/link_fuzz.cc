// Sends hostile bytes over the two sockets of a link. The first byte of the input chooses how much
// goes over the bulk socket. If the second one is odd, headers and checksums are corrected, so that
// the code behind them runs.
#include <sys/socket.h>

#include <cstring>

#include "devices/base/crc32c.h"
#include "devices/cpu/cpu_device.h"
#include "tests/fuzz/fuzz.h"
#include "transport/links/frame.h"
#include "transport/tcp/tcp_link.h"

namespace leat {
namespace {

constexpr size_t kLarge = (16 << 10) + 1;  // an edge of one piece, as small as possible
constexpr size_t kMost = 128 << 10;        // the bytes that a socket takes without a reader

// Turns the input into a sequence of frames with the right checksums and numbers.
std::vector<std::byte> repaired(std::span<const std::byte> input, bool bulk) {
  std::vector<std::byte> out(input.begin(), input.end());
  uint32_t sequence = 0;
  const size_t around = kFrameHeaderBytes + (bulk ? kChecksumBytes : 0);
  for (size_t at = 0; at + around <= out.size();) {
    FrameHeader header;
    const auto kind = static_cast<uint8_t>(out[at + 3]);
    header.kind = bulk ? FrameKind::value : static_cast<FrameKind>(1 + kind % 6);
    std::memcpy(&header.edge, &out[at + 4], 4);
    std::memcpy(&header.turn, &out[at + 8], 8);
    std::memcpy(&header.piece, &out[at + 16], 4);
    std::memcpy(&header.bytes, &out[at + 20], 4);
    header.edge %= 8;
    header.turn %= 8;
    if (bulk) header.bytes = static_cast<uint32_t>(kLarge);
    header.bytes = static_cast<uint32_t>(std::min<size_t>(header.bytes, out.size() - at - around));
    header.sequence = sequence++;
    const auto payload =
        std::span<const std::byte>(out).subspan(at + kFrameHeaderBytes, header.bytes);
    encode_frame(header, bulk ? std::span<const std::byte>() : payload, &out[at]);
    if (bulk) {
      const auto head = std::span<const std::byte>(out).subspan(at).first<kFrameHeaderBytes>();
      const uint32_t checksum = crc32c(payload, checksum_of(head));
      std::memcpy(&out[at + kFrameHeaderBytes + header.bytes], &checksum, kChecksumBytes);
    }
    at += around + header.bytes;
  }
  return out;
}

void send_to(const Descriptor& socket, std::span<const std::byte> bytes) {
  bytes = bytes.first(std::min(bytes.size(), kMost));
  static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

void run(std::span<const std::byte> input) {
  const size_t on_bulk = std::min(static_cast<size_t>(input[0]) * 256, input.size() - 2);
  const bool repair = (static_cast<uint8_t>(input[1]) & 1) != 0;
  input = input.subspan(2);
  static Reactor reactor;
  LinkSetup setup;
  setup.self = "worker-1";
  setup.peer = "worker-0";
  setup.incoming = {{0, 8}, {1, 0}, {2, kLarge}, {3, 24}};
  setup.outgoing = {{4, 8}, {5, kLarge}};
  SlotTable slots(8);
  setup.slots = &slots;
  cpu::CpuDevice device(0, 1);
  for (const LinkEdge& e : setup.incoming)
    require(slots.open(e.edge, e.bytes, device).ok(), "slots");
  auto express = socket_pair(), bulk = socket_pair();
  require(express.ok() && bulk.ok(), "sockets");
  auto link = tcp::make_link(reactor, std::move(express->second), std::move(bulk->second), setup);
  require(link.ok(), "a link is made");
  const auto first = input.first(on_bulk), second = input.subspan(on_bulk);
  send_to(bulk->first, repair ? repaired(first, true) : std::vector(first.begin(), first.end()));
  send_to(express->first,
          repair ? repaired(second, false) : std::vector(second.begin(), second.end()));
  bulk->first = Descriptor();
  express->first = Descriptor();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  static_cast<void>((*link)->credit(4).wait(~uint64_t{0}, deadline).ok());
  require(!(*link)->status().ok(), "the link ends when its peer has gone");
  for (const LinkEdge& e : setup.incoming)
    require(slots.edge(e.edge).arrived.value() <= kSlotDepth, "no more arrives than fits");
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size >= 2) leat::run(leat::bytes_of_input(data, size));
  return 0;
}
