#include <algorithm>
#include <cmath>

#include "ops/cpu/batch_norm_loops.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/cpu/normalization_kernels.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

enum class Form : uint8_t {
  lines,    // plain planes of more than one element: a leaf is (part of) a line of one channel
  rows,     // planes of one element: a leaf is kRowBlock samples of all channels
  blocked,  // channels16: a leaf is up to kBlockedPositions positions of 16 channels
};

// The leaves of the samples of a channel. A unit is the work of one step of a tile.
struct BatchShape {
  BatchShape(const KernelSetup& setup, int input) {
    const Shape& shape = setup.input(input).shape;
    samples = shape[0];
    channels = shape[1];
    area = shape.elements(2, shape.rank());
    form = area == 1                                         ? Form::rows
           : setup.input(input).layout == Layout::channels16 ? Form::blocked
                                                             : Form::lines;
    // A leaf is `span` elements of a channel; a sample has `parts` leaves for each channel. The
    // leaves follow from the shape, so neither tiles nor threads change the tree.
    span = form == Form::lines ? kLineBlock : form == Form::blocked ? kBlockedPositions : kRowBlock;
    parts = form == Form::rows ? 1 : (area + span - 1) / span;
    units = form == Form::rows ? (samples + span - 1) / span : samples;
    leaves = units * parts;
    const int64_t unit_elements = form == Form::rows ? span * channels : channels * area;
    // The phases that measure have tiles of units; the phase of rows has those of the chain, if
    // there is one.
    tile_units = default_tile_rows(units, unit_elements);
    tile_rows = setup.tile_rows > 0 ? setup.tile_rows : default_tile_rows(samples, channels * area);
  }
  int64_t total() const { return samples * area; }
  // The number of elements of one channel in a leaf.
  int64_t leaf_size(int64_t leaf) const {
    const int64_t whole = form == Form::rows ? samples : area;
    return std::min(span, whole - leaf % (form == Form::rows ? leaves : parts) * span);
  }

  int64_t samples, channels, area;
  Form form;
  int64_t span, parts, units, leaves, tile_units, tile_rows;
};

constexpr int64_t kChannelTile = 64;
static_assert(kLineBlock >= 16 * kBlockedPositions);  // a blocked leaf fits the buffer of a line

// The workspace: two arrays with one value per (leaf, channel), then some with one per channel.
template <typename A>
struct Workspace {
  const BatchShape& at;
  std::byte* memory;
  static size_t bytes(const BatchShape& at, int parameters) {
    return static_cast<size_t>((2 * at.leaves + parameters) * at.channels) * sizeof(A);
  }
  A* leaf(int64_t leaf, int which) const {
    return reinterpret_cast<A*>(memory) + (2 * leaf + which) * at.channels;
  }
  A* parameter(int i) const {
    return reinterpret_cast<A*>(memory) + (2 * at.leaves + i) * at.channels;
  }
};

// The operands with one element per channel: scale, bias and statistics, of any float dtype. They
// are read in double, whatever their dtype.
struct Parameters {
  std::vector<OperandType> inputs, outputs;

  double read(const KernelContext& context, int input, int64_t c) const {
    return float_at(context.inputs[input], inputs[static_cast<size_t>(input)].dtype, c);
  }
  // Writes one value of an output; does nothing if the op has no such output.
  void write(const KernelContext& context, int output, int64_t c, double value) const {
    const auto i = static_cast<size_t>(output);
    if (i >= outputs.size() || !outputs[i].present) return;
    set_float_at(context.outputs[output], outputs[i].dtype, c, value);
  }
};

// Loads contiguous elements as the type for computations.
template <typename T>
const Compute<T>* loaded(const T* from, int64_t n, Compute<T>* buffer) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    return from;
  } else {
    widen(from, buffer, n);
    return buffer;
  }
}

// Calls write(lines of the result's type), through a buffer if that is not the compute type.
template <typename T, typename F>
void written(T* to, int64_t n, Compute<T>* buffer, F&& write) {
  if constexpr (std::is_same_v<T, Compute<T>>) {
    write(to);
  } else {
    write(buffer);
    narrow(buffer, to, n);
  }
}

// The scratch memory for two loaded leaves; none if elements have the compute type already.
template <typename T>
size_t buffer_bytes(const BatchShape& at) {
  if (std::is_same_v<T, Compute<T>>) return 0;
  const int64_t leaf = at.form == Form::rows ? kRowBlock * at.channels : kLineBlock;
  return static_cast<size_t>(2 * leaf) * sizeof(Compute<T>);
}

// Count, mean and sum of squared deviations, merged as in T. F. Chan, G. H. Golub, R. J. LeVeque,
// "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances", 1979.
struct Moments {
  double count = 0, mean = 0, squares = 0;
};
Moments merge(const Moments& a, const Moments& b) {
  Moments out;
  out.count = a.count + b.count;
  const double delta = b.mean - a.mean;
  out.mean = a.mean + delta * (b.count / out.count);
  out.squares = a.squares + b.squares + delta * delta * (a.count * b.count / out.count);
  return out;
}

// Merges leaf(i) of [begin, end) in the tree that splits at the largest power of two. REQUIRES:
// begin < end.
template <typename F, typename M>
auto fold_leaves(int64_t begin, int64_t end, F&& leaf, M&& put_together) -> decltype(leaf(begin)) {
  if (end - begin == 1) return leaf(begin);
  const auto half = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(end - begin - 1)));
  const auto left = fold_leaves(begin, begin + half, leaf, put_together);
  return put_together(left, fold_leaves(begin + half, end, leaf, put_together));
}

// Calls f(first element, first channel, size) for each contiguous stretch of a row's output: a part
// of a line of one channel, all channels of a sample, or a part of 16 channels.
template <typename F>
void each_stretch(const BatchShape& at, int64_t row, F&& f) {
  const int64_t base = row * at.channels * at.area;
  if (at.form == Form::rows) return f(base, 0, at.channels);
  // In channels16, the 16 channels of a block lie next to each other at each position.
  const int64_t wide = at.form == Form::blocked ? 16 : 1;
  for (int64_t c = 0; c < at.channels; c += wide) {
    for (int64_t s = 0; s < at.area; s += at.span) {
      f(base + c * at.area + s * wide, c, std::min(at.span, at.area - s));
    }
  }
}

// y = (x - mean) * factor + bias, with factor = scale / sqrt(variance + epsilon). In training,
// phase 0 measures the leaves; then channels are finished, and the last phase writes rows of y.
template <typename T>
class BatchNormKernel final : public Kernel {
  using A = Compute<T>;
  enum { kMean, kFactor, kBias, kParameters };

 public:
  explicit BatchNormKernel(const KernelSetup& setup)
      : at_(setup, 0),
        training_(attr_int(setup.attrs(), "training_mode") != 0),
        unbiased_(attr_int(setup.attrs(), "leat_unbiased") != 0),
        epsilon_(attr_float(setup.attrs(), "epsilon", 1e-5)),
        momentum_(attr_float(setup.attrs(), "momentum", 0.9)),
        parameters_{setup.types.inputs, setup.types.outputs} {}
  int phases() const override { return training_ ? 3 : 2; }
  int row_phase() const override { return phases() - 1; }
  int tiles(int phase) const override {
    if (phase == row_phase()) return tile_count(at_.samples, at_.tile_rows);
    if (phase == phases() - 2) return tile_count(at_.channels, kChannelTile);
    return tile_count(at_.units, at_.tile_units);
  }
  size_t workspace_bytes() const override { return Workspace<A>::bytes(at_, kParameters); }
  size_t scratch_bytes() const override { return buffer_bytes<T>(at_); }
  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == row_phase())
      normalize(context, tile);
    else if (phase == phases() - 2)
      finish_channels(context, tile);
    else
      measure(context, tile);
    return Progress::done;
  }

 private:
  // Writes the mean and the squared deviations of each leaf of its units. Every leaf belongs to one
  // unit, so no two tiles write the same place.
  void measure(KernelContext& context, int tile) const {
    const Workspace<A> space{at_, context.workspace};
    A* buffer = reinterpret_cast<A*>(context.scratch);
    const T* x = context.in<T>(0);
    const int64_t end = std::min(at_.units, (tile + 1) * at_.tile_units);
    for (int64_t unit = tile * at_.tile_units; unit < end; ++unit) {
      if (at_.form == Form::rows) {
        const int64_t rows = at_.leaf_size(unit);
        const A* block = loaded(x + unit * kRowBlock * at_.channels, rows * at_.channels, buffer);
        row_moments(block, rows, at_.channels, space.leaf(unit, 0), space.leaf(unit, 1));
        continue;
      }
      // The number of the leaf follows from the place of the stretch in the plane of channel c.
      each_stretch(at_, unit, [&](int64_t first, int64_t c, int64_t size) {
        const int64_t leaf = unit * at_.parts + (first - (unit * at_.channels + c) * at_.area) /
                                                    at_.span / (at_.form == Form::blocked ? 16 : 1);
        A *mean = space.leaf(leaf, 0) + c, *squares = space.leaf(leaf, 1) + c;
        if constexpr (std::is_same_v<A, float>) {
          if (at_.form == Form::blocked)
            return blocked_moments(loaded(x + first, size * 16, buffer), size, mean, squares);
        }
        line_moments(loaded(x + first, size, buffer), size, mean, squares);
      });
    }
  }

  // The statistics of channel c over the batch, in double. An empty batch has count 0.
  Moments batch_moments(const Workspace<A>& space, int64_t c) const {
    if (at_.total() == 0) return {};
    return fold_leaves(
        0, at_.leaves,
        [&](int64_t leaf) {
          return Moments{static_cast<double>(at_.leaf_size(leaf)),
                         static_cast<double>(space.leaf(leaf, 0)[c]),
                         static_cast<double>(space.leaf(leaf, 1)[c])};
        },
        merge);
  }

  // The running statistics become old * momentum + batch * (1 - momentum).
  void finish_channels(KernelContext& context, int tile) const {
    const Workspace<A> space{at_, context.workspace};
    const int64_t end = std::min(at_.channels, (tile + 1) * kChannelTile);
    for (int64_t c = tile * kChannelTile; c < end; ++c) {
      double mean = parameters_.read(context, 3, c), variance = parameters_.read(context, 4, c);
      if (training_) {
        const Moments batch = batch_moments(space, c);
        const double population = batch.count > 0 ? batch.squares / batch.count : 0;
        // y is always normalized with the variance that divides by n; only the running one may
        // divide by n - 1.
        const double running =
            unbiased_ && batch.count > 1 ? batch.squares / (batch.count - 1) : population;
        parameters_.write(context, 1, c, mean * momentum_ + batch.mean * (1 - momentum_));
        parameters_.write(context, 2, c, variance * momentum_ + running * (1 - momentum_));
        mean = batch.mean;
        variance = population;
      } else {
        parameters_.write(context, 1, c, mean);
        parameters_.write(context, 2, c, variance);
      }
      const double inverse = 1 / std::sqrt(variance + epsilon_);
      parameters_.write(context, 3, c, mean);
      parameters_.write(context, 4, c, inverse);
      space.parameter(kMean)[c] = static_cast<A>(mean);
      space.parameter(kFactor)[c] = static_cast<A>(parameters_.read(context, 1, c) * inverse);
      space.parameter(kBias)[c] = static_cast<A>(parameters_.read(context, 2, c));
    }
  }

  void normalize(KernelContext& context, int tile) const {
    const Workspace<A> space{at_, context.workspace};
    const A *mean = space.parameter(kMean), *factor = space.parameter(kFactor),
            *bias = space.parameter(kBias);
    A* buffer = reinterpret_cast<A*>(context.scratch);
    const T* x = context.in<T>(0);
    T* y = context.out<T>(0);
    const int64_t end = std::min(at_.samples, (tile + 1) * at_.tile_rows);
    for (int64_t row = tile * at_.tile_rows; row < end; ++row) {
      each_stretch(at_, row, [&](int64_t first, int64_t c, int64_t size) {
        if constexpr (std::is_same_v<A, float>) {
          if (at_.form == Form::blocked) {
            const int64_t n = size * 16;
            const A* from = loaded(x + first, n, buffer);
            return written(y + first, n, buffer + n, [&](A* to) {
              blocked_scale(from, size, mean + c, factor + c, bias + c, to);
            });
          }
        }
        const A* from = loaded(x + first, size, buffer);
        // The converted x is at the buffer's start, so results of 16 bits are built behind it.
        written(y + first, size, buffer + size, [&](A* to) {
          if (at_.form == Form::rows)
            row_scale(from, size, mean, factor, bias, to);
          else
            line_scale(from, size, mean[c], factor[c], bias[c], to);
        });
      });
    }
  }

  BatchShape at_;
  bool training_, unbiased_;
  double epsilon_, momentum_;
  Parameters parameters_;
};

// Phase 0: leaves of the sums of dy and dy * (x - mean). Phase 1: their trees. Phase 2: rows of dx.
// With h = (x - mean) * inverse: dbias = sum(dy), dscale = sum(dy * h), and dx = scale * inverse *
// (dy - mean(dy) - h * mean(dy * h)). Without training, the statistics are constants and both means
// are left out.
template <typename T>
class BatchNormGradKernel final : public Kernel {
  using A = Compute<T>;
  enum { kMean, kFactor, kShift, kSlope, kParameters };

 public:
  explicit BatchNormGradKernel(const KernelSetup& setup)
      : at_(setup, 1),
        training_(attr_int(setup.attrs(), "training_mode") != 0),
        parameters_{setup.types.inputs, setup.types.outputs} {}
  int phases() const override { return 3; }
  int row_phase() const override { return 2; }
  int tiles(int phase) const override {
    if (phase == 2) return tile_count(at_.samples, at_.tile_rows);
    return phase == 1 ? tile_count(at_.channels, kChannelTile)
                      : tile_count(at_.units, at_.tile_units);
  }
  size_t workspace_bytes() const override { return Workspace<A>::bytes(at_, kParameters); }
  // Room for two loaded leaves and the means of the channels.
  size_t scratch_bytes() const override {
    return buffer_bytes<T>(at_) + static_cast<size_t>(at_.channels) * sizeof(A);
  }
  Progress run(KernelContext& context, int phase, int tile) override {
    if (phase == 0)
      sum(context, tile);
    else if (phase == 1)
      finish_channels(context, tile);
    else
      differentiate(context, tile);
    return Progress::done;
  }

 private:
  void sum(KernelContext& context, int tile) const {
    const Workspace<A> space{at_, context.workspace};
    // The means are converted once per tile: the loops take them in the compute type.
    A* mean = reinterpret_cast<A*>(context.scratch);
    for (int64_t c = 0; c < at_.channels; ++c)
      mean[c] = static_cast<A>(parameters_.read(context, 3, c));
    A* buffer = mean + at_.channels;
    const T *dy = context.in<T>(0), *x = context.in<T>(1);
    const int64_t end = std::min(at_.units, (tile + 1) * at_.tile_units);
    for (int64_t unit = tile * at_.tile_units; unit < end; ++unit) {
      if (at_.form == Form::rows) {
        const int64_t rows = at_.leaf_size(unit), size = rows * at_.channels,
                      first = unit * kRowBlock * at_.channels;
        row_dots(loaded(dy + first, size, buffer), loaded(x + first, size, buffer + size), rows,
                 at_.channels, mean, space.leaf(unit, 0), space.leaf(unit, 1));
        continue;
      }
      each_stretch(at_, unit, [&](int64_t first, int64_t c, int64_t size) {
        const int64_t leaf = unit * at_.parts + (first - (unit * at_.channels + c) * at_.area) /
                                                    at_.span / (at_.form == Form::blocked ? 16 : 1);
        A *sums = space.leaf(leaf, 0) + c, *dots = space.leaf(leaf, 1) + c;
        if constexpr (std::is_same_v<A, float>) {
          if (at_.form == Form::blocked) {
            const int64_t n = size * 16;
            return blocked_dots(loaded(dy + first, n, buffer), loaded(x + first, n, buffer + n),
                                size, mean + c, sums, dots);
          }
        }
        line_dots(loaded(dy + first, size, buffer), loaded(x + first, size, buffer + size), size,
                  mean[c], sums, dots);
      });
    }
  }

  void finish_channels(KernelContext& context, int tile) const {
    const Workspace<A> space{at_, context.workspace};
    const int64_t end = std::min(at_.channels, (tile + 1) * kChannelTile);
    // The tree over the leaves, in double.
    const auto total = [&](int64_t c, int which) -> double {
      if (at_.total() == 0) return 0;
      return fold_leaves(
          0, at_.leaves,
          [&](int64_t leaf) { return static_cast<double>(space.leaf(leaf, which)[c]); },
          [](double a, double b) { return a + b; });
    };
    for (int64_t c = tile * kChannelTile; c < end; ++c) {
      const double sum = total(c, 0), dot = total(c, 1), inverse = parameters_.read(context, 4, c);
      const double count = static_cast<double>(std::max<int64_t>(1, at_.total()));
      // `dot` is the sum of dy * (x - mean), so it lacks one factor `inverse`; in the slope it
      // lacks two.
      parameters_.write(context, 1, c, dot * inverse);
      parameters_.write(context, 2, c, sum);
      space.parameter(kMean)[c] = static_cast<A>(parameters_.read(context, 3, c));
      space.parameter(kFactor)[c] = static_cast<A>(parameters_.read(context, 2, c) * inverse);
      space.parameter(kShift)[c] = static_cast<A>(training_ ? sum / count : 0);
      space.parameter(kSlope)[c] = static_cast<A>(training_ ? inverse * inverse * dot / count : 0);
    }
  }

  void differentiate(KernelContext& context, int tile) const {
    // dx is absent if no node needs it, as in a network's first layer.
    if (!context.outputs[0]) return;
    const Workspace<A> space{at_, context.workspace};
    const A *mean = space.parameter(kMean), *factor = space.parameter(kFactor),
            *shift = space.parameter(kShift), *slope = space.parameter(kSlope);
    A* buffer = reinterpret_cast<A*>(context.scratch);
    const T *dy = context.in<T>(0), *x = context.in<T>(1);
    T* dx = context.out<T>(0);
    const int64_t end = std::min(at_.samples, (tile + 1) * at_.tile_rows);
    for (int64_t row = tile * at_.tile_rows; row < end; ++row) {
      each_stretch(at_, row, [&](int64_t first, int64_t c, int64_t size) {
        if constexpr (std::is_same_v<A, float>) {
          if (at_.form == Form::blocked) {
            const int64_t n = size * 16;
            const A *g = loaded(dy + first, n, buffer), *from = loaded(x + first, n, buffer + n);
            return written(dx + first, n, buffer, [&](A* to) {
              blocked_back(g, from, size, mean + c, factor + c, shift + c, slope + c, to);
            });
          }
        }
        const A *g = loaded(dy + first, size, buffer),
                *from = loaded(x + first, size, buffer + size);
        written(dx + first, size, buffer, [&](A* to) {
          if (at_.form == Form::rows)
            row_back(g, from, size, mean, factor, shift, slope, to);
          else
            line_back(g, from, size, mean[c], factor[c], shift[c], slope[c], to);
        });
      });
    }
  }

  BatchShape at_;
  bool training_;
  Parameters parameters_;
};

}  // namespace

Result<std::unique_ptr<Kernel>> make_batch_norm_kernel(const KernelSetup& setup) {
  return dispatch_float(setup.input(0).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<BatchNormKernel<T>>(setup);
  });
}

Result<std::unique_ptr<Kernel>> make_batch_norm_grad_kernel(const KernelSetup& setup) {
  return dispatch_float(setup.input(1).dtype, [&]<typename T>(T) -> std::unique_ptr<Kernel> {
    return std::make_unique<BatchNormGradKernel<T>>(setup);
  });
}

}  // namespace leat
