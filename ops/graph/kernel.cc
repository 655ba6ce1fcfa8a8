#include "ops/graph/kernel.h"

#include <algorithm>

namespace leat {
namespace {

// A kernel of one phase, for ops that need no state between steps.
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(int tiles, std::function<Progress(KernelContext&, int)> run)
      : tiles_(tiles), run_(std::move(run)) {}
  int tiles(int) const override { return tiles_; }
  Progress run(KernelContext& context, int, int tile) override { return run_(context, tile); }

 private:
  int tiles_;
  std::function<Progress(KernelContext&, int)> run_;
};

}  // namespace

// The function runs as one tile, so that one thread runs it.
std::unique_ptr<Kernel> make_kernel(std::function<Progress(KernelContext&)> run) {
  return std::make_unique<FunctionKernel>(
      1, [run = std::move(run)](KernelContext& context, int) { return run(context); });
}

std::unique_ptr<Kernel> make_tiled_kernel(int tiles,
                                          std::function<Progress(KernelContext&, int)> run) {
  return std::make_unique<FunctionKernel>(tiles, std::move(run));
}

int64_t default_tile_rows(int64_t rows, int64_t row_elements) {
  // 32 Ki floats are 128 KiB. A tile has at least one row, however long it is, and at most all of
  // them.
  constexpr int64_t kTileElements = 32 * 1024;
  const int64_t tile = kTileElements / std::max<int64_t>(1, row_elements);
  return std::clamp<int64_t>(tile, 1, std::max<int64_t>(1, rows));
}

}  // namespace leat
