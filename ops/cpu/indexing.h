// How kernels turn the indices of Gather, Scatter and their kin into places in memory. Private to
// ops/cpu.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "devices/base/text.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/gather.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/kernel.h"

namespace leat {

// The data as [outer, size, inner] around the indexed axis, and the indices into it.
struct Indexing {
  int64_t outer = 1, size = 1, inner = 1;
  int64_t indices = 1;
  DType index_dtype = DType::i64;
  std::string subject;

  Indexing(const KernelSetup& setup, const Shape& data, int indices_input) {
    const int axis = gather_axis(setup.attrs(), data.rank());
    outer = data.elements(0, axis);
    size = data[axis];
    inner = data.elements(axis + 1, data.rank());
    indices = setup.input(indices_input).shape.elements();
    index_dtype = setup.input(indices_input).dtype;
    subject = setup.subject;
  }

  // Index j as a number >= 0. If it is out of range, this fails the step and returns -1.
  int64_t at(const KernelContext& context, const void* data, int64_t j) const {
    const int64_t given = int_at(data, index_dtype, j);
    const int64_t index = given < 0 ? given + size : given;
    if (index >= 0 && index < size) return index;
    context.step->fail(context.instruction,
                       invalid_argument(cat(subject, ": expected an index in [", -size, ", ",
                                            size - 1, "], received ", given, " as element ", j)));
    return -1;
  }
};

// Calls f(j, offset): element j of the indices reads data at the offset. It returns false if an
// index is out of range.
template <typename F>
bool each_element(const KernelContext& context, const Indexing& at, const Shape& data,
                  const Shape& indices, int axis, F f) {
  // The indices are walked in row-major order. `position` counts along their axes, and the index
  // replaces it on `axis`.
  const auto steps = row_major_steps(data);
  std::array<int64_t, kMaxRank> position{};
  for (int64_t j = 0; j < at.indices; ++j) {
    const int64_t index = at.at(context, context.inputs[1], j);
    if (index < 0) return false;
    int64_t offset = 0;
    for (int d = 0; d < data.rank(); ++d) {
      offset +=
          (d == axis ? index : position[static_cast<size_t>(d)]) * steps[static_cast<size_t>(d)];
    }
    f(j, offset);
    for (int d = indices.rank() - 1; d >= 0; --d) {
      if (++position[static_cast<size_t>(d)] < indices[d]) break;
      position[static_cast<size_t>(d)] = 0;
    }
  }
  return true;
}

}  // namespace leat
