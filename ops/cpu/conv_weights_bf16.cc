#include "ops/cpu/conv_weights_bf16.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "devices/base/align.h"
#include "devices/base/dtype.h"
#include "ops/cpu/library_failure.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/transpose16.h"

namespace leat {
namespace {

constexpr int64_t kBlockChannels = 16;                   // channels of a block of channels16
constexpr int64_t kStripRows = 32;                       // output channels of a strip
constexpr int64_t kBlockColumns = 512;                   // of a block, about
constexpr int64_t kMostMatrixBytes = int64_t{64} << 20;  // of the matrix of x
// Pixels over all images. oneDNN's own kernels for a stride are slower, so that the product pays
// for more of them.
constexpr int64_t kMostPixels = 4096, kMostStridedPixels = 8192;

// The matrix of x has a row for each pixel of y, and for each block of channels and each tap 16
// columns: the channels of the block at the pixel that the tap reads, or zeros outside. These zeros
// are multiplied, so that an infinite gradient of a pixel at the border makes NaN of such taps.
class PixelRows {
 public:
  explicit PixelRows(const ConvSpec& spec) : spec_(spec) {
    const Window& w = spec.window;
    for (int64_t d = 0; d < w.output[0]; ++d) {
      for (int64_t h = 0; h < w.output[1]; ++h) {
        for (int64_t v = 0; v < w.output[2]; ++v) add_taps({d, h, v});
      }
    }
  }

  // Writes the columns of the channel blocks [first, end): [pixels, (end - first) * taps * 16].
  void write(const BFloat16* x, int64_t first, int64_t end, BFloat16* to) const {
    const int64_t taps = spec_.window.kernel_area(), area = spec_.window.input_area();
    const int64_t blocks = spec_.inputs / kBlockChannels;
    for (int64_t image = 0; image < spec_.images; ++image) {
      const BFloat16* of_image = x + image * blocks * area * kBlockChannels;
      for (size_t at = 0; at < offsets_.size(); at += static_cast<size_t>(taps)) {
        for (int64_t block = first; block < end; ++block) {
          const BFloat16* from = of_image + block * area * kBlockChannels;
          for (int64_t tap = 0; tap < taps; ++tap, to += kBlockChannels) {
            const int64_t offset = offsets_[at + static_cast<size_t>(tap)];
            if (offset < 0) {
              std::memset(to, 0, kBlockChannels * sizeof(BFloat16));
            } else {
              std::memcpy(to, from + offset * kBlockChannels, kBlockChannels * sizeof(BFloat16));
            }
          }
        }
      }
    }
  }

 private:
  void add_taps(const std::array<int64_t, 3>& output) {
    const Window& w = spec_.window;
    std::array<int64_t, 3> k{};
    for (k[0] = 0; k[0] < w.kernel[0]; ++k[0]) {
      for (k[1] = 0; k[1] < w.kernel[1]; ++k[1]) {
        for (k[2] = 0; k[2] < w.kernel[2]; ++k[2]) {
          int64_t offset = 0;
          for (size_t axis = 0; axis < 3; ++axis) {
            const int64_t in =
                output[axis] * w.stride[axis] - w.begin[axis] + k[axis] * w.dilation[axis];
            const bool inside = offset >= 0 && in >= 0 && in < w.input[axis];
            offset = inside ? offset * w.input[axis] + in : -1;
          }
          offsets_.push_back(offset);
        }
      }
    }
  }

  const ConvSpec spec_;
  std::vector<int64_t> offsets_;  // the pixel of x for each pixel of y and each tap; -1: outside
};

// Phase 0 makes the blocks of columns of the matrix of x, packed by the library, and the strips of
// rows of y, transposed. Phase 1 has a tile for each strip and block; those of one block follow
// each other, so that it stays in the cache.
class WeightsProductKernel final : public Kernel {
 public:
  WeightsProductKernel(const ConvSpec& spec, ConvOperands operands)
      : spec_(spec),
        operands_(operands),
        pixels_(spec),
        rows_(spec.outputs % (2 * kStripRows) == 0 ? 2 * kStripRows : kStripRows),
        depth_(spec.images * spec.window.output_area()),
        taps_(spec.window.kernel_area()),
        blocks_of_channels_(spec.inputs / kBlockChannels),
        channels_(std::clamp<int64_t>(
            (kBlockColumns + taps_ * kBlockChannels / 2) / (taps_ * kBlockChannels), 1,
            blocks_of_channels_)) {}

  Status make_products() {
    for (const int64_t channels : {channels_, channels_of(blocks() - 1)}) {
      const int64_t n = channels * taps_ * kBlockChannels;
      LEAT_ASSIGN_OR_RETURN(auto made, onednn::make_bf16_product(
                                           {false, false, rows_, n, depth_, depth_, n, n}, true));
      packed_bytes_ = std::max(packed_bytes_, align_up(made->packed_bytes(), 64));
      library_scratch_ = std::max(library_scratch_, made->scratch_bytes());
      products_.push_back(std::move(made));
    }
    return {};
  }

  int phases() const override { return 2; }
  int tiles(int phase) const override {
    return static_cast<int>(phase == 0 ? blocks() + strips() : blocks() * strips());
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(blocks()) * packed_bytes_ +
           static_cast<size_t>(strips()) * strip_bytes();
  }
  // The library's, and before it a block of columns in phase 0, or a box of the gradient.
  size_t scratch_bytes() const override { return own_scratch() + library_scratch_; }

  Progress run(KernelContext& context, int phase, int tile) override {
    const bool ok = phase == 0 ? prepare(context, tile) : compute(context, tile);
    return ok ? Progress::done : library_failed(context, "multiply");
  }

 private:
  int64_t blocks() const { return tile_count(blocks_of_channels_, channels_); }
  int64_t strips() const { return spec_.outputs / rows_; }
  // The blocks of channels in a block of columns.
  int64_t channels_of(int64_t block) const {
    return std::min(channels_, blocks_of_channels_ - block * channels_);
  }
  const onednn::Bf16Product& product(int64_t block) const {
    return *products_[channels_of(block) == channels_ ? 0 : 1];
  }
  size_t strip_bytes() const {
    return align_up(static_cast<size_t>(rows_ * depth_) * sizeof(BFloat16), 64);
  }
  size_t own_scratch() const {
    const auto columns = static_cast<size_t>(channels_ * taps_ * kBlockChannels);
    return align_up(std::max(columns * static_cast<size_t>(depth_) * sizeof(BFloat16),
                             columns * static_cast<size_t>(rows_) * sizeof(float)),
                    64);
  }
  std::byte* packed(const KernelContext& context, int64_t block) const {
    return context.workspace + static_cast<size_t>(block) * packed_bytes_;
  }
  BFloat16* strip(const KernelContext& context, int64_t index) const {
    return reinterpret_cast<BFloat16*>(context.workspace +
                                       static_cast<size_t>(blocks()) * packed_bytes_ +
                                       static_cast<size_t>(index) * strip_bytes());
  }

  bool prepare(const KernelContext& context, int64_t tile) const {
    if (tile >= blocks()) {
      transpose(context, tile - blocks());
      return true;
    }
    auto* columns = reinterpret_cast<BFloat16*>(context.scratch);
    const int64_t first = tile * channels_;
    pixels_.write(context.in<BFloat16>(operands_.x), first, first + channels_of(tile), columns);
    return product(tile).pack(columns, packed(context, tile), context.scratch + own_scratch());
  }

  // Writes rows_ channels of y as rows, and their sums over all pixels if the bias is wanted.
  void transpose(const KernelContext& context, int64_t index) const {
    const int64_t area = spec_.window.output_area(), blocks = spec_.outputs / kBlockChannels;
    const auto* y = context.in<uint16_t>(operands_.y);
    auto* to = reinterpret_cast<uint16_t*>(strip(context, index));
    for (int64_t part = 0; part < rows_ / kBlockChannels; ++part) {
      const int64_t block = index * (rows_ / kBlockChannels) + part;
      float* bias =
          spec_.bias ? context.out<float>(operands_.bias) + block * kBlockChannels : nullptr;
      if (bias) std::fill_n(bias, kBlockChannels, 0.0f);
      for (int64_t image = 0; image < spec_.images; ++image) {
        const uint16_t* from = y + (image * blocks + block) * area * kBlockChannels;
        // The caller has asked for AVX-512.
        (void)transpose_avx512(from, kBlockChannels,
                               to + part * kBlockChannels * depth_ + image * area, depth_,
                               kBlockChannels, area);
        if (bias) add_to(bias, from, area);
      }
    }
  }
  static void add_to(float* bias, const uint16_t* from, int64_t area) {
    float sums[kBlockChannels] = {};
    for (int64_t i = 0; i < area; ++i) {
      for (int64_t lane = 0; lane < kBlockChannels; ++lane)
        sums[lane] += to_float(BFloat16{from[i * kBlockChannels + lane]});
    }
    for (int64_t lane = 0; lane < kBlockChannels; ++lane) bias[lane] += sums[lane];
  }

  // A box of the gradient, [rows_, blocks of channels, taps, 16], and its way to [.., 16, taps].
  bool compute(const KernelContext& context, int64_t tile) const {
    const int64_t index = tile % strips(), block = tile / strips();
    auto* box = reinterpret_cast<float*>(context.scratch);
    if (!product(block).run(strip(context, index), packed(context, block), box,
                            context.scratch + own_scratch()))
      return false;
    const int64_t channels = channels_of(block), size = taps_ * kBlockChannels;
    float* w = context.out<float>(operands_.w);
    for (int64_t row = 0; row < rows_; ++row) {
      float* to = w + ((index * rows_ + row) * blocks_of_channels_ + block * channels_) * size;
      for (int64_t each = 0; each < channels; ++each) {
        (void)transpose_nx16_avx512(
            reinterpret_cast<const uint32_t*>(box + (row * channels + each) * size),
            reinterpret_cast<uint32_t*>(to + each * size), taps_);
      }
    }
    return true;
  }

  const ConvSpec spec_;
  const ConvOperands operands_;
  const PixelRows pixels_;
  const int64_t rows_;   // of a strip
  const int64_t depth_;  // the pixels of y over all images, which a product sums over
  const int64_t taps_, blocks_of_channels_;
  const int64_t channels_;  // the blocks of channels of a block of columns, but for the last one
  std::vector<std::unique_ptr<onednn::Bf16Product>> products_;
  size_t packed_bytes_ = 0, library_scratch_ = 0;
};

}  // namespace

bool conv_weights_product_fits(const ConvSpec& spec) {
  const int64_t depth = spec.images * spec.window.output_area();
  const bool strided = std::ranges::any_of(spec.window.stride, [](int64_t s) { return s > 1; });
  const auto bytes = static_cast<int64_t>(sizeof(BFloat16));
  return spec.kind == ConvKind::backward_weights && spec.dtype == DType::bf16 && spec.groups == 1 &&
         spec.inputs % kBlockChannels == 0 && spec.outputs % kStripRows == 0 &&
         spec.x_layout == Layout::channels16 && spec.y_layout == Layout::channels16 && depth > 0 &&
         depth <= (strided ? kMostStridedPixels : kMostPixels) &&
         depth * spec.inputs * spec.window.kernel_area() * bytes <= kMostMatrixBytes;
}

Result<std::unique_ptr<Kernel>> make_conv_weights_product(const ConvSpec& spec,
                                                          ConvOperands operands) {
  if (!onednn::has_avx512()) return unimplemented("no AVX-512");
  auto kernel = std::make_unique<WeightsProductKernel>(spec, operands);
  LEAT_RETURN_IF_ERROR(kernel->make_products());
  return std::unique_ptr<Kernel>(std::move(kernel));
}

}  // namespace leat
