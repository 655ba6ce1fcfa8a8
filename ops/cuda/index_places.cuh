// The places in memory that indices name, for the kernels of Gather, Scatter and their kin. An
// index out of range is reported by the call's Complaint, and named by -1.
#pragma once

#include "devices/cuda/complaint.h"
#include "ops/cuda/gather.h"
#include "ops/cuda/indexing.h"

namespace leat::cuda {

// Index j as a number in [0, size).
__device__ inline int64_t index_at(const GatherCall& call, int64_t j) {
  const int64_t given = call.wide ? static_cast<const int64_t*>(call.index)[j]
                                  : static_cast<const int32_t*>(call.index)[j];
  const int64_t index = given < 0 ? given + call.size : given;
  if (index >= 0 && index < call.size) return index;
  call.complaint->write(j, given);
  return -1;
}

// The element of the data that element j of the indices names.
__device__ inline int64_t offset_of(const GatherElementsCall& call, int64_t j) {
  const int64_t index = index_at(call.gather, j);
  if (index < 0) return -1;
  int64_t offset = index * call.steps[call.axis], left = j;
  for (int d = call.rank - 1; d >= 0; --d) {
    if (d != call.axis) offset += left % call.sizes[d] * call.steps[d];
    left /= call.sizes[d];
  }
  return offset;
}

// The line of the data that a tuple names.
__device__ inline int64_t line_of(const GatherNdCall& call, int64_t tuple) {
  int64_t line = tuple / call.tuples_of_batch;
  for (int d = 0; d < call.length; ++d) {
    const int64_t at = tuple * call.length + d, given = call.indices[at];
    const int64_t index = given < 0 ? given + call.sizes[d] : given;
    if (index < 0 || index >= call.sizes[d]) {
      call.complaint->write(at, given);
      return -1;
    }
    line = line * call.sizes[d] + index;
  }
  return line;
}

}  // namespace leat::cuda
