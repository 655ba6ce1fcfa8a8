#include "ops/cpu/conv_weights_1x1.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/library_failure.h"
#include "ops/cpu/onednn.h"

namespace leat {
namespace {

constexpr int64_t kLanesOf1x1 = 16;                       // channels of a block of channels16
constexpr int64_t kRowsOf1x1 = 128, kColumnsOf1x1 = 512;  // of a box of the gradient
constexpr int64_t kMostPixelsOf1x1 = 4096;                // over all images
constexpr int64_t kMostBytesOf1x1 = int64_t{64} << 20;    // of the copies of x and y

// Phase 0 copies each image of x and of y to rows: [pixels of y over all images, channels]. Phase 1
// multiplies them, with a tile for each box of the gradient.
class Weights1x1Kernel final : public Kernel {
 public:
  Weights1x1Kernel(const ConvSpec& spec, ConvOperands operands)
      : spec_(spec), operands_(operands), area_(spec.window.output_area()) {}

  int phases() const override { return 2; }
  int tiles(int phase) const override {
    if (phase == 0) return static_cast<int>(spec_.images);
    return tile_count(spec_.outputs, kRowsOf1x1) * tile_count(spec_.inputs, kColumnsOf1x1);
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(depth() * (spec_.inputs + spec_.outputs)) * sizeof(float);
  }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 0) {
      copy_image(context, tile);
      return Progress::done;
    }
    return multiply(context, tile) ? Progress::done : library_failed(context, "multiply");
  }

 private:
  int64_t depth() const { return spec_.images * area_; }
  float* rows_of_x(const KernelContext& context) const {
    return reinterpret_cast<float*>(context.workspace);
  }
  float* rows_of_y(const KernelContext& context) const {
    return rows_of_x(context) + depth() * spec_.inputs;
  }

  void copy_image(const KernelContext& context, int64_t image) const {
    const auto* x = context.in<float>(operands_.x) + image * spec_.x_image();
    const auto* y = context.in<float>(operands_.y) + image * spec_.y_image();
    float* of_x = rows_of_x(context) + image * area_ * spec_.inputs;
    float* of_y = rows_of_y(context) + image * area_ * spec_.outputs;
    const Window& w = spec_.window;
    int64_t pixel = 0;
    for (int64_t i = 0; i < w.output[1]; ++i) {
      for (int64_t j = 0; j < w.output[2]; ++j, ++pixel) {
        const int64_t row = i * w.stride[1] - w.begin[1], column = j * w.stride[2] - w.begin[2];
        const bool inside = row >= 0 && row < w.input[1] && column >= 0 && column < w.input[2];
        copy_pixel(inside ? x + (row * w.input[2] + column) * kLanesOf1x1 : nullptr, w.input_area(),
                   spec_.inputs, of_x + pixel * spec_.inputs);
        copy_pixel(y + pixel * kLanesOf1x1, area_, spec_.outputs, of_y + pixel * spec_.outputs);
      }
    }
  }
  // Copies all channels of a pixel; null: a pixel of the padding.
  static void copy_pixel(const float* from, int64_t area, int64_t channels, float* to) {
    for (int64_t c = 0; c < channels; c += kLanesOf1x1) {
      if (from)
        std::memcpy(to + c, from + c * area, kLanesOf1x1 * sizeof(float));
      else
        std::memset(to + c, 0, kLanesOf1x1 * sizeof(float));
    }
  }

  bool multiply(const KernelContext& context, int64_t tile) const {
    const int64_t columns_of_boxes = tile_count(spec_.inputs, kColumnsOf1x1);
    const int64_t row = tile / columns_of_boxes * kRowsOf1x1,
                  column = tile % columns_of_boxes * kColumnsOf1x1;
    const int64_t rows = std::min(kRowsOf1x1, spec_.outputs - row);
    const onednn::Gemm box{.trans_a = true,
                           .m = rows,
                           .n = std::min(kColumnsOf1x1, spec_.inputs - column),
                           .k = depth(),
                           .lda = spec_.outputs,
                           .ldb = spec_.inputs,
                           .ldc = spec_.inputs};
    const float* y = rows_of_y(context) + row;
    if (spec_.bias && column == 0) sum_rows(y, rows, context.out<float>(operands_.bias) + row);
    return onednn::sgemm(box, y, rows_of_x(context) + column,
                         context.out<float>(operands_.w) + row * spec_.inputs + column);
  }
  // The gradient of the bias: the sums over all pixels, in their order.
  void sum_rows(const float* y, int64_t rows, float* bias) const {
    std::fill_n(bias, rows, 0.0f);
    for (int64_t pixel = 0; pixel < depth(); ++pixel, y += spec_.outputs) {
      for (int64_t i = 0; i < rows; ++i) bias[i] += y[i];
    }
  }

  const ConvSpec spec_;
  const ConvOperands operands_;
  const int64_t area_;  // of y
};

}  // namespace

bool conv_weights_1x1_fits(const ConvSpec& spec) {
  const Window& w = spec.window;
  const int64_t depth = spec.images * w.output_area();
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return spec.kind == ConvKind::backward_weights && spec.dtype == DType::f32 && spec.groups == 1 &&
         w.rank == 2 && w.kernel_area() == 1 && spec.inputs % kLanesOf1x1 == 0 &&
         spec.outputs % kLanesOf1x1 == 0 && spec.x_layout == Layout::channels16 &&
         spec.y_layout == Layout::channels16 && depth > 0 && depth <= kMostPixelsOf1x1 &&
         depth * (spec.inputs + spec.outputs) * bytes <= kMostBytesOf1x1;
}

std::unique_ptr<Kernel> make_conv_weights_1x1(const ConvSpec& spec, ConvOperands operands) {
  return std::make_unique<Weights1x1Kernel>(spec, operands);
}

}  // namespace leat
