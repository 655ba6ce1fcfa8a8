// Kernels that compute each element independently, tile by tile: they can work on operands that are
// sent or received in pieces, piece by piece.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "ops/definitions/variable.h"
#include "ops/graph/kernel.h"

namespace leat {

// A promise of a kernel of one phase: of the operands that have more than one element, its tile t
// touches the elements [t, t + 1) * tile_elements(), and no others.
class ElementTiles {
 public:
  virtual int64_t tile_elements() const = 0;

 protected:
  ~ElementTiles() = default;
};

// The kernel's tile_elements(); 0 if the kernel makes no such promise.
inline int64_t tile_elements(const Kernel& kernel) {
  const auto* tiles = dynamic_cast<const ElementTiles*>(&kernel);
  return tiles ? tiles->tile_elements() : 0;
}

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

// A kernel that calls run(context, range of elements) for each tile.
template <typename Run>
std::unique_ptr<Kernel> make_element_kernel(int64_t elements, Run run) {
  return std::make_unique<ElementKernel<Run>>(elements, std::move(run));
}

}  // namespace leat
