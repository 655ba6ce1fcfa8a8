// The operands of the input readers, for their definitions and their kernels.
//
// leat.ReadBatch has the types of its outputs from attributes, so that a graph can be compiled
// without its files. The kernel compares the attributes with the files when it is made, and returns
// failed_precondition if they differ.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"
#include "ops/state/resources.h"

namespace leat {

// The type of one record or one label. A batch of n of them is a tensor [n, shape...].
struct BatchElement {
  DType dtype;
  Shape shape;
};

// The type of one record or one label, from attributes `<what>_dtype` and `<what>_shape`; `what` is
// "record" or "label". An empty shape is a scalar. The rank is at most kMaxRank - 1, because the
// batch has one dimension more. invalid_argument for an unknown dtype (also if the attribute is
// absent and `attrs` are without defaults), a negative size or too many of them; the message names
// the attribute and has no subject.
inline Result<BatchElement> batch_element(const Attrs& attrs, const std::string& what) {
  const std::string name = attr_string(attrs, what + "_dtype");
  const auto dtype = dtype_from_name(name);
  if (!dtype)
    return invalid_argument(cat(what, "_dtype: expected a type's name, received '", name, "'"));
  const auto sizes = attr_ints(attrs, what + "_shape");
  const auto shape = Shape::checked(sizes);
  if (!shape || shape->rank() >= kMaxRank) {
    return invalid_argument(cat(what, "_shape: expected at most ", kMaxRank - 1,
                                " sizes >= 0, received [", join(sizes, ","), "]"));
  }
  return BatchElement{*dtype, *shape};
}

}  // namespace leat
