// Regions of interest, for the definitions of RoiAlign and MaxRoiPool and their kernels.
#pragma once

#include <cstdint>

#include "ops/graph/attrs.h"

namespace leat {

// The attributes of RoiAlign, but for the sizes of the output.
struct RoiAlignSpec {
  explicit RoiAlignSpec(const Attrs& attrs)
      : scale(attr_float(attrs, "spatial_scale", 1)),
        samples(attr_int(attrs, "sampling_ratio", 0)),
        average(attr_string(attrs, "mode", "avg") == "avg"),
        half_pixel(attr_string(attrs, "coordinate_transformation_mode", "half_pixel") ==
                   "half_pixel") {}
  double scale;     // from the coordinates of a region to those of X
  int64_t samples;  // along each axis of a bin; 0: as many as it has elements of X
  bool average;     // else the largest
  bool half_pixel;  // the centre of the first element is 0.5 in a region's coordinates, else 0
};

}  // namespace leat
