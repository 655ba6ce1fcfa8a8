// CPU kernels of ops/definitions/tensor_scatter.cc. They move bytes. A tile is a stretch of
// sequences.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/graph/kernel.h"

namespace leat {
namespace {

// The sequences of a cache, and the places of their new elements.
class CacheSequences {
 public:
  CacheSequences(const KernelSetup& setup, const Shape& cache, const Shape& update)
      : subject_(setup.subject),
        circular_(attr_string(setup.attrs(), "mode") == "circular"),
        indexed_(setup.types.has_input(2)) {
    const int64_t given = attr_int(setup.attrs(), "axis", -2);
    const auto axis = static_cast<int>(given < 0 ? given + cache.rank() : given);
    sequences = cache.elements(0, axis);
    in_batch_ = cache[0] == 0 ? 1 : sequences / cache[0];
    size = cache[axis];
    news = update[axis];
    bytes = static_cast<size_t>(cache.elements(axis + 1, cache.rank())) *
            dtype_size(setup.output(0).dtype);
    in_tile_ = default_tile_rows(sequences, cache.elements(axis, cache.rank()));
  }
  int tiles() const { return tile_count(sequences, in_tile_); }

  // Calls act(sequence, first) for each sequence of a tile, which gets its first new element at
  // `first`. Fails the step if an index lies outside.
  template <typename F>
  Progress each(KernelContext& context, int tile, F&& act) const {
    const int64_t* const indices = indexed_ ? context.in<int64_t>(2) : nullptr;
    const int64_t begin = tile * in_tile_;
    for (int64_t i = begin; i < std::min(sequences, begin + in_tile_); ++i) {
      const int64_t first = indices ? indices[i / in_batch_] : 0;
      if (!circular_ && (first < 0 || first > size - news)) {
        context.step->fail(context.instruction,
                           invalid_argument(cat(subject_, ": write_indices: expected 0 to ",
                                                size - news, ", received ", first)));
        return Progress::failed;
      }
      act(i, first);
    }
    return Progress::done;
  }
  // Calls act(from, to, count) for the new elements [from, from + count) of a sequence, which are
  // at [to, to + count) in the cache.
  template <typename F>
  void each_stretch(int64_t first, F&& act) const {
    if (news == 0 || size == 0) return;
    const int64_t to = (first % size + size) % size, before_end = std::min(news, size - to);
    act(0, to, before_end);
    if (before_end < news) act(before_end, 0, news - before_end);
  }

  int64_t sequences = 0, size = 0, news = 0;
  size_t bytes = 0;  // of an element of a sequence

 private:
  std::string subject_;
  bool circular_, indexed_;
  int64_t in_batch_ = 1, in_tile_ = 1;
};

// The checks that inference leaves to concrete shapes.
Status check_update(const KernelSetup& setup, const Shape& cache, const Shape& update) {
  const int64_t given = attr_int(setup.attrs(), "axis", -2);
  const int64_t axis = given < 0 ? given + cache.rank() : given;
  bool fits = cache.rank() == update.rank();
  for (int d = 0; fits && d < cache.rank(); ++d)
    fits = d == axis ? update[d] <= cache[d] : update[d] == cache[d];
  if (fits && setup.types.has_input(2)) fits = setup.input(2).shape == Shape{cache[0]};
  if (fits) return {};
  return invalid_argument(cat(setup.subject, ": an update of ", update.to_string(),
                              " does not fit the cache of ", cache.to_string()));
}

class TensorScatterKernel final : public Kernel {
 public:
  explicit TensorScatterKernel(CacheSequences of) : s_(std::move(of)) {}
  int tiles(int) const override { return s_.tiles(); }
  Progress run(KernelContext& context, int, int tile) override {
    return s_.each(context, tile, [&](int64_t i, int64_t first) {
      const auto at = static_cast<size_t>(i);
      const size_t whole = static_cast<size_t>(s_.size) * s_.bytes;
      const auto* update = context.in<std::byte>(1) + at * static_cast<size_t>(s_.news) * s_.bytes;
      std::byte* const out = context.out<std::byte>(0) + at * whole;
      if (context.outputs[0] != context.inputs[0])
        std::memcpy(out, context.in<std::byte>(0) + at * whole, whole);
      s_.each_stretch(first, [&](int64_t from, int64_t to, int64_t count) {
        std::memcpy(out + static_cast<size_t>(to) * s_.bytes,
                    update + static_cast<size_t>(from) * s_.bytes,
                    static_cast<size_t>(count) * s_.bytes);
      });
    });
  }

 private:
  const CacheSequences s_;
};

// The update gets the gradients at its places, and the cache those of all others.
class TensorScatterGradKernel final : public Kernel {
 public:
  explicit TensorScatterGradKernel(CacheSequences of) : s_(std::move(of)) {}
  int tiles(int) const override { return s_.tiles(); }
  Progress run(KernelContext& context, int, int tile) override {
    return s_.each(context, tile, [&](int64_t i, int64_t first) {
      const auto at = static_cast<size_t>(i);
      const size_t whole = static_cast<size_t>(s_.size) * s_.bytes;
      const auto* dy = context.in<std::byte>(0) + at * whole;
      std::byte* const dupdate =
          context.out<std::byte>(1) + at * static_cast<size_t>(s_.news) * s_.bytes;
      s_.each_stretch(first, [&](int64_t from, int64_t to, int64_t count) {
        std::memcpy(dupdate + static_cast<size_t>(from) * s_.bytes,
                    dy + static_cast<size_t>(to) * s_.bytes, static_cast<size_t>(count) * s_.bytes);
      });
      std::byte* const dcache = context.out<std::byte>(0) + at * whole;
      if (dcache != dy) std::memcpy(dcache, dy, whole);
      s_.each_stretch(first, [&](int64_t, int64_t to, int64_t count) {
        std::memset(dcache + static_cast<size_t>(to) * s_.bytes, 0,
                    static_cast<size_t>(count) * s_.bytes);
      });
    });
  }

 private:
  const CacheSequences s_;
};

Result<std::unique_ptr<Kernel>> make_tensor_scatter(const KernelSetup& setup) {
  const Shape &cache = setup.input(0).shape, &update = setup.input(1).shape;
  LEAT_RETURN_IF_ERROR(check_update(setup, cache, update));
  return std::unique_ptr<Kernel>(
      std::make_unique<TensorScatterKernel>(CacheSequences(setup, cache, update)));
}

Result<std::unique_ptr<Kernel>> make_tensor_scatter_grad(const KernelSetup& setup) {
  const Shape &cache = setup.input(0).shape, &update = setup.output(1).shape;
  LEAT_RETURN_IF_ERROR(check_update(setup, cache, update));
  return std::unique_ptr<Kernel>(
      std::make_unique<TensorScatterGradKernel>(CacheSequences(setup, cache, update)));
}

}  // namespace

void add_tensor_scatter_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("TensorScatter", "cpu", make_tensor_scatter);
  catalogue.add_kernel("leat.TensorScatterGrad", "cpu", make_tensor_scatter_grad);
}

}  // namespace leat
