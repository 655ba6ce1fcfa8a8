#include <cstring>
#include <string>

#include "tests/catch.h"
#include "transport/rpc/framing.h"
#include "transport/rpc/limits.h"

namespace leat {
namespace {

std::string words32(std::initializer_list<uint32_t> words) {
  return std::string(reinterpret_cast<const char*>(words.begin()), 4 * words.size());
}

// Feeds the bytes in pieces of at most `piece`. Returns the messages, or the error.
Result<std::vector<FramedMessage>> feed(MessageFraming& framing, std::string bytes, size_t piece) {
  std::vector<FramedMessage> messages;
  while (!bytes.empty()) {
    const auto space = framing.space();
    const size_t size = std::min({piece, bytes.size(), space.size()});
    std::memcpy(space.data(), bytes.data(), size);
    bytes.erase(0, size);
    framing.received(size);
    for (;;) {
      auto next = framing.next();
      if (!next.ok()) return next.status();
      if (!next->has_value()) break;
      messages.push_back(std::move(**next));
    }
  }
  return messages;
}

std::string message_of(uint32_t words, char fill) {
  return words32({0, words}) + std::string(8 * words, fill);
}

}  // namespace

TEST_CASE("messages come out whole however the stream is cut") {
  const std::string two_segments = words32({1, 1, 2, 0}) + std::string(24, 'b');
  const std::string stream = message_of(3, 'a') + two_segments + message_of(9000, 'c');
  for (const size_t piece : {1, 7, 8, 100, 100'000}) {
    MessageFraming framing(1u << 20);
    const auto messages = feed(framing, stream, piece);
    REQUIRE(messages.ok());
    REQUIRE(messages->size() == 3);
    CHECK((*messages)[0].segment_words == std::vector<uint32_t>{3});
    CHECK((*messages)[1].segment_words == std::vector<uint32_t>{1, 2});
    CHECK((*messages)[1].words.size() == 3);
    CHECK((*messages)[2].words.size() == 9000);
    CHECK((*messages)[2].words[8999] == 0x6363636363636363);
    CHECK_FALSE(framing.in_message());
  }
}

TEST_CASE("a segment count that overflows is refused by its first word") {
  MessageFraming framing(8u << 20);
  const auto messages = feed(framing, words32({0xffffffff}), 4);
  CHECK(messages.status().code() == Code::invalid_argument);
  CHECK(messages.status().message() == "message of 4294967296 segments: expected at most 511");
}

TEST_CASE("a claim above the cap is refused before its bytes come") {
  MessageFraming framing(1u << 20);
  const auto messages = feed(framing, words32({0, 8u << 20}), 8);
  CHECK(messages.status().code() == Code::resource_exhausted);
  CHECK(framing.held_bytes() <= 16u << 10);
  const auto again = framing.next();
  CHECK_FALSE(again.ok());
}

TEST_CASE("sizes of segments are added without overflow") {
  MessageFraming framing(8u << 20);
  const auto messages =
      feed(framing, words32({3, 0x80000000, 0x80000000, 0x80000000, 0x80000000, 0}), 100);
  CHECK(messages.status().code() == Code::resource_exhausted);
}

TEST_CASE("memory grows with what has come, not with what is promised") {
  MessageFraming framing(8u << 20);
  REQUIRE(feed(framing, words32({0, 900'000}) + std::string(100'000, 'x'), 1000).ok());
  CHECK(framing.in_message());
  CHECK(framing.held_bytes() <= 2 * 100'016);
}

TEST_CASE("a large message that has gone leaves no memory behind") {
  MessageFraming framing(8u << 20);
  REQUIRE(feed(framing, message_of(500'000, 'x'), 1u << 20).value().size() == 1);
  (void)framing.space();
  CHECK(framing.held_bytes() <= 16u << 10);
}

TEST_CASE("a table of segments is padded to whole words") {
  CHECK(segment_table(std::vector<uint32_t>{5}) == std::vector<uint32_t>{0, 5});
  CHECK(segment_table(std::vector<uint32_t>{5, 6}) == std::vector<uint32_t>{1, 5, 6, 0});
  CHECK(table_bytes(1) == 8);
  CHECK(table_bytes(2) == 16);
  CHECK(table_bytes(3) == 16);
}

TEST_CASE("a budget is shared, and what each connection needs least is not asked for") {
  constexpr size_t kFree = ByteBudget::kFreeBytes;
  ByteBudget budget(1000);
  ByteCharge first(budget);
  {
    ByteCharge greedy(budget);
    CHECK(greedy.set(kFree + 1000));
    CHECK(budget.used() == 1000);
    CHECK_FALSE(greedy.set(kFree + 1001));
    CHECK(greedy.held() == kFree + 1000);
    CHECK(first.set(kFree));
    CHECK_FALSE(first.set(kFree + 1));
    CHECK(greedy.set(kFree + 999));
    CHECK(first.set(kFree + 1));
  }
  CHECK(budget.used() == 1);
  CHECK(first.set(0));
  CHECK(budget.used() == 0);
}

}  // namespace leat
