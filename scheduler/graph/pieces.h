// How large values are cut into pieces, which move between devices and are used one by one. The cut
// follows from the size of the value alone, and no computed bit depends on it.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"

namespace leat {

struct ElementPiece {
  int64_t first = 0, count = 0;  // elements in row-major order
};

// Cuts a value into pieces of about 4 MiB. All but the last are multiples of 256 KiB. Returns no
// pieces if the value is better left whole.
std::vector<ElementPiece> cut_in_pieces(const Shape& shape, DType dtype);

}  // namespace leat
