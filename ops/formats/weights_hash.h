// The identity of a model's weights, to compare two trainings.
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
// Every part is preceded by its size, so different weights never give the same text to hash. The
// caller selects the variables: running statistics belong to the weights, optimizer slots do not.
// REQUIRES: every tensor is valid.
std::string weights_sha256(const std::map<std::string, Tensor>& variables);

}  // namespace leat
