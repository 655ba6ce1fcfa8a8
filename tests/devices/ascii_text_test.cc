#include "devices/base/ascii_text.h"

#include "tests/catch.h"

namespace leat {
namespace {

TEST_CASE("ASCII letters become small, and other bytes stay") {
  CHECK(lower_case("Content-TYPE 9_Z") == "content-type 9_z");
  CHECK(lower_case("\xc3\x84\xc4") == "\xc3\x84\xc4");
}

TEST_CASE("a text becomes a part of a URL, with the signs that are kept") {
  CHECK(url_encoded("aZ09-._~") == "aZ09-._~");
  CHECK(url_encoded("a/b c?\xc3\xa9") == "a%2Fb%20c%3F%C3%A9");
  CHECK(url_encoded("a/b c%20", "/%") == "a/b%20c%20");
}

}  // namespace
}  // namespace leat
