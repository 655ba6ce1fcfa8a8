// How large values are cut so that they move, and are used, in pieces. By their size alone: neither
// what is computed nor how depends on it.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"

namespace leat {

struct ElementPiece {
  int64_t first = 0, count = 0;  // elements in row-major order
};

// Pieces of about 4 MiB, multiples of 256 KiB but for the last; none if the value is best left
// whole.
std::vector<ElementPiece> cut_in_pieces(const Shape& shape, DType dtype);

}  // namespace leat
