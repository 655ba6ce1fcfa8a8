// CPU kernels of ops/definitions/sum_tree.cc.
#include "ops/definitions/sum_tree.h"

#include <array>
#include <cstring>

#include "devices/base/stream_copy.h"
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/element_kernel.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

using elementwise::AddOf;
constexpr size_t kLineBytes = 64, kPartBytes = 2 << 10;
LEAT_FAST_BINARY(add_to_tree_f32, AddOf)
// Sums all leaves block by block, so that the sums in between stay in the cache. Every element has
// the same tree of additions, whatever the blocks and tiles are.
class SumTree final : public Kernel, public ElementTiles {
 public:
  SumTree(const KernelSetup& setup, std::vector<int64_t> order, size_t most_open)
      : elements_(setup.output(0).shape.elements()),
        element_bytes_(dtype_size(setup.output(0).dtype)),
        order_(std::move(order)),
        most_open_(most_open),
        add_(elementwise::binary_numbers<AddOf>(setup.output(0).dtype, add_to_tree_f32)),
        streams_(setup.output(0).bytes() >= kLeastStreamed) {}

  int tiles(int) const override { return element_tiles(elements_); }
  int64_t tile_elements() const override { return kElementsPerTile; }
  // A block for each sum that waits for its other summand.
  size_t scratch_bytes() const override { return most_open_ * kPartBytes; }

  Progress run(KernelContext& context, int, int tile) override {
    const auto [begin, end] = element_range(elements_, tile);
    const auto block = static_cast<int64_t>(kPartBytes / element_bytes_);
    for (int64_t at = begin; at < end; at += block) {
      // The next block is requested before this one is summed.
      if (streams_ && end - at > block)
        fetch(context, at + block, std::min(block, end - at - block));
      add_block(context, at, std::min(block, end - at));
    }
    // The tile is reported as done after this, and other threads may then read the output.
    if (streams_) stream_fence();
    return Progress::done;
  }

 private:
  // Prefetches a block while the block before it is summed: the processor's own prefetchers follow
  // only a few streams of addresses, and none across a page.
  void fetch(const KernelContext& context, int64_t at, int64_t count) const {
    const size_t begin = static_cast<size_t>(at) * element_bytes_,
                 end = begin + static_cast<size_t>(count) * element_bytes_;
    const auto leaves = static_cast<int>(order_.size() + 1) / 2;
    for (size_t line = begin; line < end; line += kLineBytes) {
      for (int k = 0; k < leaves; ++k) __builtin_prefetch(context.in<std::byte>(k) + line);
    }
  }

  // Sums one block. A streamed result is first built in the cache, because a store around the cache
  // must write whole lines.
  void add_block(const KernelContext& context, int64_t at, int64_t count) const {
    const size_t offset = static_cast<size_t>(at) * element_bytes_;
    // A stack of the leaves and sums that wait; the postfix order pushes leaves and adds the top
    // two.
    std::array<const void*, kMostOpenSums> open{};
    size_t top = 0;
    const int64_t steps[] = {1, 1};
    std::byte* const out = context.out<std::byte>(0) + offset;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (order_[i] != kSumOfTwo) {
        open[top++] = context.in<std::byte>(static_cast<int>(order_[i])) + offset;
        continue;
      }
      --top;
      // The last sum goes straight to the output, unless it is streamed.
      const bool last = i + 1 == order_.size() && !streams_;
      void* const sum = last ? out : context.scratch + (top - 1) * kPartBytes;
      add_(sum, &open[top - 1], steps, count, nullptr);
      open[top - 1] = sum;
    }
    const size_t bytes = static_cast<size_t>(count) * element_bytes_;
    if (streams_) {
      stream_block(out, open[0], bytes);
    } else if (order_.size() == 1) {  // one leaf is its own sum
      std::memcpy(out, open[0], bytes);
    }
  }

  const int64_t elements_;
  const size_t element_bytes_;
  const std::vector<int64_t> order_;
  const size_t most_open_;
  const Loop add_;
  const bool streams_;
};

Result<std::unique_ptr<Kernel>> make_sum_tree(const KernelSetup& setup) {
  auto order = attr_ints(setup.attrs(), "order");
  LEAT_ASSIGN_OR_RETURN(const size_t most,
                        check_sum_order(order, static_cast<int>(setup.types.inputs.size())));
  return std::unique_ptr<Kernel>(std::make_unique<SumTree>(setup, std::move(order), most));
}

}  // namespace

void add_sum_tree_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.SumTree", "cpu", make_sum_tree);
}

}  // namespace leat
