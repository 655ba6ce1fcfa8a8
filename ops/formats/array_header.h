// The contents of the header of a file with one array, for all formats of ArrayFile.
#pragma once

#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"

namespace leat {

// A parsed header. The file follows it with exactly shape.elements() elements of dtype; that the
// file is large enough is checked by ArrayFile, not by the parser.
struct ArrayHeader {
  DType dtype = DType::invalid;
  Shape shape;
  // The bytes of the header, from the beginning of the (inflated) file to the first element.
  uint64_t offset = 0;
  // The elements vary fastest along dimension 0 in the file; the shape is the same either way.
  bool fortran_order = false;
};

}  // namespace leat
