// The checks that verify() makes of operands' types. Internal to verify().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// Why no value can have this type, as the end of a sentence ("is a token with a type"); "" if a
// value can.
std::string fault_of(const OperandType& type);

// Infers the types of the outputs as the op itself does; an output that is absent in `types` is
// absent in the result. `constants` has one entry for each input, null where the value is unknown;
// `attrs` are as the plan has them, without defaults. invalid_argument, with the subject, if the op
// refuses its inputs or cannot infer a concrete type.
Result<std::vector<OperandType>> infer_concrete(const OpDef& op, const Attrs& attrs,
                                                const std::string& subject, const OpTypes& types,
                                                const std::vector<const Tensor*>& constants);

// True if the operands' layouts fit the op: all are plain, or exactly those are blocked that the op
// can take blocked. REQUIRES: the types have passed infer_concrete(); types.attrs has its defaults
// filled in.
bool layouts_fit(const OpDef& op, const OpTypes& types);

}  // namespace leat
