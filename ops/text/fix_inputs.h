// Fixes inputs of a graph at import: an input gets a value, and is a constant of the graph from
// then on. All that the graph computes from it alone is known before the first step: sizes, the
// elements that a condition chooses, the branch of an If.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/text/draft.h"

namespace leat {

// By the name of the input.
using FixedInputs = std::map<std::string, Tensor, std::less<>>;

// Replaces the inputs by Constant nodes in front of all others. A value of another element type
// becomes one of the input's: floats are rounded to it, integers and bools must have the same value
// there. A symbol among the input's sizes becomes the size that the value has, wherever the graph
// declares it.
//
// invalid_argument names the input: one that the graph does not have, another shape, or a number
// that the type lacks. `file` begins the messages.
Status fix_inputs(DraftGraph& graph, const FixedInputs& fixed, std::string_view file);

// Reads a number, true, false, or lists of them in brackets: "[[1, 2], [3, 4]]". Numbers without a
// point or an exponent are int64, others double, and all of a text have one type. invalid_argument
// tells the expected form.
Result<Tensor> parse_fixed_value(std::string_view text);

}  // namespace leat
