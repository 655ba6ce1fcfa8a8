// Convolutions by plain loops: every geometry, f32 and f64, in the order of the definition. What
// gradients are checked with, and what runs where the library has nothing.
#include <algorithm>
#include <cstring>

#include "ops/conv_engine.h"

namespace leat {
namespace {

// Outputs [begin, end) along an axis whose input o * stride + offset is inside [0, input).
struct Span {
  int64_t begin = 0, end = 0;
};
Span inside(int64_t offset, int64_t stride, int64_t input, int64_t output) {
  const int64_t begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t end = offset >= input ? 0 : (input - 1 - offset) / stride + 1;
  return {std::min(begin, output), std::clamp(end, std::min(begin, output), output)};
}

template <typename T>
class DirectConv final : public ConvEngine {
 public:
  explicit DirectConv(const ConvSpec& spec) : spec_(spec) {}

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

 private:
  // Calls f(element of the kernel, row of x, row of y, first o, number of o) for each row of
  // outputs and each element of the kernel that reaches it.
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

  // Calls f(image, output channel, input channel within its group, plane of x, plane of y).
  template <typename F>
  void for_planes(int64_t image, int64_t output, F&& f) const {
    const int64_t per_group = spec_.inputs / spec_.groups;
    const int64_t group = output / (spec_.outputs / spec_.groups);
    for (int64_t input = 0; input < per_group; ++input) {
      f(input, (image * spec_.inputs + group * per_group + input) * spec_.window.input_area(),
        (image * spec_.outputs + output) * spec_.window.output_area());
    }
  }
  const T* kernel(const T* w, int64_t output, int64_t input) const {
    return w + (output * (spec_.inputs / spec_.groups) + input) * spec_.window.kernel_area();
  }

  void forward(const T* x, const T* w, const T* bias, T* y) const {
    const int64_t stride = spec_.window.stride[2], area = spec_.window.output_area();
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t output = 0; output < spec_.outputs; ++output) {
        T* plane = y + (image * spec_.outputs + output) * area;
        std::fill_n(plane, area, bias ? bias[output] : T{});
        for_planes(image, output, [&](int64_t input, int64_t x_plane, int64_t) {
          const T* k = kernel(w, output, input);
          for_rows([&](int64_t at, int64_t from, int64_t to, int64_t count) {
            const T *in = x + x_plane + from, factor = k[at];
            for (int64_t i = 0; i < count; ++i) plane[to + i] += factor * in[i * stride];
          });
        });
        if (spec_.relu) {
          for (int64_t i = 0; i < area; ++i) plane[i] = !(plane[i] <= T{}) ? plane[i] : T{};
        }
      }
    }
  }

  void backward_data(T* x, const T* w, const T* y) const {
    const int64_t stride = spec_.window.stride[2];
    std::fill_n(x, spec_.images * spec_.x_image(), T{});
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t output = 0; output < spec_.outputs; ++output) {
        for_planes(image, output, [&](int64_t input, int64_t x_plane, int64_t y_plane) {
          const T* k = kernel(w, output, input);
          for_rows([&](int64_t at, int64_t from, int64_t to, int64_t count) {
            const T *dy = y + y_plane + to, factor = k[at];
            T* dx = x + x_plane + from;
            for (int64_t i = 0; i < count; ++i) dx[i * stride] += factor * dy[i];
          });
        });
      }
    }
  }

  void backward_weights(const T* x, T* w, T* bias, const T* y) const {
    const int64_t stride = spec_.window.stride[2], area = spec_.window.output_area();
    std::fill_n(w, spec_.weights(), T{});
    if (bias) std::fill_n(bias, spec_.outputs, T{});
    for (int64_t image = 0; image < spec_.images; ++image) {
      for (int64_t output = 0; output < spec_.outputs; ++output) {
        for_planes(image, output, [&](int64_t input, int64_t x_plane, int64_t y_plane) {
          T* k = const_cast<T*>(kernel(w, output, input));
          for_rows([&](int64_t at, int64_t from, int64_t to, int64_t count) {
            const T *in = x + x_plane + from, *dy = y + y_plane + to;
            T sum{};
            for (int64_t i = 0; i < count; ++i) sum += in[i * stride] * dy[i];
            k[at] += sum;
          });
        });
        if (!bias) continue;
        const T* plane = y + (image * spec_.outputs + output) * area;
        for (int64_t i = 0; i < area; ++i) bias[output] += plane[i];
      }
    }
  }

  ConvSpec spec_;
};

}  // namespace

std::unique_ptr<ConvEngine> make_direct_conv(const ConvSpec& spec) {
  if (spec.dtype == DType::f64) return std::make_unique<DirectConv<double>>(spec);
  return std::make_unique<DirectConv<float>>(spec);
}

}  // namespace leat
