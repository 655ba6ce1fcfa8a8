// The values of Constant and ConstantOfShape, for their definitions and their kernels.
#pragma once

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {

// A vector [values.size()] of element type T. Each value is converted to T, doubles of a float list
// to the nearest float.
template <typename T, typename From>
Tensor constant_vector(const std::vector<From>& values) {
  return Tensor::of<T>({static_cast<int64_t>(values.size())},
                       std::vector<T>(values.begin(), values.end()));
}

// The value of ONNX's Constant, if exactly one of its attributes defines it; else nothing.
//
// `value` gives the tensor itself, which shares its memory with the attribute. `value_float` and
// `value_int` give scalars of float and int64, `value_floats` and `value_ints` vectors. A float
// attribute may hold ints, since the text form of "1" or of an empty list shows no kind: the name
// of the attribute decides the type of the result.
inline std::optional<Tensor> constant_value(const Attrs& attrs) {
  if (attrs.size() != 1) return std::nullopt;
  const auto& [name, attr] = *attrs.begin();
  if (const auto* tensor = std::get_if<Tensor>(&attr)) return *tensor;
  if (name == "value_float")
    return Tensor::scalar<float>(static_cast<float>(attr_float(attrs, name)));
  if (const auto* number = std::get_if<int64_t>(&attr)) return Tensor::scalar<int64_t>(*number);
  if (const auto* floats = std::get_if<std::vector<double>>(&attr))
    return constant_vector<float>(*floats);
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr)) {
    return name == "value_floats" ? constant_vector<float>(*ints) : constant_vector<int64_t>(*ints);
  }
  return std::nullopt;
}

// Attribute `value` of ONNX's ConstantOfShape, a scalar float 0 if it is absent. The dtype of the
// result is that of the op's output. Inference refuses a tensor that has not exactly one element.
// REQUIRES: `value`, if it is there, is a tensor.
inline Tensor fill_value(const Attrs& attrs) {
  const auto it = attrs.find("value");
  return it == attrs.end() ? Tensor::scalar<float>(0) : std::get<Tensor>(it->second);
}

}  // namespace leat
