// Ops whose outputs have as many elements as the values of their inputs say: NonZero, Unique,
// NonMaxSuppression and ImageDecoder. A plan knows every size before its first step, so these
// inputs must be known when the graph is validated: constants, or inputs that were fixed at import
// (ops/text/fix_inputs.h). The outputs are constants then.
#pragma once

#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat {

// The inputs of a node; null where one is absent.
using KnownInputs = std::vector<const Tensor*>;

// Each function returns all outputs that the op may have. invalid_argument without a subject for
// operands that do not fit. `attrs` have the defaults.
struct SelectionOp {
  std::string_view name;
  Result<std::vector<Tensor>> (*evaluate)(const KnownInputs& inputs, const Attrs& attrs);
};

// NonZero: the indices of the elements that are not 0, [rank, count], in row-major order.
Result<std::vector<Tensor>> non_zero(const KnownInputs& inputs, const Attrs& attrs);
// Unique: the different elements, or slices along `axis`, the indices of the first of each, for
// each element its index among them, and their counts. NaNs are equal, and larger than all else.
Result<std::vector<Tensor>> unique(const KnownInputs& inputs, const Attrs& attrs);
// NonMaxSuppression: [batch, class, box] of the boxes with the highest scores of each class,
// without those that overlap one before by more than the threshold.
Result<std::vector<Tensor>> non_max_suppression(const KnownInputs& inputs, const Attrs& attrs);
// ImageDecoder: the pixels of a JPEG, PNG or WebP, [height, width, channels]. ONNX has an empty
// tensor for bytes that are no image; here they are an error.
Result<std::vector<Tensor>> decoded_image(const KnownInputs& inputs, const Attrs& attrs);

// The function of an op by its full name. REQUIRES: it is one of the four.
const SelectionOp& selection_op(std::string_view name);

}  // namespace leat
