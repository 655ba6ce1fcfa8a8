// Arrays that are written to a file one after the other, and are never in memory all at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "devices/base/dtype.h"
#include "devices/base/files.h"
#include "devices/base/shape.h"
#include "devices/base/status.h"

namespace leat {

// An array of a file of several arrays.
struct ArrayEntry {
  std::string name;
  DType dtype = DType::invalid;
  Shape shape;
  uint64_t bytes() const { return static_cast<uint64_t>(shape.elements()) * dtype_size(dtype); }
};

// Passes all elements of the array with this index to `put`, row-major: the same ones each time.
using ArrayElements = std::function<Status(size_t array, const TakeBytes& put)>;

}  // namespace leat
