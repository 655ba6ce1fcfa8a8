// leat.Digest: the comparison of what workers computed relies on it.
#include "ops/definitions/digest.h"

#include <set>

#include "devices/base/failpoint.h"
#include "tests/catch.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

uint64_t digest_of_tensor(const Tensor& value) {
  return digest_of({static_cast<const std::byte*>(value.raw()), value.bytes()});
}

TEST_CASE("a digest tells any flipped bit, and any two") {
  // Words of all lanes, and a rest of them.
  for (const int64_t elements : {1, 7, 8, 9, 31, 70}) {
    Tensor value = random_tensor(DType::f32, {elements}, 5);
    std::set<uint64_t> seen{digest_of_tensor(value)};
    auto* const bytes = static_cast<std::byte*>(value.raw());
    const size_t bits = 8 * value.bytes();
    const auto flip = [&](size_t bit) { bytes[bit / 8] ^= std::byte{1} << (bit % 8); };
    for (size_t bit = 0; bit < bits; ++bit) {
      flip(bit);
      CHECK(seen.insert(digest_of_tensor(value)).second);
      // The top bits of two words of one lane, and bits drawn from all.
      for (const size_t other : {(bit + 4 * 64) % bits, (bit * 7919 + 13) % bits}) {
        if (other <= bit) continue;
        flip(other);
        CHECK(digest_of_tensor(value) != *seen.begin());
        flip(other);
      }
      flip(bit);
    }
    CHECK(seen.size() == bits + 1);
  }
}

TEST_CASE("a digest tells values of other lengths apart") {
  std::set<uint64_t> seen;
  for (int64_t elements = 0; elements < 100; ++elements)
    CHECK(seen.insert(digest_of_tensor(Tensor(DType::u8, Shape{elements}))).second);
}

TEST_CASE("the op gives the digest, and its failpoint changes the value") {
  const Tensor value = random_tensor(DType::f32, {3, 5}, 1);
  const Tensor digest = run1("leat.Digest", {value});
  REQUIRE(digest.shape() == Shape{1});
  CHECK(*static_cast<const int64_t*>(digest.raw()) ==
        static_cast<int64_t>(digest_of_tensor(value)));
  const ScopedFailpoint flip("digest/sum", unavailable("flip"), 1);
  const Attrs attrs{{"of", std::string("sum")}};
  CHECK(!run1("leat.Digest", {value}, attrs).identical(digest));
  CHECK(flip.passes() == 1);
}

}  // namespace
}  // namespace leat::testing
