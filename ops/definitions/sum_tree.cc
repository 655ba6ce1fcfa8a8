// A tree of additions in one pass: each block of elements is read once from every leaf and written
// once, and what is between stays in the nearest cache. To the bit what the Adds of the tree give,
// one after the other, each rounded as an Add rounds.
#include "ops/definitions/sum_tree.h"

#include <array>
#include <cstring>

#include "devices/base/stream_copy.h"
#include "devices/base/text.h"
#include "ops/cpu/element_kernel.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/variable.h"

namespace leat {
namespace {

using elementwise::AddOf;

constexpr size_t kLine = 64, kBlockBytes = 2 << 10;
constexpr size_t kMostOpen = 64;  // sums and leaves that wait for what they are added to

LEAT_FAST_BINARY(add_to_tree_f32, AddOf)

// How many values wait at most while `order` is followed; what is wrong with it, if something is.
Result<size_t> check_order(const std::vector<int64_t>& order, int leaves) {
  int64_t next = 0;
  size_t open = 0, most = 0;
  for (const int64_t item : order) {
    const bool adds = item == kSumOfTwo;
    if (adds ? open < 2 : item != next)
      return invalid_argument(cat("order: ", join(order, ","), " is that of no tree"));
    if (!adds) ++next;
    open = adds ? open - 1 : open + 1;
    most = std::max(most, open);
  }
  if (next != leaves || open != 1 || most > kMostOpen)
    return invalid_argument(cat("order: expected that of a tree of ", leaves, " leaves, of which ",
                                kMostOpen, " wait at most, received ", join(order, ",")));
  return most;
}

Status infer_sum_tree(InferContext& ctx) {
  const auto most = check_order(attr_ints(ctx.attrs(), "order"), ctx.inputs());
  if (!most.ok()) return ctx.error(most.status().message());
  for (int i = 1; i < ctx.inputs(); ++i) {
    if (ctx.shape(i) != ctx.shape(0))
      return ctx.error(cat("expected leaves of one shape, received ", ctx.text(ctx.shape(0)),
                           " and ", ctx.text(ctx.shape(i))));
  }
  ctx.set_tensor(0, ctx.dtype(0), ctx.shape(0));
  return {};
}

Status sum_tree_gradient(GradientContext& ctx) {
  for (int i = 0; i < static_cast<int>(ctx.node().inputs.size()); ++i)
    if (ctx.needs(i)) ctx.set_grad(i, ctx.grad(0));
  return {};
}

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
  size_t scratch_bytes() const override { return most_open_ * kBlockBytes; }

  Progress run(KernelContext& context, int, int tile) override {
    const auto [begin, end] = element_range(elements_, tile);
    const auto block = static_cast<int64_t>(kBlockBytes / element_bytes_);
    for (int64_t at = begin; at < end; at += block) {
      if (streams_ && end - at > block)
        fetch(context, at + block, std::min(block, end - at - block));
      add_block(context, at, std::min(block, end - at));
    }
    if (streams_) stream_fence();
    return Progress::done;
  }

 private:
  // Into the cache, while the block before it is added up: processors see what is next in a few
  // rows of addresses, and not beyond a page.
  void fetch(const KernelContext& context, int64_t at, int64_t count) const {
    const size_t begin = static_cast<size_t>(at) * element_bytes_,
                 end = begin + static_cast<size_t>(count) * element_bytes_;
    const auto leaves = static_cast<int>(order_.size() + 1) / 2;
    for (size_t line = begin; line < end; line += kLine) {
      for (int k = 0; k < leaves; ++k) __builtin_prefetch(context.in<std::byte>(k) + line);
    }
  }

  // The result goes through the cache if it is streamed: a store around it must be of whole lines.
  void add_block(const KernelContext& context, int64_t at, int64_t count) const {
    const size_t offset = static_cast<size_t>(at) * element_bytes_;
    std::array<const void*, kMostOpen> open{};
    size_t top = 0;
    const int64_t steps[] = {1, 1};
    std::byte* const out = context.out<std::byte>(0) + offset;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (order_[i] != kSumOfTwo) {
        open[top++] = context.in<std::byte>(static_cast<int>(order_[i])) + offset;
        continue;
      }
      --top;
      const bool last = i + 1 == order_.size() && !streams_;
      void* const sum = last ? out : context.scratch + (top - 1) * kBlockBytes;
      add_(sum, &open[top - 1], steps, count, nullptr);
      open[top - 1] = sum;
    }
    if (streams_) stream_block(out, open[0], static_cast<size_t>(count) * element_bytes_);
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
                        check_order(order, static_cast<int>(setup.types.inputs.size())));
  return std::unique_ptr<Kernel>(std::make_unique<SumTree>(setup, std::move(order), most));
}

}  // namespace

void register_sum_tree_op(Catalogue& catalogue) {
  // The sum of values of one shape, added two at a time as `order` says, in postfix: a number is
  // the next leaf, kSumOfTwo adds the last two.
  catalogue.add(Op("leat.SumTree")
                    .variadic_input("leaves", "T")
                    .output("sum", "T")
                    .type("T", kNumbers)
                    .attr("order", std::vector<int64_t>())
                    .infer(infer_sum_tree)
                    .gradient(sum_tree_gradient)
                    .sharding(shard_linear)
                    .kernel("cpu", make_sum_tree));
}

}  // namespace leat
