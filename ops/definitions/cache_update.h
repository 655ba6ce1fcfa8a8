// The operands of TensorScatter and its gradient as kernels see them.
#pragma once

#include <cstdint>

#include "devices/base/text.h"
#include "ops/graph/kernel.h"

namespace leat {

// A cache of sequences, and the new elements of each.
struct CacheUpdate {
  int64_t sequences = 0;
  int64_t in_batch = 1;  // sequences for each index
  int64_t size = 0;      // elements of a sequence of the cache
  int64_t news = 0;      // new elements of a sequence
  int64_t line = 0;      // numbers of an element
  bool circular = false;
  bool indexed = false;  // else the new elements are the first ones

  // invalid_argument if the update does not fit the cache: inference leaves that to concrete
  // shapes. Input 2, if there is one, has the indices.
  static Result<CacheUpdate> of(const KernelSetup& setup, const Shape& cache, const Shape& update) {
    const int64_t given = attr_int(setup.attrs(), "axis", -2);
    const auto axis = static_cast<int>(given < 0 ? given + cache.rank() : given);
    CacheUpdate made;
    made.indexed = setup.types.has_input(2);
    bool fits = cache.rank() == update.rank();
    for (int d = 0; fits && d < cache.rank(); ++d)
      fits = d == axis ? update[d] <= cache[d] : update[d] == cache[d];
    if (fits && made.indexed) fits = setup.input(2).shape == Shape{cache[0]};
    if (!fits) {
      return invalid_argument(cat(setup.subject, ": an update of ", update.to_string(),
                                  " does not fit the cache of ", cache.to_string()));
    }
    made.circular = attr_string(setup.attrs(), "mode") == "circular";
    made.sequences = cache.elements(0, axis);
    made.in_batch = cache[0] == 0 ? 1 : made.sequences / cache[0];
    made.size = cache[axis];
    made.news = update[axis];
    made.line = cache.elements(axis + 1, cache.rank());
    return made;
  }

  // The error of an index that is out of range.
  Status refused(const std::string& subject, int64_t first) const {
    return invalid_argument(
        cat(subject, ": write_indices: expected 0 to ", size - news, ", received ", first));
  }
};

}  // namespace leat
