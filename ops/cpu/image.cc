// CPU kernels of ops/definitions/image.cc. A tile is a few images.
#include <algorithm>
#include <cstring>

#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/image_steps.h"

namespace leat {
namespace {

// The images of a node, cut into tiles.
struct ImageTiles {
  ImageTiles(const KernelSetup& setup, int64_t image_elements)
      : rows(setup.input(0).shape[0]),
        tile_rows(setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(rows, image_elements)),
        tiles(tile_count(rows, tile_rows)) {}
  int64_t rows, tile_rows;
  int tiles;
};

// The elements of a line, from `first` on; those outside of the line are `fill`.
template <typename T>
void copy_image_line(const T* line, int64_t size, int64_t first, bool mirrored, T fill, T* out,
                     int64_t n) {
  const int64_t before = std::clamp<int64_t>(-first, 0, n);
  const int64_t end = std::clamp<int64_t>(size - first, before, n);
  std::fill_n(out, before, fill);
  if (end > before)
    std::memcpy(out + before, line + first + before, static_cast<size_t>(end - before) * sizeof(T));
  std::fill(out + end, out + n, fill);
  if (mirrored) std::reverse(out, out + n);
}

template <typename T>
class CropImagesKernel final : public Kernel {
 public:
  explicit CropImagesKernel(const KernelSetup& setup)
      : tiles_(setup, setup.output(0).shape.elements(1, setup.output(0).shape.rank())) {
    const Shape &x = setup.input(0).shape, &y = setup.output(0).shape;
    const int rank = x.rank();
    planes_ = x.elements(1, rank - 2);
    height_ = x[rank - 2], width_ = x[rank - 1];
    out_height_ = y[rank - 2], out_width_ = y[rank - 1];
    fill_ = Tensor::scalar_of(setup.input(0).dtype, attr_float(setup.attrs(), "fill"))
                .template data<T>()[0];
  }
  int tiles(int) const override { return tiles_.tiles; }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(tiles_.rows, (tile + 1) * tiles_.tile_rows);
    for (int64_t n = tile * tiles_.tile_rows; n < end; ++n) {
      const int64_t* const place = context.in<int64_t>(1) + n * 4;
      // Whatever lies further outside has no element of the image, either.
      const int64_t top = std::clamp(place[0], -out_height_, height_),
                    left = std::clamp(place[1], -out_width_, width_);
      for (int64_t p = n * planes_; p < (n + 1) * planes_; ++p) {
        const T* const from = context.in<T>(0) + p * height_ * width_;
        T* const to = context.out<T>(0) + p * out_height_ * out_width_;
        for (int64_t i = 0; i < out_height_; ++i) {
          const int64_t line = top + (place[2] != 0 ? out_height_ - 1 - i : i);
          T* const out = to + i * out_width_;
          if (line < 0 || line >= height_)
            std::fill_n(out, out_width_, fill_);
          else
            copy_image_line(from + line * width_, width_, left, place[3] != 0, fill_, out,
                            out_width_);
        }
      }
    }
    return Progress::done;
  }

 private:
  const ImageTiles tiles_;
  int64_t planes_ = 0, height_ = 0, width_ = 0, out_height_ = 0, out_width_ = 0;
  T fill_{};
};

Result<std::unique_ptr<Kernel>> make_crop_images(const KernelSetup& setup) {
  return dispatch_dtype(setup.input(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<CropImagesKernel<decltype(zero)>>(setup);
  });
}

template <typename T>
class AugmentImagesKernel final : public Kernel {
 public:
  explicit AugmentImagesKernel(const KernelSetup& setup)
      : tiles_(setup, setup.input(0).shape.elements(1, 4)), steps_(setup.input(1).shape[1]) {
    const Shape& x = setup.input(0).shape;
    size_ = {x[1], x[2], x[3]};
  }
  int tiles(int) const override { return tiles_.tiles; }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(size_.elements()) * sizeof(T);
  }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(tiles_.rows, (tile + 1) * tiles_.tile_rows);
    for (int64_t n = tile * tiles_.tile_rows; n < end; ++n) {
      T* const image = context.out<T>(0) + n * size_.elements();
      std::copy_n(context.in<T>(0) + n * size_.elements(), size_.elements(), image);
      for (int64_t s = n * steps_; s < (n + 1) * steps_; ++s) {
        const int64_t kind = context.in<int64_t>(1)[s];
        if (kind <= 0 || kind >= kImageSteps) continue;
        run_image_step(static_cast<ImageStep>(kind), static_cast<double>(context.in<float>(2)[s]),
                       size_, image, reinterpret_cast<T*>(context.scratch));
      }
    }
    return Progress::done;
  }

 private:
  const ImageTiles tiles_;
  const int64_t steps_;
  ImageSize size_;
};

Result<std::unique_ptr<Kernel>> make_augment_images(const KernelSetup& setup) {
  const DType dtype = setup.input(0).dtype;
  if (is_16bit_float(dtype)) {
    const Shape& x = setup.input(0).shape;
    return compute_in_f32(setup, make_augment_images,
                          {.tile_rows = default_tile_rows(x[0], x.elements(1, 4))});
  }
  if (dtype == DType::f64)
    return std::unique_ptr<Kernel>(std::make_unique<AugmentImagesKernel<double>>(setup));
  return std::unique_ptr<Kernel>(std::make_unique<AugmentImagesKernel<float>>(setup));
}

}  // namespace

void add_image_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.CropImages", "cpu", make_crop_images);
  catalogue.add_kernel("leat.AugmentImages", "cpu", make_augment_images);
}

}  // namespace leat
