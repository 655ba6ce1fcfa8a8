#include "ops/cpu/convert16.h"

#include <bit>
#include <vector>

#include "tests/catch.h"

namespace leat {
namespace {

// Floats of every exponent and sign, among them subnormals, infinities and NaNs. Their number is no
// multiple of 16, so that the last ones do not fill a vector.
std::vector<float> all_kinds_of_floats() {
  std::vector<float> floats;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 65521 * 3)
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  // Ties of both types, and the neighbours of the largest halves.
  for (uint32_t bits :
       {0x3f808000u, 0x3f818000u, 0x3f801000u, 0x3f803000u, 0x477fefffu, 0x477ff000u, 0x7f7fffffu,
        0x7f800000u, 0x7f800001u, 0xffc00000u, 0x33000000u, 0x1u})
    floats.push_back(std::bit_cast<float>(bits));
  if (floats.size() % 16 == 0) floats.push_back(0.1f);
  return floats;
}

TEST_CASE("vectors of floats are rounded to 16 bits as single floats are") {
  const std::vector<float> floats = all_kinds_of_floats();
  const auto n = static_cast<int64_t>(floats.size());
  std::vector<Half> halves(floats.size());
  std::vector<BFloat16> brains(floats.size());
  narrow(floats.data(), halves.data(), n);
  narrow(floats.data(), brains.data(), n);
  size_t wrong = 0;
  for (size_t i = 0; i < floats.size(); ++i) {
    wrong += halves[i].bits != to_half(floats[i]).bits;
    wrong += brains[i].bits != to_bfloat16(floats[i]).bits;
  }
  CHECK(wrong == 0);
}

TEST_CASE("vectors of 16-bit floats become the floats that single ones become") {
  constexpr int64_t kAll = 1 << 16;
  std::vector<Half> halves(kAll);
  std::vector<BFloat16> brains(kAll);
  for (size_t i = 0; i < kAll; ++i) {
    halves[i].bits = static_cast<uint16_t>(i);
    brains[i].bits = static_cast<uint16_t>(i);
  }
  std::vector<float> from_halves(kAll), from_brains(kAll);
  widen(halves.data(), from_halves.data(), kAll);
  widen(brains.data(), from_brains.data(), kAll);
  size_t wrong = 0;
  for (size_t i = 0; i < kAll; ++i) {
    const float half = to_float(halves[i]);
    // A signalling NaN may come out quiet.
    const bool same_nan = half != half && from_halves[i] != from_halves[i];
    wrong += !same_nan && std::bit_cast<uint32_t>(half) != std::bit_cast<uint32_t>(from_halves[i]);
    wrong +=
        std::bit_cast<uint32_t>(to_float(brains[i])) != std::bit_cast<uint32_t>(from_brains[i]);
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace leat
