// The identity of a model's weights: what two trainings are compared by.
#pragma once

#include <map>
#include <string>

#include "devices/core/tensor.h"

namespace leat {

// SHA-256, in lower-case hexadecimal, of one record after another for each variable, names in
// ascending order of their bytes. A record, all numbers u64 little-endian:
//
//   size of name, name | size of dtype name, dtype name ("float", as in ONNX)
//   rank, each size    | bytes of elements, elements (row-major, little-endian)
//
// Every part says its size first, so different weights never give the same text to hash. What
// counts as a variable is the caller's: running statistics do, optimizer slots do not.
// REQUIRES: every tensor is valid.
std::string weights_sha256(const std::map<std::string, Tensor>& variables);

}  // namespace leat
