// Kernels that compute each element independently, tile by tile: they can work on operands that are
// sent or received in pieces, piece by piece.
//
//   return make_element_kernel(n, [](KernelContext& context, ElementRange range) {
//     for (int64_t i = range.begin; i < range.end; ++i) context.out<float>(0)[i] = 1;
//     return Progress::done;
//   });
//
// The executor uses the promise twice: it lets a stretch of tiles start as soon as the pieces that
// they read have arrived, and it derives from it which tiles of two instructions touch the same
// bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "ops/definitions/variable.h"
#include "ops/graph/kernel.h"

namespace leat {

// A promise of a kernel of one phase: of the operands that have more than one element, its tile t
// touches the elements [t, t + 1) * tile_elements(), and no others. All of these operands have the
// same number of elements. An operand of one element (a learning rate, a guard) may be read by
// every tile.
//
// A kernel class inherits this besides Kernel. Nothing is deleted through it, so the destructor is
// protected. A kernel that breaks the promise races with the transfers of its operands.
class ElementTiles {
 public:
  // The elements of each tile but the last, which may have fewer. It is constant for a kernel; 0
  // makes no promise, as if the class were not there (a wrapper returns the value of the kernel
  // that it wraps).
  virtual int64_t tile_elements() const = 0;

 protected:
  ~ElementTiles() = default;
};

// The kernel's tile_elements(); 0 if the kernel makes no such promise.
inline int64_t tile_elements(const Kernel& kernel) {
  const auto* tiles = dynamic_cast<const ElementTiles*>(&kernel);
  return tiles ? tiles->tile_elements() : 0;
}

// The kernel that make_element_kernel() makes: one phase, tiles of kElementsPerTile (32 Ki)
// elements. Run is a callable, stored by value, that all compute threads call at the same time for
// different ranges. It must therefore not change its own state.
template <typename Run>
class ElementKernel final : public Kernel, public ElementTiles {
 public:
  ElementKernel(int64_t elements, Run run) : elements_(elements), run_(std::move(run)) {}
  int tiles(int) const override { return element_tiles(elements_); }
  int64_t tile_elements() const override { return kElementsPerTile; }
  Progress run(KernelContext& context, int, int tile) override {
    return run_(context, element_range(elements_, tile));
  }

 private:
  int64_t elements_;
  Run run_;
};

// A kernel that calls run(context, range of elements) for each tile and returns its Progress.
// `elements` is the number of elements of each operand. With 0 elements there is still one tile,
// with the empty range [0, 0), so `run` must accept it. As in Kernel::run(), `run` neither blocks
// nor allocates nor throws.
template <typename Run>
std::unique_ptr<Kernel> make_element_kernel(int64_t elements, Run run) {
  return std::make_unique<ElementKernel<Run>>(elements, std::move(run));
}

}  // namespace leat
