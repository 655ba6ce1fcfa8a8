#include "ops/cpu/image_resize.h"

#include <algorithm>
#include <new>
#include <vector>

#include "devices/base/text.h"
#include "ops/images/resize.h"

namespace leat {
namespace {

// The weights of both passes, kept from one image to the next, and the rows between them. Elements
// of f32 are rounded after either pass, as Pillow does it in its mode F, and never clipped.
template <typename T>
struct PlanePasses {
  ExactWeights across, down;
  int64_t in_width = 0, in_height = 0, out_width = 0, out_height = 0;
  ResizeFilter filter = ResizeFilter::nearest;
  std::vector<T> between;

  void fit(int64_t width, int64_t height, const ImageGeometry& geometry) {
    between.resize(static_cast<size_t>(height * geometry.width));
    if (width == in_width && height == in_height && geometry.width == out_width &&
        geometry.height == out_height && geometry.filter == filter)
      return;
    in_width = 0;
    across = exact_weights(width, 0, static_cast<float>(width), geometry.width, geometry.filter);
    down = exact_weights(height, 0, static_cast<float>(height), geometry.height, geometry.filter);
    in_width = width, in_height = height, filter = geometry.filter;
    out_width = geometry.width, out_height = geometry.height;
  }

  // Makes the rows between from rows that are `stride` elements apart. Without a change of width
  // there is no pass.
  void pass_across(const T* row, int64_t stride) {
    T* to = between.data();
    for (int64_t y = 0; y < in_height; ++y, row += stride) {
      if (out_width == in_width) {
        to = std::copy_n(row, in_width, to);
        continue;
      }
      for (int64_t x = 0; x < out_width; ++x) {
        const auto at = static_cast<size_t>(x);
        const double* const weights = across.weights.data() + x * across.stride;
        const T* const from = row + across.firsts[at];
        double sum = 0;
        for (int64_t k = 0; k < across.counts[at]; ++k)
          sum += weights[k] * static_cast<double>(from[k]);
        *to++ = static_cast<T>(sum);
      }
    }
  }

  void pass_down(T* to) const {
    if (out_height == in_height) {
      std::copy(between.begin(), between.end(), to);
      return;
    }
    for (int64_t y = 0; y < out_height; ++y) {
      const auto at = static_cast<size_t>(y);
      const double* const weights = down.weights.data() + y * down.stride;
      const T* const from = between.data() + down.firsts[at] * out_width;
      for (int64_t x = 0; x < out_width; ++x) {
        double sum = 0;
        for (int64_t k = 0; k < down.counts[at]; ++k)
          sum += weights[k] * static_cast<double>(from[k * out_width + x]);
        *to++ = static_cast<T>(sum);
      }
    }
  }
};

template <typename T>
Status resize_floats(const T* in, int64_t planes, int64_t height, int64_t width,
                     const ImagePart& part, const ImageGeometry& geometry, T* out) {
  static thread_local PlanePasses<T> passes;
  try {
    passes.fit(part.width, part.height, geometry);
  } catch (const std::bad_alloc&) {
    return resource_exhausted(cat("resize: expected memory for ", geometry.width, "x", part.height,
                                  " pixels, there is none"));
  }
  for (int64_t p = 0; p < planes; ++p) {
    passes.pass_across(in + (p * height + part.y) * width + part.x, width);
    passes.pass_down(out + p * geometry.height * geometry.width);
  }
  return {};
}

Status resize_bytes(const uint8_t* in, int64_t planes, int64_t height, int64_t width,
                    const ImagePart& part, const ImageGeometry& geometry, uint8_t* out) {
  static thread_local Resizer resizer;
  const int64_t size = geometry.height * geometry.width;
  for (int64_t p = 0; p < planes; ++p) {
    const ImageView plane{in + p * height * width, width, height, 1, width};
    LEAT_RETURN_IF_ERROR(resizer.resize(plane.part(part), {}, geometry.width, geometry.height,
                                        geometry.filter,
                                        {out + p * size, static_cast<size_t>(size)}));
  }
  return {};
}

}  // namespace

template <typename T>
Status resize_planes(const T* in, int64_t planes, int64_t height, int64_t width,
                     const ImagePart& part, const ImageGeometry& geometry, T* out) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return resize_bytes(in, planes, height, width, part, geometry, out);
  else
    return resize_floats(in, planes, height, width, part, geometry, out);
}

template Status resize_planes(const uint8_t*, int64_t, int64_t, int64_t, const ImagePart&,
                              const ImageGeometry&, uint8_t*);
template Status resize_planes(const float*, int64_t, int64_t, int64_t, const ImagePart&,
                              const ImageGeometry&, float*);
template Status resize_planes(const double*, int64_t, int64_t, int64_t, const ImagePart&,
                              const ImageGeometry&, double*);

ImagePart part_of_image(const ImageHeader& header, const ImageGeometry& geometry,
                        const float* draws) {
  if (geometry.crop == ImageCrop::center) return middle_part_of_row(header, geometry);
  if (geometry.crop == ImageCrop::none || !draws) return whole_of(header);
  return drawn_part(header, geometry, {draws, static_cast<size_t>(kPartDrawCount)});
}

}  // namespace leat
