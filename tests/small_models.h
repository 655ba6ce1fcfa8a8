// Models on [N,1,8,8] with 4 classes, as text.
#pragma once

#include <string>

namespace leat {

// A convolutional network. `dropout` adds a Dropout before the last layer. A multiple of 16 filters
// has images in blocks of 16 channels on a CPU, where another convolution adds in another order.
inline std::string small_cnn(const std::string& name, bool dropout, int filters = 16) {
  return R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
)" + name +
         R"( (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = )" +
         std::to_string(filters) + R"(, kernel = 3, activation = "relu"> (image)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c1)
  f = Flatten (p1)
)" + (dropout ? "  d = leat.Dropout <rate = 0.25> (f)\n" : "") +
         "  logits = leat.Dense <units = 4> (" + (dropout ? "d" : "f") + ")\n}\n";
}

// A model that trains quickly, even in tests that start a process for it.
inline constexpr const char* kTinyCnn = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 8, kernel = 3, activation = "relu"> (image)
  f = Flatten (c1)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 4> (d)
}
)";

inline constexpr const char* kTinyDense = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  logits = leat.Dense <units = 4> (f)
}
)";

}  // namespace leat
