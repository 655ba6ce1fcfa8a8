// A model that divides a picture by its sum, and a picture for which that is 0 / 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "devices/base/files.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {

// It has a BatchNormalization, whose statistics a step updates, too.
inline constexpr const char* kDivided = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
divided (float[N,1,8,8] image) => (float[N,4] logits) {
  axes = Constant <value = int64[3] {1, 2, 3}> ()
  sum = ReduceSum (image, axes)
  d = Div (image, sum)
  b1 = leat.BatchNorm (d)
  c1 = leat.Conv2D <filters = 4, kernel = 3, activation = "relu"> (b1)
  f = Flatten (c1)
  logits = leat.Dense <units = 4> (f)
}
)";

// The root of a square. For zeros its value is 0 and its gradient is NaN.
inline constexpr const char* kRooted = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
rooted (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  h = leat.Dense <units = 4, use_bias = 0> (f)
  squared = Mul (h, h)
  logits = Sqrt (squared)
}
)";

// Makes a picture of the training data black. Each epoch has it once, in one row of one shard.
inline void blacken(const SmallJob& small, int64_t record) {
  constexpr std::ptrdiff_t kRecords = 200, kPixels = 64;
  const std::string path = small.path("train-x.npy");
  Bytes bytes = must(read_file(real_files(), path, 1 << 20));
  const auto first = bytes.end() - (kRecords - record) * kPixels;
  std::fill_n(first, kPixels, std::byte{0});
  must(write_file_atomically(real_files(), path, bytes));
}

}  // namespace leat
