#include "devices/base/utf8.h"

#include "devices/base/status.h"
#include "tests/catch.h"

namespace leat {
namespace {

// Encodes a code point as UTF-8 would, even where UTF-8 forbids it.
std::string encoded(uint32_t point, int size) {
  const int head[] = {0, 0, 0xc0, 0xe0, 0xf0};
  std::string out;
  for (int i = size - 1; i >= 0; --i) {
    const uint32_t bits = point >> (6 * i) & (i == size - 1 ? 0x7f : 0x3f);
    out += static_cast<char>(size == 1 ? bits : (i == size - 1 ? head[size] : 0x80) | bits);
  }
  return out;
}

TEST_CASE("a sequence is one of Unicode's, in its shortest form") {
  for (uint32_t point = 0; point < 0x110800; point += point < 0x900 ? 1 : 0x3f) {
    const int shortest = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    const bool scalar = point < 0x110000 && (point < 0xd800 || point > 0xdfff);
    for (int size = shortest; size <= 4; ++size) {
      const std::string text = encoded(point, size);
      INFO(point << " in " << size);
      CHECK(utf8_sequence(text + "z") == (scalar && size == shortest ? text.size() : 0));
      for (size_t cut = 1; cut < text.size(); ++cut) CHECK_FALSE(is_utf8(text.substr(0, cut)));
    }
  }
  CHECK(utf8_sequence("") == 0);
  CHECK(is_utf8(""));
  for (const int first : {0x80, 0xbf, 0xc0, 0xc1, 0xf5, 0xff})
    CHECK_FALSE(is_utf8(std::string(1, static_cast<char>(first)) + "\x80\x80\x80"));
}

TEST_CASE("bytes that are no text are escaped, and text stays as it is") {
  CHECK(valid_utf8("größe 梯度 \n") == "größe 梯度 \n");
  CHECK(valid_utf8("a\xff\xe6\xa2z") == "a\\xff\\xe6\\xa2z");
  CHECK(printable("größe\n\x1b[2J\x7f") == "größe\\x0a\\x1b[2J\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J \xc2\xa0") == "\\xc2\\x9b2J \xc2\xa0");
  CHECK(printable("\xff") == "\\xff");
  CHECK(replaced_utf8("a\xff\xc3") == "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("a text that is too long is cut between characters") {
  CHECK(shortened("caf\xc3\xa9 caf\xc3\xa9", 9) == "caf\xc3\xa9 caf\xc3\xa9");
  CHECK(shortened("caf\xc3\xa9 caf\xc3\xa9", 7) == "caf\xc3\xa9...");
  CHECK(shortened("abcdef", 2) == "..");
  CHECK(cut_utf8("caf\xc3\xa9", 5) == "caf\xc3\xa9");
  CHECK(cut_utf8("caf\xc3\xa9", 4) == "caf");
  CHECK(cut_utf8("caf\xc3\xa9s", 5) == "caf\xc3\xa9");
  CHECK(cut_utf8("\xc3\xa9", 1).empty());
  CHECK(utf8_characters("caf\xc3\xa9") == 4);
}

TEST_CASE("a status has text as its message, whatever it quotes and wherever it was cut") {
  const Status status = invalid_argument("received '\xfe\xff', größe");
  CHECK(status.message() == "received '\\xfe\\xff', größe");
  const std::string cut = std::string("größe").substr(0, 3);
  CHECK(is_utf8(status.while_doing("reading '" + cut + "'").message()));
  CHECK(unavailable("größe").message() == "größe");
}

}  // namespace
}  // namespace leat
