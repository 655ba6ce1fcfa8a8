#include "devices/base/philox.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.h"

using namespace leat;

// kat_vectors of the authors' Random123 library, "philox4x32 10".
TEST_CASE("philox gives the authors' known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a stream keeps the definition that its header gives") {
  const RandomStream stream(0x0123456789abcdef, 42, 7);
  const PhiloxCounter key = philox({7, 0, 42, 0}, {0x89abcdef, 0x01234567});
  const uint64_t index = 0x500000003;
  const PhiloxCounter block = philox({3, 5, key[2], key[3]}, {key[0], key[1]});
  CHECK(stream.block(index) == block);
  CHECK(stream.uniform_f32(index * 4 + 2) == static_cast<float>(block[2] >> 8) / 16777216.0f);
  const uint64_t word = uint64_t{block[3]} << 32 | block[2];
  CHECK(stream.uniform_f64(index * 2 + 1) == static_cast<double>(word >> 11) / 9007199254740992.0);
}

TEST_CASE("seed, source and step each change all numbers") {
  const RandomStream base(1, 2, 3);
  for (const RandomStream& other :
       {RandomStream(2, 2, 3), RandomStream(1, 3, 3), RandomStream(1, 2, 4),
        RandomStream(uint64_t{1} << 32, 2, 3), RandomStream(1, uint64_t{2} << 32, 3),
        RandomStream(1, 2, uint64_t{3} << 32)}) {
    int equal = 0;
    for (uint64_t i = 0; i < 100; ++i) equal += base.uniform_f64(i) == other.uniform_f64(i);
    CHECK(equal == 0);
  }
}

TEST_CASE("filling a range gives the same bits as element by element") {
  const RandomStream stream(5, 6, 7);
  for (uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{3}, (uint64_t{1} << 34) - 7}) {
    for (size_t size : {0u, 1u, 2u, 5u, 63u, 64u, 65u, 301u}) {
      std::vector<float> out(size + 1, -1.0f);
      stream.fill_uniform(first, {out.data(), size});
      size_t wrong = 0;
      for (size_t i = 0; i < size; ++i) wrong += out[i] != stream.uniform_f32(first + i);
      CHECK(wrong == 0);
      CHECK(out[size] == -1.0f);
    }
  }
}

TEST_CASE("uniform numbers lie in [0,1) and are spread evenly") {
  const RandomStream stream(11, 0, 0);
  constexpr int kCount = 100000;
  std::vector<int> bins(10, 0);
  double sum = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const float x = stream.uniform_f32(i);
    const double y = stream.uniform_f64(i);
    REQUIRE((x >= 0 && x < 1 && y >= 0 && y < 1));
    ++bins[static_cast<size_t>(x * 10)];
    sum += y;
  }
  double chi2 = 0;
  for (int count : bins) chi2 += std::pow(count - kCount / 10, 2) / (kCount / 10);
  CHECK(chi2 < 27.9);  // 9 degrees of freedom, p = 0.001
  CHECK(sum / kCount == Approx(0.5).margin(0.004));
}

TEST_CASE("normal numbers have the moments of the normal distribution") {
  const RandomStream stream(12, 0, 0);
  constexpr int kCount = 100000;
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = stream.normal_f64(i);
    REQUIRE(std::abs(x) < 8.58);
    REQUIRE(stream.normal_f32(i) == static_cast<float>(x));
    sum += x, squares += x * x, cubes += x * x * x, fourths += x * x * x * x;
  }
  CHECK(sum / kCount == Approx(0).margin(0.015));
  CHECK(squares / kCount == Approx(1).margin(0.02));
  CHECK(cubes / kCount == Approx(0).margin(0.05));
  CHECK(fourths / kCount == Approx(3).margin(0.15));
}

TEST_CASE("a permutation is a bijection for every small n") {
  for (uint64_t n = 1; n <= 300; ++n) {
    for (uint64_t key : {uint64_t{0}, uint64_t{0xfeedface12345678}}) {
      const Permutation permutation(n, key);
      std::vector<int> seen(n, 0);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t at = permutation(i);
        REQUIRE(at < n);
        ++seen[at];
      }
      CHECK(std::count(seen.begin(), seen.end(), 1) == static_cast<int64_t>(n));
    }
  }
}

TEST_CASE("a permutation of the training set depends on its key and moves almost all") {
  constexpr uint64_t kCount = 60000;
  const Permutation a(kCount, 1), b(kCount, 2);
  std::vector<int> seen(kCount, 0);
  int fixed = 0, equal = 0, neighbours = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    ++seen[a(i)];
    fixed += a(i) == i;
    equal += a(i) == b(i);
    neighbours += i > 0 && a(i) == a(i - 1) + 1;
  }
  CHECK(std::count(seen.begin(), seen.end(), 1) == int64_t{kCount});
  CHECK(fixed < 12);  // each of the three is Poisson with mean 1
  CHECK(equal < 12);
  CHECK(neighbours < 12);
}

TEST_CASE("the smallest permutations reach every order") {
  std::vector<int> orders(8, 0);
  for (uint64_t key = 0; key < 6000; ++key) {
    const Permutation p(3, key);
    ++orders[p(0) * 2 + (p(1) > p(2))];
  }
  for (size_t order = 0; order < 6; ++order) CHECK(orders[order] > 800);  // 1000 each, sigma 29
}

TEST_CASE("a permutation takes the largest sizes and maps what is outside to itself") {
  const uint64_t largest = std::numeric_limits<uint64_t>::max();
  const Permutation all(largest, 3);
  CHECK(all(0) < largest);
  CHECK(all(0) != all(1));
  CHECK(all(largest) == largest);
  CHECK(Permutation(10, 3)(10) == 10);
  CHECK(Permutation(0, 3)(0) == 0);
  CHECK(Permutation(1, 3)(0) == 0);
}
