// ONNX's ops that this build has neither as an op nor as a composite (ops/text/composites.h), each
// with the reason. Together, the three lists are all ops of ONNX's main domain.
#pragma once

#include <span>
#include <string_view>

namespace leat {

struct RefusedOp {
  std::string_view name;
  std::string_view reason;
};

// Sorted by name.
std::span<const RefusedOp> refused_ops();

// The reason for which ONNX's op `name` is refused; empty if it is not in the list.
std::string_view refusal_of(std::string_view name);

}  // namespace leat
