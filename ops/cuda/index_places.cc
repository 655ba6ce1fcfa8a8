#include "ops/cuda/index_places.h"

#include <algorithm>
#include <vector>

#include "devices/base/text.h"
#include "ops/definitions/gather.h"
#include "ops/definitions/strided_copy.h"
#include "ops/graph/limits.h"

namespace leat::cuda {

static_assert(kMostGatherAxes >= kMaxRank && kMostIndexAxes >= kMaxRank);

Result<Gathering> gathering(const KernelSetup& setup, const Shape& data) {
  const int axis = gather_axis(setup.attrs(), data.rank());
  Gathering made;
  made.call.outer = data.elements(0, axis);
  made.call.size = data[axis];
  made.call.inner = data.elements(axis + 1, data.rank());
  made.call.indices = setup.input(1).shape.elements();
  made.call.wide = setup.input(1).dtype == DType::i64;
  LEAT_ASSIGN_OR_RETURN(
      made.complaint, LentComplaint::make(setup, [subject = setup.subject,
                                                  size = made.call.size](const Complaint& found) {
        return invalid_argument(cat(subject, ": expected an index in [", -size, ", ", size - 1,
                                    "], received ", found.received, " as element ",
                                    found.place - 1));
      }));
  made.call.complaint = made.complaint->get();
  return made;
}

Result<ElementPlaces> element_places(const KernelSetup& setup, const Shape& data) {
  const Shape& indices = setup.input(1).shape;
  LEAT_ASSIGN_OR_RETURN(const Gathering made, gathering(setup, data));
  ElementPlaces places{{}, made.complaint};
  GatherElementsCall& call = places.call;
  call.gather = made.call;
  call.rank = data.rank();
  call.axis = gather_axis(setup.attrs(), data.rank());
  const auto steps = row_major_steps(data);
  for (int d = 0; d < data.rank(); ++d) {
    call.sizes[d] = indices[d];
    call.steps[d] = steps[static_cast<size_t>(d)];
  }
  return places;
}

Result<LinePlaces> line_places(const KernelSetup& setup, const Shape& data) {
  const Shape& indices = setup.input(1).shape;
  const auto batch_dims = static_cast<int>(attr_int(setup.attrs(), "batch_dims"));
  GatherNdCall call;
  call.length = static_cast<int>(indices[indices.rank() - 1]);
  call.tuples = indices.elements(0, indices.rank() - 1);
  const int64_t batches = data.elements(0, batch_dims);
  call.tuples_of_batch = std::max<int64_t>(1, batches == 0 ? 1 : call.tuples / batches);
  call.line = data.elements(batch_dims + call.length, data.rank());
  std::vector<int64_t> sizes;
  for (int d = 0; d < call.length; ++d) sizes.push_back(data[batch_dims + d]);
  std::copy(sizes.begin(), sizes.end(), call.sizes);
  LEAT_ASSIGN_OR_RETURN(
      const auto complaint,
      LentComplaint::make(setup, [subject = setup.subject, sizes](const Complaint& found) {
        const size_t at = found.place - 1, length = sizes.size();
        const int64_t size = sizes[at % length];
        return invalid_argument(cat(subject, ": expected an index in [", -size, ", ", size - 1,
                                    "], received ", found.received, " in tuple ", at / length));
      }));
  call.complaint = complaint->get();
  return LinePlaces{call, complaint};
}

}  // namespace leat::cuda
