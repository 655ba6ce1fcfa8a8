#include "devices/base/stream_copy.h"

#include <cstdint>
#include <vector>

#include "tests/catch.h"

namespace leat {

TEST_CASE("a copy has the bytes of its source and leaves those around it, whatever its place") {
  const size_t kMost = kLeastStreamed + 100'000;
  std::vector<uint8_t> from(kMost + 200), to(kMost + 200);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint8_t>(i * 31 + i / 251 + 1);
  const auto check = [&](auto copy, size_t bytes, size_t source, size_t target) {
    to.assign(to.size(), 0);
    copy(to.data() + target, from.data() + source, bytes);
    size_t wrong = 0;
    for (size_t i = 0; i < to.size(); ++i) {
      const bool inside = i >= target && i < target + bytes;
      wrong += to[i] != (inside ? from[source + i - target] : 0);
    }
    INFO(bytes << " bytes from " << source << " to " << target);
    CHECK(wrong == 0);
  };
  for (const size_t bytes : {0, 1, 63, 64, 65, 127, 128, 1000, 4096, 16384, 16385, 70'001}) {
    for (const size_t target : {0, 1, 16, 63}) {
      check(stream_block, bytes, 5, target);
      stream_fence();
      check(stream_copy, bytes, 0, target);
      check(stream_part, bytes, 7, target);
    }
  }
  for (const size_t bytes : {kLeastStreamed - 1, kLeastStreamed, kMost}) {
    check(stream_copy, bytes, 3, 0);
    check(stream_copy, bytes, 0, 77);
  }
}

}  // namespace leat
