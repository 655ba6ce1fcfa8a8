#include "daemon/base/units.h"

#include "tests/catch.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

TEST_CASE("sizes are integers with binary units or none") {
  CHECK(parse_bytes("0") == 0);
  CHECK(parse_bytes("1073741824") == uint64_t{1} << 30);
  CHECK(parse_bytes("2GiB") == uint64_t{2} << 30);
  CHECK(parse_bytes("512 MiB") == uint64_t{512} << 20);
  CHECK(parse_bytes("9223372036854775807") == 9223372036854775807u);
  for (const char* text : {"", "GiB", "-1", "1.5GiB", "010", "2GB", "2gib", "2  GiB", "2GiB ",
                           "1e9", "0x10", "9223372036854775808", "8388608TiB"}) {
    INFO(text);
    CHECK_FALSE(parse_bytes(text).has_value());
  }
}

TEST_CASE("times are integers with a unit") {
  CHECK(parse_duration("250ms") == milliseconds(250));
  CHECK(parse_duration("30s") == milliseconds(30'000));
  CHECK(parse_duration("5 m") == milliseconds(300'000));
  CHECK(parse_duration("1h") == milliseconds(3'600'000));
  CHECK(parse_duration("30d") == std::chrono::hours(30 * 24));
  for (const char* text : {"", "30", "s", "-1s", "1.5s", "01s", "1w", "9000h", "367d"}) {
    INFO(text);
    CHECK_FALSE(parse_duration(text).has_value());
  }
  const auto decade = std::chrono::hours(3650 * 24);
  CHECK(parse_duration("3650d", decade) == decade);
  CHECK_FALSE(parse_duration("3651d", decade).has_value());
}

TEST_CASE("printed sizes and times read back") {
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, uint64_t{1536}, uint64_t{1} << 31}) {
    INFO(print_bytes(bytes));
    CHECK(parse_bytes(print_bytes(bytes)) == bytes);
  }
  CHECK(print_bytes(uint64_t{1} << 31) == "2GiB");
  for (const milliseconds time : {milliseconds(1), milliseconds(1500), milliseconds(120'000)}) {
    INFO(print_duration(time));
    CHECK(parse_duration(print_duration(time)) == time);
  }
  CHECK(print_duration(milliseconds(120'000)) == "2m");
  CHECK(print_duration(std::chrono::hours(48)) == "48h");
}

}  // namespace
}  // namespace leat
