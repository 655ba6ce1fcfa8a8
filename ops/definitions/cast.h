// Functions that the definitions of Cast and CastLike share with their kernels.
#pragma once

#include <string>

#include "devices/base/narrow.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// The types of a CastLike as those of a Cast: the operand `target_type`, of which no element is
// read, is removed, so that rules for elementwise ops see the data alone. For a Cast nothing
// changes. The result shares `attrs` with `types`, which must outlive it.
inline OpTypes cast_input(const OpTypes& types) {
  OpTypes first = types;
  first.inputs.resize(1);
  return first;
}

// The rules that the attributes of a Cast give.
inline NarrowRules narrow_rules(const Attrs& attrs) {
  NarrowRules rules;
  rules.saturate = attr_int(attrs, "saturate", 1) != 0;
  const std::string mode = attr_string(attrs, "round_mode", "up");
  rules.power = mode == "down"      ? PowerRounding::down
                : mode == "nearest" ? PowerRounding::nearest
                                    : PowerRounding::up;
  return rules;
}

}  // namespace leat
