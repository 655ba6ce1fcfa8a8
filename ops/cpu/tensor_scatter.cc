// CPU kernels of ops/definitions/tensor_scatter.cc. They move bytes. A tile is a stretch of
// sequences.
#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_kernels.h"
#include "ops/definitions/cache_update.h"
#include "ops/graph/kernel.h"

namespace leat {
namespace {

// The sequences of a cache, and the places of their new elements.
class CacheSequences {
 public:
  CacheSequences(const KernelSetup& setup, const CacheUpdate& update)
      : sequences(update.sequences),
        size(update.size),
        news(update.news),
        bytes(static_cast<size_t>(update.line) * dtype_size(setup.output(0).dtype)),
        subject_(setup.subject),
        update_(update),
        in_tile_(default_tile_rows(sequences, size * update.line)) {}
  int tiles() const { return tile_count(sequences, in_tile_); }

  // Calls act(sequence, first) for each sequence of a tile, which gets its first new element at
  // `first`. Fails the step if an index lies outside.
  template <typename F>
  Progress each(KernelContext& context, int tile, F&& act) const {
    const int64_t* const indices = update_.indexed ? context.in<int64_t>(2) : nullptr;
    const int64_t begin = tile * in_tile_;
    for (int64_t i = begin; i < std::min(sequences, begin + in_tile_); ++i) {
      const int64_t first = indices ? indices[i / update_.in_batch] : 0;
      if (!update_.circular && (first < 0 || first > size - news)) {
        context.step->fail(context.instruction, update_.refused(subject_, first));
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

  int64_t sequences, size, news;
  size_t bytes;  // of an element of a sequence

 private:
  std::string subject_;
  CacheUpdate update_;
  int64_t in_tile_;
};

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
  LEAT_ASSIGN_OR_RETURN(const CacheUpdate update,
                        CacheUpdate::of(setup, setup.input(0).shape, setup.input(1).shape));
  return std::unique_ptr<Kernel>(
      std::make_unique<TensorScatterKernel>(CacheSequences(setup, update)));
}

Result<std::unique_ptr<Kernel>> make_tensor_scatter_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const CacheUpdate update,
                        CacheUpdate::of(setup, setup.input(0).shape, setup.output(1).shape));
  return std::unique_ptr<Kernel>(
      std::make_unique<TensorScatterGradKernel>(CacheSequences(setup, update)));
}

}  // namespace

void add_tensor_scatter_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("TensorScatter", "cpu", make_tensor_scatter);
  catalogue.add_kernel("leat.TensorScatterGrad", "cpu", make_tensor_scatter_grad);
}

}  // namespace leat
