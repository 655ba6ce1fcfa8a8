// The calls of kernels that find places by indices, with the Complaint of an index out of range.
#pragma once

#include <memory>

#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/gather.h"
#include "ops/cuda/indexing.h"

namespace leat::cuda {

// The indices are input 1 of the node. A kernel keeps the complaint for its life.

// Places along one axis of `data`.
struct Gathering {
  GatherCall call;
  std::shared_ptr<LentComplaint> complaint;
};
Result<Gathering> gathering(const KernelSetup& setup, const Shape& data);

// One element of `data` for each element of the indices.
struct ElementPlaces {
  GatherElementsCall call;
  std::shared_ptr<LentComplaint> complaint;
};
Result<ElementPlaces> element_places(const KernelSetup& setup, const Shape& data);

// One line of `data` for each tuple of indices, behind the axes of the attribute batch_dims.
struct LinePlaces {
  GatherNdCall call;
  std::shared_ptr<LentComplaint> complaint;
};
Result<LinePlaces> line_places(const KernelSetup& setup, const Shape& data);

}  // namespace leat::cuda
