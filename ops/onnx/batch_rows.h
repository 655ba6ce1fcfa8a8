// Undoes the expansion of parameters to the rows of a batch. Private to ops/onnx.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ops/text/draft.h"

namespace leat {

// A module that expands a parameter to its batch, such as a class token, is written by PyTorch's
// exporter with a constant that has the parameter once for each row of the example. Trained as it
// is, every row would become a parameter of its own.
//
// Replaces each constant that `name` gives a name for, with a rank of at least 2, and equal rows,
// one for each row of the inputs, by a constant [1,...] of that name and an Expand of it; [1,1,C]
// for an embedding that looked up one line for all tokens. `name` returns "" for constants that
// stay, and is called for those alone that have such rows. Constants that are broadcast to more
// dimensions stay, too, as far as `ranks` has those of values. Does nothing unless all inputs have
// the same number of rows, 2 or more.
void share_rows(DraftGraph& graph, const std::map<std::string, int>& ranks,
                const std::function<std::string(const std::string&)>& name);

}  // namespace leat
