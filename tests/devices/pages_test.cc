#include "devices/core/pages.h"

#include <cstring>

#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

std::byte* bytes_of(const Buffer& buffer) { return static_cast<std::byte*>(buffer.data()); }

}  // namespace

TEST_CASE("joined pages show what is written to their pieces, and the other way round") {
  const auto a = must(allocate_pages(3 * kPageBytes)), b = must(allocate_pages(kPageBytes + 10));
  const auto ab =
      must(join_pages(std::vector<Pages>{{a->data(), a->size()}, {b->data(), b->size()}}));
  const auto ba =
      must(join_pages(std::vector<Pages>{{b->data(), kPageBytes}, {a->data(), a->size()}}));
  REQUIRE(ab->size() == 4 * kPageBytes + 10);
  CHECK(bytes_of(*ab)[ab->size() - 1] == std::byte{0});
  std::memset(a->data(), 1, a->size());
  std::memset(b->data(), 2, b->size());
  CHECK(bytes_of(*ab)[3 * kPageBytes - 1] == std::byte{1});
  CHECK(bytes_of(*ab)[3 * kPageBytes] == std::byte{2});
  CHECK(bytes_of(*ba)[0] == std::byte{2});
  CHECK(bytes_of(*ba)[kPageBytes] == std::byte{1});
  bytes_of(*ab)[4 * kPageBytes + 9] = std::byte{3};
  CHECK(bytes_of(*b)[kPageBytes + 9] == std::byte{3});
}

TEST_CASE("joined pages outlive their pieces") {
  auto a = must(allocate_pages(kPageBytes));
  std::memset(a->data(), 7, a->size());
  const auto joined = must(join_pages(std::vector<Pages>{{a->data(), a->size()}}));
  a.reset();
  CHECK(bytes_of(*joined)[kPageBytes - 1] == std::byte{7});
}

TEST_CASE("pieces that do not begin on a page are refused") {
  const auto a = must(allocate_pages(2 * kPageBytes));
  const std::vector<Pages> inside = {{bytes_of(*a) + 64, kPageBytes}};
  CHECK(!join_pages(inside).ok());
  const std::vector<Pages> short_first = {{a->data(), 10}, {bytes_of(*a) + kPageBytes, 10}};
  CHECK(!join_pages(short_first).ok());
}

}  // namespace leat
