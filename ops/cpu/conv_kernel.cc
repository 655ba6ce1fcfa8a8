#include "ops/cpu/conv_kernel.h"

#include <algorithm>
#include <cstring>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/conv_depthwise.h"
#include "ops/cpu/conv_few_channels.h"
#include "ops/cpu/conv_weights_1x1.h"
#include "ops/cpu/conv_weights_bf16.h"
#include "ops/cpu/conv_winograd.h"
#include "ops/cpu/library_failure.h"
#include "ops/cpu/onednn.h"
#include "ops/graph/kernel_note.h"

namespace leat {
namespace {

Progress conv_failed(KernelContext& context) {
  return library_failed(context, "run a convolution");
}

// Engines for tiles of `tile` images out of `total`: one for whole tiles, and one for a smaller
// last tile.
struct Engines {
  std::unique_ptr<ConvEngine> whole, last;
  int64_t tile = 0, total = 0;

  int tiles() const { return tile_count(total, tile); }
  const ConvEngine& of(int i) const { return last && i + 1 == tiles() ? *last : *whole; }
  size_t scratch_bytes() const {
    return std::max(whole->scratch_bytes(), last ? last->scratch_bytes() : 0);
  }
};

// The engine of the last tile is made `like` the first one, so that both read the same packed
// weights.
Result<Engines> make_engines(ConvSpec spec, int64_t tile) {
  Engines engines;
  engines.total = spec.images;
  engines.tile = std::clamp<int64_t>(tile, 1, std::max<int64_t>(1, spec.images));
  const int64_t rest = engines.total % engines.tile;
  spec.images = engines.tile;
  // Only the library has engines for bf16.
  if (spec.dtype == DType::bf16) {
    LEAT_ASSIGN_OR_RETURN(engines.whole, onednn::make_conv(spec, nullptr));
    spec.images = rest;
    if (rest == 0) return engines;
    LEAT_ASSIGN_OR_RETURN(engines.last, onednn::make_conv(spec, engines.whole.get()));
    return engines;
  }
  engines.whole = make_conv_engine(spec);
  if (rest == 0) return engines;
  spec.images = rest;
  engines.last = make_conv_engine(spec, engines.whole.get());
  if (engines.last->packs() == engines.whole->packs()) return engines;
  // Both engines must read the same packed weights.
  const std::string reason = (engines.whole->packs() ? engines.last : engines.whole)->note();
  engines.last = make_direct_conv(spec, reason);
  spec.images = engines.tile;
  engines.whole = make_direct_conv(spec, reason);
  return engines;
}

// Conv, ConvTranspose and leat.ConvGradInput. If the engine packs weights, phase 0 packs them into
// the workspace, slice by slice; the last phase runs tiles of images.
class RowsKernel final : public Kernel, public NotedKernel {
 public:
  RowsKernel(const ConvSpec& spec, Engines engines, ConvOperands operands, bool added_bias)
      : spec_(spec), engines_(std::move(engines)), operands_(operands), added_bias_(added_bias) {}

  int phases() const override { return engines_.whole->packs() ? 2 : 1; }
  int row_phase() const override { return phases() - 1; }
  int tiles(int phase) const override {
    return phase < row_phase() ? engines_.whole->slices() : engines_.tiles();
  }
  size_t workspace_bytes() const override {
    return engines_.whole->packs() ? engines_.whole->packed_bytes() : 0;
  }
  size_t scratch_bytes() const override { return engines_.scratch_bytes(); }
  std::string note() const override { return engines_.whole->note(); }

  Progress run(KernelContext& context, int phase, int tile) override {
    void* weights = context.inputs[operands_.w];
    if (phase < row_phase()) {
      return engines_.whole->pack(weights, context.workspace, tile) ? Progress::done
                                                                    : conv_failed(context);
    }
    // An empty batch still has one tile, in which there is nothing to compute.
    if (engines_.total == 0) return Progress::done;
    // The kind decides which of x and y is the output. The same address arithmetic serves both.
    const bool forward = spec_.kind == ConvKind::forward;
    const size_t size = dtype_size(spec_.dtype);
    const auto at = [&](void* base, int64_t image) {
      return static_cast<std::byte*>(base) +
             static_cast<size_t>(tile * engines_.tile * image) * size;
    };
    void* x =
        at(forward ? context.inputs[operands_.x] : context.outputs[operands_.x], spec_.x_image());
    void* y =
        at(forward ? context.outputs[operands_.y] : context.inputs[operands_.y], spec_.y_image());
    void* bias = spec_.bias ? context.inputs[operands_.bias] : nullptr;
    void* w = engines_.whole->packs() ? static_cast<void*>(context.workspace) : weights;
    if (!engines_.of(tile).run(x, w, bias, y, context.scratch)) return conv_failed(context);
    if (added_bias_) {
      const int64_t images = std::min(engines_.tile, engines_.total - tile * engines_.tile);
      if (spec_.dtype == DType::f64)
        add_bias<double>(x, context.inputs[operands_.bias], images);
      else
        add_bias<float>(x, context.inputs[operands_.bias], images);
    }
    return Progress::done;
  }

 private:
  template <typename T>
  void add_bias(void* x, const void* bias, int64_t images) const {
    const int64_t area = spec_.window.input_area();
    for (int64_t plane = 0; plane < images * spec_.inputs; ++plane) {
      const T value = static_cast<const T*>(bias)[plane % spec_.inputs];
      T* to = static_cast<T*>(x) + plane * area;
      for (int64_t i = 0; i < area; ++i) to[i] += value;
    }
  }

  ConvSpec spec_;
  Engines engines_;
  ConvOperands operands_;
  bool added_bias_;
};

// Each tile of images writes a partial sum; then the parts are summed in a tree, slice by slice.
// The parts lie one after the other in the workspace: packed weights, then the bias, each aligned
// to 64 bytes. The tile size follows from the shapes, so the number of parts does too.
template <typename T>
class PartialSumKernel final : public Kernel, public NotedKernel {
 public:
  PartialSumKernel(const ConvSpec& spec, Engines engines, ConvOperands operands)
      : spec_(spec),
        engines_(std::move(engines)),
        operands_(operands),
        weights_bytes_(align_up(engines_.whole->packed_bytes(), 64)),
        part_bytes_(weights_bytes_ +
                    (spec.bias ? align_up(static_cast<size_t>(spec.outputs) * sizeof(T), 64) : 0)) {
  }

  // Phase 1 has one tile for each slice of the weights, and one more for the bias.
  int phases() const override { return 2; }
  int tiles(int phase) const override {
    return phase == 0 ? engines_.tiles() : engines_.whole->slices() + (spec_.bias ? 1 : 0);
  }
  size_t workspace_bytes() const override {
    return part_bytes_ * static_cast<size_t>(engines_.tiles());
  }
  size_t scratch_bytes() const override { return engines_.scratch_bytes(); }
  std::string note() const override { return engines_.whole->note(); }

  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 1) return combine(context, tile);
    // Without an image, one part of zeros is summed and unpacked: the gradient is zero.
    if (engines_.total == 0) {
      std::memset(context.workspace, 0, part_bytes_);
      return Progress::done;
    }
    std::byte* part = context.workspace + static_cast<size_t>(tile) * part_bytes_;
    const auto image = [&](int operand, int64_t elements) {
      return static_cast<std::byte*>(context.inputs[operand]) +
             static_cast<size_t>(tile * engines_.tile * elements) * dtype_size(spec_.dtype);
    };
    void *x = image(operands_.x, spec_.x_image()), *y = image(operands_.y, spec_.y_image());
    void* bias = spec_.bias ? part + weights_bytes_ : nullptr;
    return engines_.of(tile).run(x, part, bias, y, context.scratch) ? Progress::done
                                                                    : conv_failed(context);
  }

 private:
  // Sums a slice of all parts into part 0, and unpacks it from there. No two tiles touch the same
  // elements.
  Progress combine(KernelContext& context, int tile) const {
    T* parts = reinterpret_cast<T*>(context.workspace);
    const auto stride = static_cast<int64_t>(part_bytes_ / sizeof(T));
    if (tile == engines_.whole->slices()) {
      const auto begin = static_cast<int64_t>(weights_bytes_ / sizeof(T));
      sum(parts, stride, {begin, begin + spec_.outputs});
      std::memcpy(context.outputs[operands_.bias], parts + begin,
                  static_cast<size_t>(spec_.outputs) * sizeof(T));
      return Progress::done;
    }
    sum(parts, stride, engines_.whole->slice(tile));
    const bool ok = engines_.whole->unpack(parts, context.outputs[operands_.w], tile);
    return ok ? Progress::done : conv_failed(context);
  }
  void sum(T* parts, int64_t stride, ConvEngine::Range range) const {
    constexpr int64_t kChunk = 2048;  // of each part, so that the running sums stay in the cache
    for (int64_t e = range.begin; e < range.end; e += kChunk) {
      tree_sum(parts, engines_.tiles(), stride, e, std::min(e + kChunk, range.end));
    }
  }

  ConvSpec spec_;
  Engines engines_;
  ConvOperands operands_;
  size_t weights_bytes_, part_bytes_;
};

// Each tile computes the weights of some output channels from the whole batch. It first copies its
// channels of y, because the library is slow on a slice in place.
class ChannelsKernel final : public Kernel, public NotedKernel {
 public:
  ChannelsKernel(const ConvSpec& spec, std::unique_ptr<ConvEngine> engine, ConvOperands operands)
      : spec_(spec),
        engine_(std::move(engine)),
        operands_(operands),
        slice_bytes_(
            align_up(static_cast<size_t>(spec.images * kSliceOutputs * spec.window.output_area()) *
                         dtype_size(spec.dtype),
                     64)) {}

  // The channels are a multiple of kSliceOutputs, which weights_by_channels() checks.
  int tiles(int) const override { return static_cast<int>(spec_.outputs / kSliceOutputs); }
  size_t scratch_bytes() const override {
    return slice_bytes_ + align_up(engine_->packed_bytes(), 64) + engine_->scratch_bytes();
  }
  std::string note() const override { return engine_->note(); }

  // The scratch memory has the tile's channels of y, the packed gradients, and the engine's own
  // scratch.
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t first = tile * kSliceOutputs;
    const auto bytes = [&](int64_t elements) {
      return static_cast<size_t>(elements) * dtype_size(spec_.dtype);
    };
    const size_t slice = bytes(kSliceOutputs * spec_.window.output_area());
    std::byte* y = context.scratch;
    const std::byte* whole = static_cast<const std::byte*>(context.inputs[operands_.y]) +
                             bytes(first * spec_.window.output_area());
    for (int64_t image = 0; image < spec_.images; ++image) {
      std::memcpy(y + static_cast<size_t>(image) * slice, whole + bytes(image * spec_.y_image()),
                  slice);
    }
    std::byte* packed = context.scratch + slice_bytes_;
    std::byte* scratch = packed + align_up(engine_->packed_bytes(), 64);
    float* bias =
        spec_.bias ? static_cast<float*>(context.outputs[operands_.bias]) + first : nullptr;
    if (!engine_->run(context.inputs[operands_.x], packed, bias, y, scratch))
      return conv_failed(context);
    float* w = static_cast<float*>(context.outputs[operands_.w]) +
               first * (spec_.weights() / spec_.outputs);
    // The slice of output channels is contiguous in the weights, so the engine unpacks to its
    // place.
    for (int i = 0; i < engine_->slices(); ++i) {
      if (!engine_->unpack(packed, w, i)) return conv_failed(context);
    }
    return Progress::done;
  }

 private:
  ConvSpec spec_;
  std::unique_ptr<ConvEngine> engine_;
  ConvOperands operands_;
  size_t slice_bytes_;
};

}  // namespace

std::unique_ptr<ConvEngine> make_conv_engine(const ConvSpec& spec, const ConvEngine* like) {
  // The order is that of speed: Winograd if the caller decided for it, the loops for few channels
  // and for depthwise ones, oneDNN. If oneDNN refuses, plain loops run, and their note names the
  // reason.
  if (spec.winograd) return make_winograd_conv(spec);
  if (auto engine = make_few_channels_conv(spec)) return engine;
  if (auto engine = make_depthwise_conv(spec)) return engine;
  // An engine must have the packed format of `like`, and plain loops pack nothing.
  if (spec.images == 0 || (like && !like->packs())) return make_direct_conv(spec);
  if (spec.dtype != DType::f32) {
    return make_direct_conv(spec, cat("oneDNN has none for ", spec.dtype));
  }
  auto engine = onednn::make_conv(spec, like);
  if (engine.ok()) return std::move(*engine);
  return make_direct_conv(spec, engine.status().message());
}

Result<std::unique_ptr<Kernel>> make_conv_rows_kernel(const KernelSetup& setup, ConvSpec spec,
                                                      ConvOperands operands, bool added_bias) {
  // This is decided for the whole batch and not for a tile, so that all tiles use one algorithm.
  spec.winograd = winograd_is_faster(spec);
  const int64_t tile =
      setup.tile_rows > 0 ? setup.tile_rows : conv_tile_images(spec.images, spec.multiply_adds());
  LEAT_ASSIGN_OR_RETURN(Engines engines, make_engines(spec, tile));
  return std::unique_ptr<Kernel>(
      std::make_unique<RowsKernel>(spec, std::move(engines), operands, added_bias));
}

Result<std::unique_ptr<Kernel>> make_conv_weights_kernel(const KernelSetup& setup, ConvSpec spec,
                                                         ConvOperands operands) {
  spec.winograd = winograd_is_faster(spec);
  if (weights_by_channels(spec)) {
    if (onednn::has_tiles() && conv_weights_product_fits(spec)) {
      auto kernel = make_conv_weights_product(spec, operands);
      if (kernel.status().code() != Code::unimplemented) return kernel;
    }
    if (conv_weights_1x1_fits(spec)) return make_conv_weights_1x1(spec, operands);
    ConvSpec slice = spec;
    slice.outputs = kSliceOutputs;
    LEAT_ASSIGN_OR_RETURN(Engines engines, make_engines(slice, slice.images));
    return std::unique_ptr<Kernel>(
        std::make_unique<ChannelsKernel>(spec, std::move(engines.whole), operands));
  }
  // A chain gives the number of images that the op's fixed_rows demands, so the partial sums are
  // the same with a chain and without one.
  const int64_t tile = setup.tile_rows > 0 ? setup.tile_rows : conv_weights_tile_images(spec);
  LEAT_ASSIGN_OR_RETURN(Engines engines, make_engines(spec, tile));
  if (spec.dtype == DType::f64) {
    return std::unique_ptr<Kernel>(
        std::make_unique<PartialSumKernel<double>>(spec, std::move(engines), operands));
  }
  return std::unique_ptr<Kernel>(
      std::make_unique<PartialSumKernel<float>>(spec, std::move(engines), operands));
}

}  // namespace leat
