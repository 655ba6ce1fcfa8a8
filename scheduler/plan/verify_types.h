// Types of operands, as verify() sees them. Internal to the runtime.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// What makes a type one that no value can have, as the end of a sentence; "" if nothing does.
std::string fault_of(const OperandType& type);

// The types of the outputs by the op's own inference; absent for outputs that are not present in
// `types`. `constants`: by input, null where unknown; attributes as written. invalid_argument, with
// the subject, if the op refuses its inputs or cannot tell a concrete type.
Result<std::vector<OperandType>> infer_concrete(const OpDef& op, const Attrs& attrs,
                                                const std::string& subject, const OpTypes& types,
                                                const std::vector<const Tensor*>& constants);

// All operands plain, or blocked all of those, and only those, that the op can take blocked.
// REQUIRES: the types have passed infer_concrete(); types.attrs has defaults filled in.
bool layouts_fit(const OpDef& op, const OpTypes& types);

}  // namespace leat
