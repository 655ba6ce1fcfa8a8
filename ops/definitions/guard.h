// The optional last input of an op that writes variables: one f32, which is NaN in a step that must
// write nothing, and otherwise 0. scheduler/compile/guard.cc adds it to the writes of a graph, and
// ops/cpu/guarded_kernel.h wraps their kernels. Without the input, an op writes in every step.
#pragma once

#include <string_view>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {

// The name of that input in every signature: the pass finds it by this name.
inline constexpr std::string_view kGuard = "guard";

// Checks that input number `guard` is a scalar, or absent; else the error is invalid_argument with
// the node as its subject. REQUIRES: its dtype in the signature is f32.
inline Status infer_guard(const InferContext& ctx, int guard) {
  if (!ctx.has_input(guard) || ctx.shape(guard).rank() == 0) return {};
  return ctx.error(cat("guard: expected a scalar, received ", ctx.text(ctx.shape(guard))));
}

}  // namespace leat
