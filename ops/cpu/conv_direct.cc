// Convolutions by plain loops: every geometry and layout, f32 and f64, in the order of the
// definition. Tests check gradients with these, and they run whenever the library has no fast
// implementation.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/conv_engine.h"

namespace leat {
namespace {

// The outputs [begin, end) along an axis whose input o * stride + offset is inside [0, input).
struct Span {
  int64_t begin = 0, end = 0;
};
Span inside(int64_t offset, int64_t stride, int64_t input, int64_t output) {
  const int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t end = offset >= input ? 0 : (input - 1 - offset) / stride + 1;
  return {std::min(begin, output), std::clamp(end, std::min(begin, output), output)};
}

// kXStep, kYStep: the distance in elements from one position of a plane to the next, which is the
// number of channels in a block.
template <typename T, int kXStep = 1, int kYStep = 1>
class DirectConv final : public ConvEngine {
 public:
  DirectConv(const ConvSpec& spec, std::string reason) : spec_(spec), reason_(std::move(reason)) {}

  bool packs() const override { return false; }
  size_t packed_bytes() const override { return static_cast<size_t>(spec_.weights()) * sizeof(T); }
  int slices() const override { return static_cast<int>(spec_.outputs); }
  Range slice(int i) const override {
    const int64_t size = spec_.weights() / spec_.outputs;
    return {i * size, (i + 1) * size};
  }
  bool pack(const void* weights, void* packed, int i) const override {
    return unpack(weights, packed, i);
  }
  bool unpack(const void* packed, void* weights, int i) const override {
    const Range range = slice(i);
    std::copy(static_cast<const T*>(packed) + range.begin,
              static_cast<const T*>(packed) + range.end, static_cast<T*>(weights) + range.begin);
    return true;
  }
  size_t scratch_bytes() const override { return 0; }

  bool run(void* x, void* w, void* bias, void* y, std::byte*) const override {
    T *tx = static_cast<T*>(x), *tw = static_cast<T*>(w), *tb = static_cast<T*>(bias),
      *ty = static_cast<T*>(y);
    switch (spec_.kind) {
      case ConvKind::forward:
        forward(tx, tw, tb, ty);
        break;
      case ConvKind::backward_data:
        backward_data(tx, tw, ty);
        break;
      case ConvKind::backward_weights:
        backward_weights(tx, tw, tb, ty);
        break;
    }
    return true;
  }

  std::string note() const override {
    return reason_.empty() ? "" : cat("slow plain loops, because ", reason_);
  }

 private:
  // Calls f(element of the kernel, first position in x, in y, number of positions) for each row of
  // outputs and each element of the kernel that contributes to it.
  template <typename F>
  void for_rows(F&& f) const {
    const Window& v = spec_.window;
    int64_t k = 0;
    for (int64_t kd = 0; kd < v.kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < v.kernel[1]; ++kh) {
        for (int64_t kw = 0; kw < v.kernel[2]; ++kw, ++k) {
          const int64_t od = kd * v.dilation[0] - v.begin[0], oh = kh * v.dilation[1] - v.begin[1],
                        ow = kw * v.dilation[2] - v.begin[2];
          const Span d = inside(od, v.stride[0], v.input[0], v.output[0]);
          const Span h = inside(oh, v.stride[1], v.input[1], v.output[1]);
          const Span w = inside(ow, v.stride[2], v.input[2], v.output[2]);
          for (int64_t i = d.begin; i < d.end; ++i) {
            for (int64_t j = h.begin; j < h.end; ++j) {
              const int64_t row = (i * v.stride[0] + od) * v.input[1] + j * v.stride[1] + oh;
              f(k, row * v.input[2] + w.begin * v.stride[2] + ow,
                (i * v.output[1] + j) * v.output[2] + w.begin, w.end - w.begin);
            }
          }
        }
      }
    }
  }

  // The offset of position 0 of a channel. `step` channels are interleaved.
  static int64_t plane(int64_t channel, int64_t area, int step) {
    return channel / step * step * area + channel % step;
  }
  int64_t y_plane(int64_t image, int64_t output) const {
    const int64_t area = spec_.window.output_area();
    return image * spec_.outputs * area + plane(output, area, kYStep);
  }
  // Calls f(input channel within the output's group, its plane of x).
  template <typename F>
  void for_planes(int64_t image, int64_t output, F&& f) const {
    const int64_t per_group = spec_.inputs / spec_.groups, area = spec_.window.input_area();
    const int64_t group = output / (spec_.outputs / spec_.groups);
    for (int64_t input = 0; input < per_group; ++input) {
      f(input, image * spec_.inputs * area + plane(group * per_group + input, area, kXStep));
    }
  }
  const T* kernel(const T* w, int64_t output, int64_t input) const {
    return w + (output * (spec_.inputs / spec_.groups) + input) * spec_.window.kernel_area();
  }

  // An output starts with its bias. Then the input channels are added in order, and of each channel
  // the elements of the kernel.
  void forward(const T* x, const T* w, const T* bias, T* y) const {
    const int64_t stride = spec_.window.stride[2] * kXStep, area = spec_.window.output_area();
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t output = 0; output < spec_.outputs; ++output) {
        T* out = y + y_plane(image, output);
        for (int64_t i = 0; i < area; ++i) out[i * kYStep] = bias ? bias[output] : T{};
        for_planes(image, output, [&](int64_t input, int64_t x_plane) {
          const T* k = kernel(w, output, input);
          for_rows([&](int64_t at, int64_t from, int64_t to, int64_t count) {
            const T *in = x + x_plane + from * kXStep, factor = k[at];
            T* row = out + to * kYStep;
            for (int64_t i = 0; i < count; ++i) row[i * kYStep] += factor * in[i * stride];
          });
        });
        // As in Relu, NaN stays NaN and -0 becomes 0.
        for (int64_t i = 0; spec_.relu && i < area; ++i) {
          T& value = out[i * kYStep];
          value = !(value <= T{}) ? value : T{};
        }
      }
    }
  }

  // Each product of dy and a weight is added to the element of x that the forward pass multiplied
  // with that weight.
  void backward_data(T* x, const T* w, const T* y) const {
    const int64_t stride = spec_.window.stride[2] * kXStep;
    std::fill_n(x, spec_.images * spec_.x_image(), T{});
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t output = 0; output < spec_.outputs; ++output) {
        const T* out = y + y_plane(image, output);
        for_planes(image, output, [&](int64_t input, int64_t x_plane) {
          const T* k = kernel(w, output, input);
          for_rows([&](int64_t at, int64_t from, int64_t to, int64_t count) {
            const T *dy = out + to * kYStep, factor = k[at];
            T* dx = x + x_plane + from * kXStep;
            for (int64_t i = 0; i < count; ++i) dx[i * stride] += factor * dy[i * kYStep];
          });
        });
      }
    }
  }

  // The sum of each row of outputs is added to its weight, in the order of images and rows.
  void backward_weights(const T* x, T* w, T* bias, const T* y) const {
    const int64_t stride = spec_.window.stride[2] * kXStep, area = spec_.window.output_area();
    std::fill_n(w, spec_.weights(), T{});
    if (bias) std::fill_n(bias, spec_.outputs, T{});
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t output = 0; output < spec_.outputs; ++output) {
        const T* out = y + y_plane(image, output);
        for_planes(image, output, [&](int64_t input, int64_t x_plane) {
          T* k = const_cast<T*>(kernel(w, output, input));
          for_rows([&](int64_t at, int64_t from, int64_t to, int64_t count) {
            const T *in = x + x_plane + from * kXStep, *dy = out + to * kYStep;
            T sum{};
            for (int64_t i = 0; i < count; ++i) sum += in[i * stride] * dy[i * kYStep];
            k[at] += sum;
          });
        });
        for (int64_t i = 0; bias && i < area; ++i) bias[output] += out[i * kYStep];
      }
    }
  }

  ConvSpec spec_;
  std::string reason_;
};

}  // namespace

std::unique_ptr<ConvEngine> make_direct_conv(const ConvSpec& spec, std::string reason) {
  if (spec.dtype == DType::f64) {
    return std::make_unique<DirectConv<double>>(spec, std::move(reason));
  }
  // f64 has no blocked layout.
  constexpr int kBlock = 16;  // of Layout::channels16
  const bool x = spec.x_layout != Layout::plain, y = spec.y_layout != Layout::plain;
  if (x && y) return std::make_unique<DirectConv<float, kBlock, kBlock>>(spec, std::move(reason));
  if (x) return std::make_unique<DirectConv<float, kBlock, 1>>(spec, std::move(reason));
  if (y) return std::make_unique<DirectConv<float, 1, kBlock>>(spec, std::move(reason));
  return std::make_unique<DirectConv<float>>(spec, std::move(reason));
}

}  // namespace leat
