// The optional last input of an op that writes variables: one f32 which is 0, and NaN in a step
// that is to write nothing. scheduler/compile/guard.cc adds it.
#pragma once

#include <string_view>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat {

inline constexpr std::string_view kGuard = "guard";

// REQUIRES: the signature says that input `guard` is of f32.
inline Status infer_guard(const InferContext& ctx, int guard) {
  if (!ctx.has_input(guard) || ctx.shape(guard).rank() == 0) return {};
  return ctx.error(cat("guard: expected a scalar, received ", ctx.text(ctx.shape(guard))));
}

}  // namespace leat
