#include "ops/cpu/conv_depthwise.h"

#include "ops/cpu/avx512.h"
#include "ops/cpu/conv_blocked_weights.h"

#ifdef LEAT_AVX512

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace leat {
namespace {

constexpr int64_t kDepthwiseLanes = 16;  // channels of a block
constexpr int kDepthwisePositions = 8;   // outputs whose sums are in registers at a time
constexpr int kDepthwiseTaps = 9;        // taps whose gradients are in registers at a time

// One block of channels of one image, with its padding, is [height][width][16]. The loops read it
// at the sum of two offsets, in elements: that of an output position and that of a tap of the
// window. Output positions are numbered row by row.
struct DepthwiseOffsets {
  std::vector<int64_t> position, tap;

  int64_t positions() const { return static_cast<int64_t>(position.size()); }
  int64_t taps() const { return static_cast<int64_t>(tap.size()); }
};

struct DepthwiseOperands {
  const float* weights;  // [taps][16]
  const float* bias;     // [16], or null
  bool relu;
};

// Computes P outputs, from position `first` on. The sum of each begins with the bias, and the taps
// are added in their order, so that its bits do not depend on P.
template <int P>
LEAT_AVX512 void depthwise_outputs_of(const DepthwiseOffsets& offsets, const DepthwiseOperands& f,
                                      const float* in, int64_t first, float* out) {
  std::array<const float*, P> at;
  __m512 sums[P];
  const __m512 bias = f.bias ? _mm512_loadu_ps(f.bias) : _mm512_setzero_ps();
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    at[static_cast<size_t>(p)] = in + offsets.position[static_cast<size_t>(first + p)];
    sums[p] = bias;
  }
  const int64_t taps = offsets.taps();
  const int64_t* tap = offsets.tap.data();
  for (int64_t t = 0; t < taps; ++t) {
    const __m512 weight = _mm512_loadu_ps(f.weights + t * kDepthwiseLanes);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const __m512 value = _mm512_loadu_ps(at[static_cast<size_t>(p)] + tap[t]);
      sums[p] = _mm512_fmadd_ps(value, weight, sums[p]);
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    __m512 sum = sums[p];
    // As in Relu, NaN stays NaN and -0 becomes 0.
    if (f.relu) {
      const __mmask16 kept = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NLE_UQ);
      sum = _mm512_maskz_mov_ps(kept, sum);
    }
    _mm512_storeu_ps(out + (first + p) * kDepthwiseLanes, sum);
  }
}

void depthwise_outputs(const DepthwiseOffsets& offsets, const DepthwiseOperands& f, const float* in,
                       float* out) {
  int64_t first = 0;
  const auto passes = [&](auto run, int64_t size) {
    for (; first + size <= offsets.positions(); first += size) run(offsets, f, in, first, out);
  };
  passes(depthwise_outputs_of<kDepthwisePositions>, kDepthwisePositions);
  passes(depthwise_outputs_of<4>, 4);
  passes(depthwise_outputs_of<1>, 1);
}

// Adds the gradients of T taps, from `first` on; with kBias, that of the bias too. The sums of an
// image stay in registers, in the order of the positions, and are added to `weights` at its end, so
// that the bits do not depend on T.
template <int T, bool kBias>
LEAT_AVX512 void depthwise_gradients_of(const DepthwiseOffsets& offsets, const float* in,
                                        const float* dy, int64_t first, float* weights,
                                        float* bias) {
  std::array<const float*, T> at;
  __m512 sums[T], bias_sum = _mm512_setzero_ps();
#pragma GCC unroll 9
  for (int t = 0; t < T; ++t) {
    at[static_cast<size_t>(t)] = in + offsets.tap[static_cast<size_t>(first + t)];
    sums[t] = _mm512_setzero_ps();
  }
  const int64_t positions = offsets.positions();
  const int64_t* position = offsets.position.data();
  for (int64_t p = 0; p < positions; ++p) {
    const __m512 gradient = _mm512_loadu_ps(dy + p * kDepthwiseLanes);
    if (kBias) bias_sum = _mm512_add_ps(bias_sum, gradient);
#pragma GCC unroll 9
    for (int t = 0; t < T; ++t) {
      const __m512 value = _mm512_loadu_ps(at[static_cast<size_t>(t)] + position[p]);
      sums[t] = _mm512_fmadd_ps(value, gradient, sums[t]);
    }
  }
#pragma GCC unroll 9
  for (int t = 0; t < T; ++t) {
    float* to = weights + (first + t) * kDepthwiseLanes;
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sums[t]));
  }
  if (kBias) _mm512_storeu_ps(bias, _mm512_add_ps(_mm512_loadu_ps(bias), bias_sum));
}

// The first pass adds the gradient of the bias, so that each element of dy counts once.
void depthwise_gradients(const DepthwiseOffsets& offsets, const float* in, const float* dy,
                         float* weights, float* bias) {
  int64_t first = 0;
  const auto passes = [&](auto run, auto run_with_bias, int64_t size) {
    for (; first + size <= offsets.taps(); first += size)
      (first == 0 && bias ? run_with_bias : run)(offsets, in, dy, first, weights, bias);
  };
  passes(depthwise_gradients_of<kDepthwiseTaps, false>,
         depthwise_gradients_of<kDepthwiseTaps, true>, kDepthwiseTaps);
  passes(depthwise_gradients_of<4, false>, depthwise_gradients_of<4, true>, 4);
  passes(depthwise_gradients_of<1, false>, depthwise_gradients_of<1, true>, 1);
}

// One axis of the window, with the data that is read as its input.
struct DepthwiseAxis {
  int64_t input, output, kernel, stride, dilation, begin;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  int64_t padded() const { return (output - 1) * stride + extent(); }  // what the outputs read
};

// A gradient with respect to x is a forward convolution of y with the window turned round, if the
// stride is 1.
DepthwiseAxis depthwise_axis(const ConvSpec& spec, size_t i) {
  const Window& v = spec.window;
  const DepthwiseAxis axis{v.input[i],  v.output[i],   v.kernel[i],
                           v.stride[i], v.dilation[i], v.begin[i]};
  if (spec.kind != ConvKind::backward_data) return axis;
  return {axis.output, axis.input, axis.kernel, 1, axis.dilation, axis.extent() - 1 - axis.begin};
}

class DepthwiseConv final : public BlockedWeightsConv {
 public:
  explicit DepthwiseConv(const ConvSpec& spec)
      : BlockedWeightsConv(spec.outputs, spec.window.kernel_area(),
                           spec.kind == ConvKind::backward_data),
        spec_(spec),
        rows_(depthwise_axis(spec, 1)),
        columns_(depthwise_axis(spec, 2)) {
    const int64_t width = columns_.padded();
    for (int64_t i = 0; i < rows_.output; ++i) {
      for (int64_t j = 0; j < columns_.output; ++j)
        offsets_.position.push_back((i * rows_.stride * width + j * columns_.stride) *
                                    kDepthwiseLanes);
    }
    for (int64_t i = 0; i < rows_.kernel; ++i) {
      for (int64_t j = 0; j < columns_.kernel; ++j)
        offsets_.tap.push_back((i * rows_.dilation * width + j * columns_.dilation) *
                               kDepthwiseLanes);
    }
  }

  size_t scratch_bytes() const override { return padded_elements() * sizeof(float); }

  bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const override {
    auto *weights = static_cast<float*>(w), *biases = static_cast<float*>(bias);
    auto* padded = reinterpret_cast<float*>(scratch);
    const bool weights_wanted = spec_.kind == ConvKind::backward_weights;
    // The border is zeroed once, because pad() writes the inside only.
    std::fill_n(padded, padded_elements(), 0.0f);
    // The gradients add up over the images, in `weights` itself.
    if (weights_wanted) {
      std::fill_n(weights, spec_.weights(), 0.0f);
      if (bias) std::fill_n(biases, spec_.outputs, 0.0f);
    }
    const bool turned = spec_.kind == ConvKind::backward_data;
    const auto* in = static_cast<const float*>(turned ? y : x);
    auto* out = static_cast<float*>(turned ? x : y);
    const int64_t blocks = spec_.outputs / kDepthwiseLanes;
    const int64_t area_in = rows_.input * columns_.input * kDepthwiseLanes;
    const int64_t area_out = offsets_.positions() * kDepthwiseLanes;
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t block = 0; block < blocks; ++block, in += area_in, out += area_out) {
        pad(in, padded);
        float* of_block = weights + block * offsets_.taps() * kDepthwiseLanes;
        float* bias_of_block = bias ? biases + block * kDepthwiseLanes : nullptr;
        if (weights_wanted)
          depthwise_gradients(offsets_, padded, out, of_block, bias_of_block);
        else
          depthwise_outputs(offsets_, {of_block, bias_of_block, spec_.relu}, padded, out);
      }
    }
    return true;
  }

 private:
  size_t padded_elements() const {
    return static_cast<size_t>(rows_.padded() * columns_.padded() * kDepthwiseLanes);
  }

  // Copies the elements of a block that are read into their padding, which is already there. The
  // padding of a window that is turned round may be negative: then the first elements are not read.
  void pad(const float* in, float* padded) const {
    const auto first = [](const DepthwiseAxis& axis) { return std::max<int64_t>(0, -axis.begin); };
    const auto end = [](const DepthwiseAxis& axis) {
      return std::min(axis.input, axis.padded() - axis.begin);
    };
    const int64_t column = first(columns_), columns = end(columns_) - column;
    if (columns <= 0) return;
    for (int64_t row = first(rows_); row < end(rows_); ++row) {
      const int64_t to = (row + rows_.begin) * columns_.padded() + column + columns_.begin;
      std::memcpy(padded + to * kDepthwiseLanes,
                  in + (row * columns_.input + column) * kDepthwiseLanes,
                  static_cast<size_t>(columns * kDepthwiseLanes) * sizeof(float));
    }
  }

  ConvSpec spec_;
  DepthwiseAxis rows_, columns_;
  DepthwiseOffsets offsets_;
};

}  // namespace

std::unique_ptr<ConvEngine> make_depthwise_conv(const ConvSpec& spec) {
  const Window& v = spec.window;
  const bool fits = spec.dtype == DType::f32 && v.rank == 2 && spec.groups == spec.inputs &&
                    spec.groups == spec.outputs && spec.outputs % kDepthwiseLanes == 0 &&
                    v.output_area() > 0 && v.input_area() > 0 &&
                    spec.x_layout == Layout::channels16 && spec.y_layout == Layout::channels16;
  if (!fits || !has_avx512()) return nullptr;
  if (spec.kind != ConvKind::backward_weights) {
    const bool small = v.kernel[1] > v.output[1] || v.kernel[2] > v.output[2];
    if (!small || v.stride[1] != 1 || v.stride[2] != 1) return nullptr;
  }
  return std::make_unique<DepthwiseConv>(spec);
}

}  // namespace leat

#else

namespace leat {
std::unique_ptr<ConvEngine> make_depthwise_conv(const ConvSpec&) { return nullptr; }
}  // namespace leat

#endif
