// The contents of the header of a file with one array.
#pragma once

#include <cstdint>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"

namespace leat {

struct ArrayHeader {
  DType dtype = DType::invalid;
  Shape shape;
  uint64_t offset = 0;         // bytes of the header: where the elements begin
  bool fortran_order = false;  // elements vary fastest along dimension 0
};

}  // namespace leat
