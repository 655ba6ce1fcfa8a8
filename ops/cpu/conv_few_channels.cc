#include "ops/cpu/conv_few_channels.h"

#include "ops/cpu/avx512.h"
#include "ops/cpu/conv_blocked_weights.h"

#ifdef LEAT_AVX512

#include <algorithm>
#include <cstring>
#include <vector>

namespace leat {
namespace {

constexpr int64_t kOutputs = 16;   // channels of a block
constexpr int64_t kMostTaps = 16;  // for more taps the library is as fast
constexpr int kStrip = 14;         // outputs: 28 sums of two blocks, 2 weights and 1 of x
constexpr int kTapsOfPass = 9;     // the taps whose gradients one pass over y sums

// A tap is an element of the kernel over all input channels. x is one image with its padding.
struct Geometry {
  int64_t rows = 0, columns = 0;  // of y
  int64_t row_stride = 0, column_stride = 0;
  int64_t width = 0;            // of a row of x
  std::vector<int64_t> offset;  // by tap: the element of x that output 0 reads

  int64_t taps() const { return static_cast<int64_t>(offset.size()); }
  int64_t block() const { return rows * columns * kOutputs; }  // of y, elements
};

struct ForwardOperands {
  const float *weights, *bias;  // [blocks][taps][16], [blocks][16] or null
  bool relu;
};

// Computes P adjacent outputs of B blocks. x and y begin at the first output of the strip. kUnit:
// the stride along a row is 1, a constant that the compiler folds into the addresses.
template <int P, int B, bool kUnit>
LEAT_AVX512 void forward_strip(const Geometry& g, const ForwardOperands& f, const float* x,
                               float* y) {
  const int64_t taps = g.taps(), step = kUnit ? 1 : g.column_stride;
  const int64_t* offset = g.offset.data();
  const bool relu = f.relu;
  // The sums begin with the bias, and the taps are added in their order: an output's bits do not
  // depend on the size of its strip.
  __m512 sums[B][P];
  for (int b = 0; b < B; ++b) {
    const __m512 bias = f.bias ? _mm512_loadu_ps(f.bias + b * kOutputs) : _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) sums[b][p] = bias;
  }
  // A loaded vector of weights serves all P outputs, and a broadcast element of x serves all B
  // blocks.
  for (int64_t t = 0; t < taps; ++t) {
    const float* in = x + offset[t];
    __m512 weights[B];
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b) weights[b] = _mm512_loadu_ps(f.weights + (b * taps + t) * kOutputs);
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      const __m512 value = _mm512_set1_ps(in[p * step]);
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) sums[b][p] = _mm512_fmadd_ps(value, weights[b], sums[b][p]);
    }
  }
#pragma GCC unroll 2
  // The blocks of y are g.block() elements apart, the positions of a block 16.
  for (int b = 0; b < B; ++b) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
      __m512 sum = sums[b][p];
      // As in Relu, NaN stays NaN and -0 becomes 0.
      if (relu) {
        const __mmask16 kept = _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NLE_UQ);
        sum = _mm512_maskz_mov_ps(kept, sum);
      }
      _mm512_storeu_ps(y + b * g.block() + p * kOutputs, sum);
    }
  }
}

// Computes B blocks of an image row by row: each row as strips of 14 outputs, and its rest as
// strips of 8, 4, 2 and 1.
template <int B, bool kUnit>
void forward_rows(const Geometry& g, const ForwardOperands& f, const float* x, float* y) {
  for (int64_t row = 0; row < g.rows; ++row) {
    const float* in = x + row * g.row_stride * g.width;
    float* out = y + row * g.columns * kOutputs;
    int64_t at = 0;
    const auto strips = [&](auto run, int64_t size) {
      for (; at + size <= g.columns; at += size)
        run(g, f, in + at * g.column_stride, out + at * kOutputs);
    };
    strips(forward_strip<kStrip, B, kUnit>, kStrip);
    strips(forward_strip<8, B, kUnit>, 8);
    strips(forward_strip<4, B, kUnit>, 4);
    strips(forward_strip<2, B, kUnit>, 2);
    strips(forward_strip<1, B, kUnit>, 1);
  }
}

// Adds the gradients of T taps of B blocks; with kBias, those of the bias too. The sums of an image
// stay in registers, in the order of the positions, and are added to `weights` once at its end. The
// images follow each other, so the order does not depend on T.
template <int T, int B, bool kUnit, bool kBias>
LEAT_AVX512 void gradients_of_taps(const Geometry& g, int64_t tap, const float* x, const float* y,
                                   float* weights, float* bias) {
  const int64_t step = kUnit ? 1 : g.column_stride;
  __m512 sums[B][T], bias_sums[B];
  for (int b = 0; b < B; ++b) {
    bias_sums[b] = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t) sums[b][t] = _mm512_setzero_ps();
  }
  for (int64_t row = 0; row < g.rows; ++row) {
    // For each tap, the row of x that this row of outputs reads.
    const float* in[T];
    for (int t = 0; t < T; ++t)
      in[t] = x + g.offset[static_cast<size_t>(tap + t)] + row * g.row_stride * g.width;
    const float* dy = y + row * g.columns * kOutputs;
    for (int64_t i = 0; i < g.columns; ++i, dy += kOutputs) {
      __m512 grads[B];
#pragma GCC unroll 2
      for (int b = 0; b < B; ++b) {
        grads[b] = _mm512_loadu_ps(dy + b * g.block());
        if (kBias) bias_sums[b] = _mm512_add_ps(bias_sums[b], grads[b]);
      }
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        const __m512 value = _mm512_set1_ps(in[t][i * step]);
#pragma GCC unroll 2
        for (int b = 0; b < B; ++b) sums[b][t] = _mm512_fmadd_ps(value, grads[b], sums[b][t]);
      }
    }
  }
  for (int b = 0; b < B; ++b) {
    for (int t = 0; t < T; ++t) {
      float* to = weights + (b * g.taps() + tap + t) * kOutputs;
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sums[b][t]));
    }
    if (!kBias) continue;
    float* to = bias + b * kOutputs;
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), bias_sums[b]));
  }
}

// Computes the gradients of all taps of B blocks, a few taps in each pass over y. The first pass,
// with tap 0, adds those of the bias, so that each element of y counts once.
template <int B, bool kUnit>
void gradients(const Geometry& g, const float* x, const float* y, float* weights, float* bias) {
  int64_t tap = 0;
  const auto passes = [&](auto run, auto run_with_bias, int64_t size) {
    for (; tap + size <= g.taps(); tap += size)
      (tap == 0 && bias ? run_with_bias : run)(g, tap, x, y, weights, bias);
  };
  passes(gradients_of_taps<kTapsOfPass, B, kUnit, false>,
         gradients_of_taps<kTapsOfPass, B, kUnit, true>, kTapsOfPass);
  passes(gradients_of_taps<4, B, kUnit, false>, gradients_of_taps<4, B, kUnit, true>, 4);
  passes(gradients_of_taps<1, B, kUnit, false>, gradients_of_taps<1, B, kUnit, true>, 1);
}

// Each image is first copied into the scratch memory with its padding. The loops then need no test
// for the border.
class FewChannelsConv final : public BlockedWeightsConv {
 public:
  explicit FewChannelsConv(const ConvSpec& spec)
      : BlockedWeightsConv(spec.outputs, spec.inputs * spec.window.kernel_area(), false),
        spec_(spec) {
    const Window& v = spec.window;
    g_.rows = v.output[1];
    g_.columns = v.output[2];
    g_.row_stride = v.stride[1];
    g_.column_stride = v.stride[2];
    // Only the part of x that some output reads is copied; rows and columns behind it are left out.
    height_ = (g_.rows - 1) * v.stride[1] + (v.kernel[1] - 1) * v.dilation[1] + 1;
    g_.width = (g_.columns - 1) * v.stride[2] + (v.kernel[2] - 1) * v.dilation[2] + 1;
    // The taps are in the order of the weights: channel, row, column.
    for (int64_t c = 0; c < spec.inputs; ++c) {
      for (int64_t i = 0; i < v.kernel[1]; ++i) {
        for (int64_t j = 0; j < v.kernel[2]; ++j)
          g_.offset.push_back((c * height_ + i * v.dilation[1]) * g_.width + j * v.dilation[2]);
      }
    }
  }

  size_t scratch_bytes() const override { return padded_elements() * sizeof(float); }

  bool run(void* x, void* w, void* bias, void* y, std::byte* scratch) const override {
    auto *weights = static_cast<float*>(w), *biases = static_cast<float*>(bias);
    auto* padded = reinterpret_cast<float*>(scratch);
    // The border is zeroed once for all images, because pad() writes the inside only.
    std::fill_n(padded, padded_elements(), 0.0f);
    // The gradients add up over the images, in `weights` itself.
    if (spec_.kind == ConvKind::backward_weights) {
      std::fill_n(weights, spec_.weights(), 0.0f);
      if (bias) std::fill_n(biases, spec_.outputs, 0.0f);
    }
    for (int64_t image = 0; image < spec_.images; ++image) {
      pad(static_cast<const float*>(x) + image * spec_.x_image(), padded);
      run_image(padded, weights, biases, static_cast<float*>(y) + image * spec_.y_image());
    }
    return true;
  }

 private:
  size_t padded_elements() const { return static_cast<size_t>(spec_.inputs * height_ * g_.width); }

  // Copies the elements of an image that are read into their padding, which is already there.
  void pad(const float* x, float* padded) const {
    const Window& v = spec_.window;
    const int64_t rows = std::min(v.input[1], height_ - v.begin[1]);
    const int64_t columns = std::min(v.input[2], g_.width - v.begin[2]);
    if (columns <= 0) return;
    for (int64_t c = 0; c < spec_.inputs; ++c) {
      for (int64_t row = 0; row < rows; ++row) {
        std::memcpy(padded + (c * height_ + row + v.begin[1]) * g_.width + v.begin[2],
                    x + (c * v.input[1] + row) * v.input[2],
                    static_cast<size_t>(columns) * sizeof(float));
      }
    }
  }

  // Blocks go in pairs, so that each broadcast element of x is used twice; an odd last block is
  // alone.
  void run_image(const float* x, float* weights, float* bias, float* y) const {
    const int64_t blocks = spec_.outputs / kOutputs;
    for (int64_t block = 0; block < blocks; block += 2) {
      float* w = weights + block * g_.taps() * kOutputs;
      float* b = bias ? bias + block * kOutputs : nullptr;
      float* out = y + block * g_.block();
      const bool two = block + 1 < blocks, unit = g_.column_stride == 1;
      if (spec_.kind == ConvKind::backward_weights) {
        (two    ? unit ? gradients<2, true> : gradients<2, false>
            : unit ? gradients<1, true>
                : gradients<1, false>)(g_, x, out, w, b);
      } else {
        (two    ? unit ? forward_rows<2, true> : forward_rows<2, false>
            : unit ? forward_rows<1, true>
                : forward_rows<1, false>)(g_, {w, b, spec_.relu}, x, out);
      }
    }
  }

  ConvSpec spec_;
  Geometry g_;
  int64_t height_ = 0;  // of the part of x that is read, with its padding
};

}  // namespace

std::unique_ptr<ConvEngine> make_few_channels_conv(const ConvSpec& spec) {
  const Window& v = spec.window;
  const int64_t taps = spec.inputs * v.kernel_area();
  // Backward-data is not covered: a first layer needs no gradient of its images.
  const bool fits = spec.kind != ConvKind::backward_data && spec.dtype == DType::f32 &&
                    spec.groups == 1 && v.rank == 2 && spec.outputs % kOutputs == 0 && taps >= 1 &&
                    taps <= kMostTaps && v.output_area() > 0 && spec.x_layout == Layout::plain &&
                    spec.y_layout == Layout::channels16;
  if (!fits || !has_avx512()) return nullptr;
  return std::make_unique<FewChannelsConv>(spec);
}

}  // namespace leat

#else

namespace leat {
std::unique_ptr<ConvEngine> make_few_channels_conv(const ConvSpec&) { return nullptr; }
}  // namespace leat

#endif
