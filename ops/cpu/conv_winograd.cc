#include "ops/cpu/conv_winograd.h"

#include <algorithm>
#include <cstring>

#include "ops/cpu/winograd.h"

namespace leat {
namespace {

using winograd::kKernel;
using winograd::kLanes;
using winograd::kPoints;
using winograd::kTile;

constexpr int64_t kWidth = 4 * kLanes;  // output channels of a panel of weights
constexpr int64_t kKernelArea = kKernel * kKernel;
constexpr int64_t kLine = 16;             // floats of a cache line
constexpr int64_t kBlockBytes = 1 << 20;  // of both operands at the points: half of a level 2 cache
constexpr int64_t kLeastRows = 56;        // the least number of tiles per pass over the weights

// A tensor of images, accessed by 16 channels at a time.
struct Images {
  winograd::Plane plane;
  int64_t channels = 0;

  int64_t blocks() const { return channels / kLanes; }
  int64_t image(int64_t i) const { return i * channels * plane.height * plane.width; }
};

// Plain, 16 channels are an area apart; in channels16 they are adjacent, and pixels are 16 apart.
Images images_of(int64_t channels, const std::array<int64_t, 3>& size, Layout layout) {
  const bool blocked = layout == Layout::channels16;
  return {{size[1], size[2], blocked ? kLanes : 1, blocked ? 1 : size[1] * size[2]}, channels};
}

// The tiles of 4x4 outputs of all images, in order, and the inputs below them. A block is a number
// of tiles that are transformed, multiplied and transformed back together.
struct Tiles {
  Images in, out;
  int64_t top = 0, left = 0;  // the first input of the first output: negative when padded
  int64_t count = 0, block = 0;

  int64_t columns() const { return (out.plane.width + kTile - 1) / kTile; }
  int64_t rows() const { return (out.plane.height + kTile - 1) / kTile; }
  // The distance between points, in floats. The extra line keeps the points of a tile apart in the
  // cache: with a power of two between them, they would share few of its sets.
  int64_t in_points() const { return block * in.channels + kLine; }
  int64_t out_points() const { return block * out.channels + kLine; }

  // Calls f(image, row, column, index in the block) for the tiles [begin, end).
  template <typename F>
  void for_each(int64_t begin, int64_t end, F&& f) const {
    int64_t tile = begin / columns(), column = begin % columns();
    int64_t image = tile / rows(), row = tile % rows();
    for (int64_t i = 0; i < end - begin; ++i) {
      f(image, row * kTile, column * kTile, i);
      if (++column < columns()) continue;
      column = 0;
      if (++row < rows()) continue;
      row = 0;
      ++image;
    }
  }

  void transform_inputs(const float* x, int64_t begin, int64_t end, float* to) const {
    for_each(begin, end, [&](int64_t image, int64_t row, int64_t column, int64_t i) {
      winograd::transform_patch(x + in.image(image), in.plane, in.blocks(), row + top,
                                column + left, to + i * in.channels, in_points());
    });
  }
};

// Backward-data is a convolution of dy with kernels rotated by half a turn, so x and y change
// places, and the padding becomes 2 - begin.
Tiles tiles_of(const ConvSpec& spec) {
  const Window& window = spec.window;
  const Images x = images_of(spec.inputs, window.input, spec.x_layout);
  const Images y = images_of(spec.outputs, window.output, spec.y_layout);
  Tiles tiles;
  const bool backward = spec.kind == ConvKind::backward_data;
  tiles.in = backward ? y : x;
  tiles.out = backward ? x : y;
  tiles.top = backward ? window.begin[1] - (kKernel - 1) : -window.begin[1];
  tiles.left = backward ? window.begin[2] - (kKernel - 1) : -window.begin[2];
  tiles.count = spec.images * tiles.rows() * tiles.columns();
  const int64_t bytes =
      kPoints * (spec.inputs + spec.outputs) * static_cast<int64_t>(sizeof(float));
  // A block's operands should stay in the level 2 cache, but a pass over the weights must serve
  // enough tiles. The blocks are then made equal.
  const int64_t most = std::max(kBlockBytes / bytes, kLeastRows);
  const int64_t blocks = std::max<int64_t>(1, (tiles.count + most - 1) / most);
  tiles.block = (tiles.count + blocks - 1) / blocks;
  return tiles;
}

size_t bytes_of(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

// Forward and backward-data: y (or x) = sum over channels of the weights times x (or y). The packed
// weights are panels of 64 output channels, each [points, input channels, 64].
class WinogradRows final : public ConvEngine {
 public:
  explicit WinogradRows(const ConvSpec& spec) : spec_(spec), tiles_(tiles_of(spec)) {}

  bool packs() const override { return true; }
  size_t packed_bytes() const override { return bytes_of(slice(slices() - 1).end); }
  int slices() const override {
    return static_cast<int>((tiles_.out.channels + kWidth - 1) / kWidth);
  }
  Range slice(int i) const override { return {panel(i), panel(i) + kPoints * panel_points(i)}; }
  bool pack(const void* weights, void* packed, int i) const override {
    // The weights are [outputs, inputs, 3, 3]. Forward, a panel's channels are the first dimension;
    // in backward-data they are the second.
    const bool backward = spec_.kind == ConvKind::backward_data;
    const int64_t output = backward ? kKernelArea : spec_.inputs * kKernelArea;
    const int64_t input = backward ? spec_.inputs * kKernelArea : kKernelArea;
    const float* from = static_cast<const float*>(weights) + i * kWidth * output;
    float* to = static_cast<float*>(packed) + panel(i);
    for (int64_t c = 0; c < tiles_.in.channels; ++c) {
      for (int64_t k = 0; k < width(i); k += kLanes) {
        winograd::transform_kernels(from + c * input + k * output, output, backward,
                                    to + c * width(i) + k, panel_points(i));
      }
    }
    return true;
  }
  bool unpack(const void*, void*, int) const override { return false; }  // no exact inverse

  size_t scratch_bytes() const override {
    return bytes_of(kPoints * (tiles_.in_points() + tiles_.out_points()));
  }

  bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const override {
    // For each block of tiles: transform the inputs, multiply at all points, transform the sums.
    const bool backward = spec_.kind == ConvKind::backward_data;
    const auto* from = static_cast<const float*>(backward ? y : x);
    auto* to = static_cast<float*>(backward ? x : y);
    auto* inputs = reinterpret_cast<float*>(scratch);
    float* sums = inputs + kPoints * tiles_.in_points();
    for (int64_t begin = 0; begin < tiles_.count; begin += tiles_.block) {
      const int64_t end = std::min(begin + tiles_.block, tiles_.count);
      tiles_.transform_inputs(from, begin, end, inputs);
      multiply(inputs, static_cast<const float*>(w), sums, end - begin);
      transform_outputs(sums, spec_.bias ? static_cast<const float*>(bias) : nullptr, to, begin,
                        end);
    }
    return true;
  }

 private:
  int64_t width(int64_t i) const { return std::min(kWidth, tiles_.out.channels - i * kWidth); }
  // The distance between the points of a panel in floats, and the offset of a panel.
  int64_t panel_points(int64_t i) const { return tiles_.in.channels * width(i) + kLine; }
  int64_t panel(int64_t i) const { return i * kPoints * panel_points(0); }

  // At each point: [tiles, in channels] times [in channels, 64] for each panel. Each product
  // prefetches the weights of the next one.
  void multiply(const float* inputs, const float* weights, float* sums, int64_t rows) const {
    winograd::Product p;
    p.rows = rows;
    p.depth = p.a_row = tiles_.in.channels;
    p.a_depth = 1;
    p.c_row = tiles_.out.channels;
    const auto weights_at = [&](int64_t point, int64_t i) {
      return weights + panel(i) + point * panel_points(i);
    };
    for (int64_t point = 0; point < kPoints; ++point) {
      for (int64_t i = 0; i < slices(); ++i) {
        const bool last = i + 1 == slices();
        p.columns = p.b_depth = width(i);
        winograd::multiply(p, inputs + point * tiles_.in_points(), weights_at(point, i),
                           last ? weights_at((point + 1) % kPoints, 0) : weights_at(point, i + 1),
                           sums + point * tiles_.out_points() + i * kWidth);
      }
    }
  }
  void transform_outputs(const float* sums, const float* bias, float* y, int64_t begin,
                         int64_t end) const {
    const Images& out = tiles_.out;
    tiles_.for_each(begin, end, [&](int64_t image, int64_t row, int64_t column, int64_t i) {
      winograd::transform_outputs(sums + i * out.channels, tiles_.out_points(),
                                  y + out.image(image), out.plane, out.blocks(), row, column, bias,
                                  spec_.relu);
    });
  }

  ConvSpec spec_;
  Tiles tiles_;
};

// Gradients of weights: at each point, sums over all tiles of the inputs times the gradients of the
// outputs. The packed form has blocks of 16 output channels, each [input channels, 9, 16].
class WinogradWeights final : public ConvEngine {
 public:
  explicit WinogradWeights(const ConvSpec& spec) : spec_(spec), tiles_(tiles_of(spec)) {}

  bool packs() const override { return true; }
  size_t packed_bytes() const override { return bytes_of(spec_.weights()); }
  int slices() const override { return static_cast<int>(tiles_.out.blocks()); }
  Range slice(int i) const override { return {i * block(), (i + 1) * block()}; }
  bool pack(const void*, void*, int) const override { return false; }
  bool unpack(const void* packed, void* weights, int i) const override {
    const float* from = static_cast<const float*>(packed) + i * block();
    float* to = static_cast<float*>(weights) + i * block();
    const int64_t kernels = spec_.inputs * kKernelArea;  // of one output channel
    for (int64_t e = 0; e < kernels; ++e) {
      for (int64_t k = 0; k < kLanes; ++k) to[k * kernels + e] = from[e * kLanes + k];
    }
    return true;
  }

  size_t scratch_bytes() const override {
    return bytes_of(kPoints * (sums_points() + tiles_.in_points() + tiles_.out_points()));
  }

  // The sums stay at the points over all blocks of tiles, and are transformed to weights once.
  bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const override {
    auto* sums = reinterpret_cast<float*>(scratch);
    float* inputs = sums + kPoints * sums_points();
    float* gradients = inputs + kPoints * tiles_.in_points();
    auto* bias_sums = spec_.bias ? static_cast<float*>(bias) : nullptr;
    if (bias_sums) std::fill_n(bias_sums, spec_.outputs, 0.0f);
    for (int64_t begin = 0; begin < tiles_.count; begin += tiles_.block) {
      const int64_t end = std::min(begin + tiles_.block, tiles_.count);
      tiles_.transform_inputs(static_cast<const float*>(x), begin, end, inputs);
      transform_gradients(static_cast<const float*>(y), begin, end, gradients, bias_sums);
      multiply(inputs, gradients, sums, end - begin, begin > 0);
    }
    transform_weights(sums, static_cast<float*>(w));
    return true;
  }

 private:
  int64_t block() const { return spec_.inputs * kKernelArea * kLanes; }
  int64_t sums_points() const { return spec_.inputs * spec_.outputs + kLine; }

  void transform_gradients(const float* y, int64_t begin, int64_t end, float* to,
                           float* bias) const {
    const Images& out = tiles_.out;
    tiles_.for_each(begin, end, [&](int64_t image, int64_t row, int64_t column, int64_t i) {
      winograd::transform_gradients(y + out.image(image), out.plane, out.blocks(), row, column,
                                    to + i * out.channels, tiles_.out_points(), bias);
    });
  }
  // At each point: the transposed inputs [in channels, tiles] times [tiles, out channels].
  void multiply(const float* inputs, const float* gradients, float* sums, int64_t tiles,
                bool add) const {
    winograd::Product p;
    p.rows = p.a_depth = spec_.inputs;
    p.columns = p.b_depth = p.c_row = spec_.outputs;
    p.depth = tiles;
    p.a_row = 1;
    p.add = add;
    for (int64_t point = 0; point < kPoints; ++point) {
      const float* of_point = gradients + point * tiles_.out_points();
      winograd::multiply(p, inputs + point * tiles_.in_points(), of_point,
                         point + 1 < kPoints ? of_point + tiles_.out_points() : of_point,
                         sums + point * sums_points());
    }
  }
  void transform_weights(const float* sums, float* to) const {
    for (int64_t k = 0; k < spec_.outputs; k += kLanes) {
      for (int64_t c = 0; c < spec_.inputs; ++c, to += kKernelArea * kLanes)
        winograd::transform_weights(sums + c * spec_.outputs + k, sums_points(), to);
    }
  }

  ConvSpec spec_;
  Tiles tiles_;
};

}  // namespace

bool winograd_fits(const ConvSpec& spec) {
  constexpr int64_t kMostArea = int64_t{1} << 27;  // the addresses of 16 channels must fit 32 bits
  const Window& w = spec.window;
  const bool by_3x3 = w.rank == 2 && w.kernel[1] == kKernel && w.kernel[2] == kKernel &&
                      w.stride[1] == 1 && w.stride[2] == 1 && w.dilation[1] == 1 &&
                      w.dilation[2] == 1;
  const auto small = [](int64_t area) { return area > 0 && area <= kMostArea; };
  return winograd::available() && by_3x3 && spec.dtype == DType::f32 && spec.groups == 1 &&
         spec.images > 0 && spec.inputs % kLanes == 0 && spec.outputs % kLanes == 0 &&
         small(w.input_area()) && small(w.output_area());
}

bool winograd_is_faster(const ConvSpec& spec) {
  if (!winograd_fits(spec)) return false;
  const Tiles tiles = tiles_of(spec);
  const int64_t outputs = spec.images * tiles.out.plane.height * tiles.out.plane.width;
  // The algorithm needs enough tiles to pay for the transform of the weights (512 to 512 channels
  // at 4x4: 0.6x with 32 tiles, 1.5x with 128; 256 to 256 at 14x14 1.2x with 16), tiles with at
  // least half of their outputs inside (64 to 64 at 6x6 1.4x, at 5x5 1.1x), and more than 16 to 16
  // channels (1.0x). Other speedups: 1.8x for 32 to 64 at 14x14, 2.7x for 64 to 64 at 28x28, 2.0x
  // for 128 to 128 and 1.9x for 256 to 256 at 14x14.
  const int64_t least_tiles = std::max<int64_t>(8, spec.inputs * spec.outputs / 4096);
  return tiles.count >= least_tiles && 2 * outputs >= tiles.count * kTile * kTile &&
         spec.inputs + spec.outputs >= 48;
}

std::unique_ptr<ConvEngine> make_winograd_conv(const ConvSpec& spec) {
  if (spec.kind == ConvKind::backward_weights) return std::make_unique<WinogradWeights>(spec);
  return std::make_unique<WinogradRows>(spec);
}

}  // namespace leat
