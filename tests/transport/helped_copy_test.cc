#include "transport/shm/helped_copy.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace leat::shm {
namespace {

// Helps with copies until it is destroyed.
class Helper {
 public:
  explicit Helper(HelpedCopy& copies)
      : thread_([this, &copies] {
          while (!stopped_.load()) copies.help();
        }) {}
  ~Helper() {
    stopped_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

std::vector<uint64_t> numbers(size_t bytes, uint64_t first) {
  std::vector<uint64_t> all(bytes / sizeof(uint64_t) + 2);
  for (uint64_t& number : all) number = first++;
  return all;
}

// Copies bytes to an unaligned place.
//
// RETURNS: whether all bytes arrived, and none beside them changed.
bool copies_exactly(HelpedCopy& copies, size_t bytes, uint64_t first) {
  const std::vector<uint64_t> from = numbers(bytes, first);
  std::vector<uint64_t> to(from.size(), ~uint64_t{0});
  const auto* source = reinterpret_cast<const uint8_t*>(from.data()) + 3;
  auto* target = reinterpret_cast<uint8_t*>(to.data()) + 3;
  copies.copy(target, source, bytes, [] {});
  bool right = std::equal(source, source + bytes, target);
  for (size_t i = 0; i < 3; ++i) right = right && target[-3 + static_cast<ptrdiff_t>(i)] == 0xff;
  const auto* end = reinterpret_cast<const uint8_t*>(to.data() + to.size());
  for (const uint8_t* byte = target + bytes; byte < end; ++byte) right = right && *byte == 0xff;
  return right;
}

constexpr size_t kLarge = HelpedCopy::kLeastHelped;

}  // namespace

TEST_CASE("a helped copy has every byte of its source and touches nothing beside") {
  HelpedCopy copies;
  const Helper helper(copies);
  for (const size_t bytes : {size_t{0}, size_t{1}, kLarge - 1, kLarge, kLarge + 1, 5 * kLarge + 77})
    CHECK(copies_exactly(copies, bytes, bytes));
}

TEST_CASE("a large copy has help, and wakes for it once") {
  HelpedCopy copies;
  const std::vector<uint64_t> from = numbers(kLarge, 1);
  std::vector<uint64_t> to(from.size());
  size_t woken = 0;
  copies.copy(to.data(), from.data(), kLarge, [&] {
    ++woken;
    CHECK(copies.help());
    CHECK(copies.help());
  });
  CHECK(woken == 1);
  CHECK(std::equal(to.begin(), to.begin() + kLarge / sizeof(uint64_t), from.begin()));
  copies.copy(to.data(), from.data(), kLarge - 1, [&] { ++woken; });
  CHECK(woken == 1);
}

TEST_CASE("helpers may do all of a copy, and nothing is left to help with then") {
  HelpedCopy copies;
  CHECK_FALSE(copies.help());
  const std::vector<uint64_t> from = numbers(kLarge, 1);
  std::vector<uint64_t> to(from.size());
  copies.copy(to.data(), from.data(), kLarge, [&] {
    while (copies.help()) continue;
  });
  CHECK(std::equal(to.begin(), to.begin() + kLarge / sizeof(uint64_t), from.begin()));
  CHECK_FALSE(copies.help());
}

TEST_CASE("copies of several threads at once are each done whole") {
  HelpedCopy copies;
  const Helper helper(copies), another(copies);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&copies, &right, i] {
      for (uint64_t j = 0; j < 5; ++j) right += copies_exactly(copies, kLarge + i * 9, i << 40);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 15);
}

}  // namespace leat::shm
