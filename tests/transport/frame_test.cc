#include "transport/links/frame.h"

#include <cstring>
#include <string>

#include "devices/base/crc32c.h"
#include "tests/catch.h"

using namespace leat;

namespace {

using HeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

HeaderBytes encoded(const FrameHeader& header, std::span<const std::byte> payload = {}) {
  HeaderBytes bytes;
  encode_frame(header, payload, bytes.data());
  return bytes;
}

FrameHeader a_value() {
  FrameHeader header;
  header.kind = FrameKind::value;
  header.edge = 0x01020304;
  header.turn = 0x1122334455667788;
  header.piece = 5;
  header.bytes = 4;
  header.sequence = 9;
  return header;
}

const std::vector<std::byte> kPayload(4, std::byte{7});

}  // namespace

TEST_CASE("the layout of a frame is the documented one") {
  const HeaderBytes bytes = encoded(a_value(), kPayload);
  const uint8_t expected[28] = {'L',  'F',  2, 1, 4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
                                0x22, 0x11, 5, 0, 0, 0, 4, 0, 0,    0,    9,    0,    0,    0};
  CHECK(std::memcmp(bytes.data(), expected, 28) == 0);
}

TEST_CASE("a header reads back as it was written") {
  const auto header = decode_frame(encoded(a_value(), kPayload));
  REQUIRE(header.ok());
  CHECK(header->kind == FrameKind::value);
  CHECK(header->edge == 0x01020304);
  CHECK(header->turn == 0x1122334455667788);
  CHECK(header->piece == 5);
  CHECK(header->bytes == 4);
  CHECK(header->sequence == 9);
}

TEST_CASE("a header with a field out of its range is refused by name") {
  struct Case {
    size_t at;
    std::vector<uint8_t> bytes;
    FrameKind kind;
    const char* field;
  };
  const Case cases[] = {
      {0, {0}, FrameKind::value, "magic"},
      {1, {0xff}, FrameKind::value, "magic"},
      {2, {3}, FrameKind::value, "version"},
      {2, {1}, FrameKind::value, "version"},
      {3, {0}, FrameKind::value, "kind"},
      {3, {6}, FrameKind::value, "kind"},
      {3, {7}, FrameKind::value, "kind"},
      {3, {255}, FrameKind::value, "kind"},
      {20, {1, 0, 4, 0}, FrameKind::value, "bytes"},   // 256 KiB + 1
      {20, {1, 0, 1, 0}, FrameKind::bundle, "bytes"},  // 64 KiB + 1
      {20, {1, 4, 0, 0}, FrameKind::abort, "bytes"},   // 1 KiB + 1
      {20, {1, 0, 0, 0}, FrameKind::ping, "bytes"},
      {20, {1, 0, 0, 0}, FrameKind::pong, "bytes"},
      {20, {255, 255, 255, 255}, FrameKind::value, "bytes"},
      {16, {1, 0, 0, 0}, FrameKind::bundle, "piece"},
      {16, {0, 0, 0, 128}, FrameKind::pong, "piece"},
  };
  for (const Case& c : cases) {
    FrameHeader header;
    header.kind = c.kind;
    HeaderBytes bytes = encoded(header);
    REQUIRE(decode_frame(bytes).ok());
    for (size_t i = 0; i < c.bytes.size(); ++i) bytes[c.at + i] = std::byte{c.bytes[i]};
    const auto decoded = decode_frame(bytes);
    INFO(c.field << " at " << c.at << ": " << decoded.status());
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.status().code() == Code::invalid_argument);
    CHECK(decoded.status().message().find(std::string("frame: ") + c.field) == 0);
  }
}

TEST_CASE("the checksum covers every bit of the header and of the payload") {
  HeaderBytes bytes = encoded(a_value(), kPayload);
  REQUIRE(checksum_holds(bytes, kPayload));
  for (size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    CHECK_FALSE(checksum_holds(bytes, kPayload));
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
  for (size_t bit = 0; bit < 32; ++bit) {
    auto payload = kPayload;
    payload[bit / 8] ^= std::byte(1 << bit % 8);
    CHECK_FALSE(checksum_holds(bytes, payload));
  }
}

TEST_CASE("pieces cover a value exactly") {
  for (uint64_t bytes : {uint64_t{1}, uint64_t{262143}, uint64_t{262144}, uint64_t{262145},
                         uint64_t{1} << 30, (uint64_t{1} << 40) + 5}) {
    const uint64_t n = pieces_of(bytes);
    CHECK((n - 1) * kPieceBytes < bytes);
    CHECK((n - 1) * kPieceBytes + piece_bytes(bytes, n - 1) == bytes);
    CHECK(piece_bytes(bytes, 0) == std::min<uint64_t>(bytes, kPieceBytes));
  }
  CHECK(pieces_of(0) == 1);
  CHECK(piece_bytes(0, 0) == 0);
}

TEST_CASE("records of a bundle read back in order") {
  const std::vector<std::byte> three(3, std::byte{1}), none;
  std::vector<std::byte> bundle(record_bytes(3) + record_bytes(0) + record_bytes(0));
  encode_record({Record::What::value, 7, 2, three}, bundle.data());
  encode_record({Record::What::credit, 8, 40, {}}, bundle.data() + record_bytes(3));
  encode_record({Record::What::value, 9, 3, none}, bundle.data() + record_bytes(3) + 16);
  RecordReader reader(bundle);
  auto record = reader.next();
  REQUIRE(record.ok());
  CHECK(record->what == Record::What::value);
  CHECK(record->edge == 7);
  CHECK(record->turn == 2);
  CHECK(std::equal(three.begin(), three.end(), record->payload.begin(), record->payload.end()));
  record = reader.next();
  REQUIRE(record.ok());
  CHECK(record->what == Record::What::credit);
  CHECK(record->edge == 8);
  CHECK(record->turn == 40);
  record = reader.next();
  REQUIRE(record.ok());
  CHECK(record->what == Record::What::value);
  CHECK(record->payload.empty());
  CHECK(reader.at_end());
}

TEST_CASE("a bundle that is cut or claims too much is refused") {
  const std::vector<std::byte> value(10, std::byte{1});
  std::vector<std::byte> bundle(record_bytes(10));
  encode_record({Record::What::value, 7, 2, value}, bundle.data());
  for (size_t size = 1; size < bundle.size(); ++size) {
    const Status status = RecordReader(std::span(bundle).first(size)).next().status();
    CHECK(status.code() == Code::invalid_argument);
    const bool says_what_is_left = status.message().find("at least 16 bytes") != std::string::npos;
    CHECK(says_what_is_left == (size < 16));
  }
  CHECK(RecordReader(bundle).next().ok());
  for (uint32_t claim : {uint32_t{25}, uint32_t{16385}, uint32_t{0x7fffffff}, uint32_t{0x80000001},
                         uint32_t{0xffffffff}}) {
    std::memcpy(bundle.data() + 4, &claim, sizeof claim);
    CHECK_FALSE(RecordReader(bundle).next().ok());
  }
}
