// CPU kernels of ops/definitions/image.cc. A tile is a few images.
#include "ops/definitions/image.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/image_resize.h"
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

// The parts that leat.ResizeImages and leat.DecodeImages have in common.
class ShapedImagesKernel : public Kernel {
 public:
  ShapedImagesKernel(const KernelSetup& setup, const ImageGeometry& geometry)
      : subject_(setup.subject),
        geometry_(geometry),
        has_draws_(setup.types.has_input(1)),
        tiles_(setup, setup.output(0).shape.elements(1, setup.output(0).shape.rank())),
        in_elements_(setup.input(0).shape.elements(1, setup.input(0).shape.rank())),
        out_elements_(setup.output(0).shape.elements(1, setup.output(0).shape.rank())) {}
  int tiles(int) const override { return tiles_.tiles; }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t end = std::min(tiles_.rows, (tile + 1) * tiles_.tile_rows);
    for (int64_t n = tile * tiles_.tile_rows; n < end; ++n) {
      const float* const draws = has_draws_ ? context.in<float>(1) + n * kPartDrawCount : nullptr;
      const Status made = make(context, n, draws);
      if (made.ok()) continue;
      context.step->fail(context.instruction,
                         {made.code(), cat(subject_, ": row ", n, ": ", made.message())});
      return Progress::failed;
    }
    return Progress::done;
  }

 protected:
  virtual Status make(KernelContext& context, int64_t row, const float* draws) = 0;

  const std::string subject_;
  const ImageGeometry geometry_;
  const bool has_draws_;
  const ImageTiles tiles_;
  const int64_t in_elements_, out_elements_;  // of a row
};

template <typename T>
class ResizeImagesKernel final : public ShapedImagesKernel {
 public:
  ResizeImagesKernel(const KernelSetup& setup, const ImageGeometry& geometry)
      : ShapedImagesKernel(setup, geometry),
        height_(setup.input(0).shape[setup.input(0).shape.rank() - 2]),
        width_(setup.input(0).shape[setup.input(0).shape.rank() - 1]) {}

 private:
  Status make(KernelContext& context, int64_t row, const float* draws) override {
    const ImagePart part = part_of_image({ImageFormat::png, width_, height_}, geometry_, draws);
    return resize_planes(context.in<T>(0) + row * in_elements_, in_elements_ / (height_ * width_),
                         height_, width_, part, geometry_, context.out<T>(0) + row * out_elements_);
  }

  const int64_t height_, width_;
};

Result<std::unique_ptr<Kernel>> make_resize_images(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ImageGeometry geometry, geometry_of_images(setup.attrs()));
  const DType dtype = setup.input(0).dtype;
  if (setup.input(0).shape.elements() == 0)
    return invalid_argument(
        cat(setup.subject, ": expected images with elements, received ", setup.input(0).shape));
  if (is_16bit_float(dtype)) {
    const Shape& x = setup.input(0).shape;
    return compute_in_f32(setup, make_resize_images,
                          {.tile_rows = default_tile_rows(x[0], x.elements(1, x.rank()))});
  }
  std::unique_ptr<Kernel> kernel;
  if (dtype == DType::u8) kernel = std::make_unique<ResizeImagesKernel<uint8_t>>(setup, geometry);
  if (dtype == DType::f32) kernel = std::make_unique<ResizeImagesKernel<float>>(setup, geometry);
  if (dtype == DType::f64) kernel = std::make_unique<ResizeImagesKernel<double>>(setup, geometry);
  return kernel;
}

class DecodeImagesKernel final : public ShapedImagesKernel {
 public:
  using ShapedImagesKernel::ShapedImagesKernel;

 private:
  Status make(KernelContext& context, int64_t row, const float* draws) override {
    const std::span<const std::byte> file(context.in<std::byte>(0) + row * in_elements_,
                                          static_cast<size_t>(in_elements_));
    const Status decoded =
        decode(file, draws,
               {context.out<uint8_t>(0) + row * out_elements_, static_cast<size_t>(out_elements_)});
    if (decoded.ok() || file.empty() || file.back() == std::byte{0}) return decoded;
    return {decoded.code(), cat(decoded.message(), "; the file fills the ", in_elements_,
                                " bytes of its column, and may be longer")};
  }

  Status decode(std::span<const std::byte> file, const float* draws, std::span<uint8_t> out) const {
    LEAT_ASSIGN_OR_RETURN(const ImageHeader header, read_image_header(file));
    return load_part(file, part_of_image(header, geometry_, draws), geometry_, out);
  }
};

Result<std::unique_ptr<Kernel>> make_decode_images(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ImageGeometry geometry, geometry_of_images(setup.attrs()));
  return std::unique_ptr<Kernel>(std::make_unique<DecodeImagesKernel>(setup, geometry));
}

}  // namespace

void add_image_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.CropImages", "cpu", make_crop_images);
  catalogue.add_kernel("leat.AugmentImages", "cpu", make_augment_images);
  catalogue.add_kernel("leat.ResizeImages", "cpu", make_resize_images);
  catalogue.add_kernel("leat.DecodeImages", "cpu", make_decode_images);
}

}  // namespace leat
