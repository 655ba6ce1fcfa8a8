// The CPU kernel of ops/definitions/n_grams.cc. A tile is a few sequences.
#include "ops/definitions/n_grams.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/cpu/cpu_kernels.h"

namespace leat {
namespace {

template <typename T>
std::unique_ptr<Kernel> n_gram_kernel(NGrams n_grams, const Shape& x) {
  const int64_t length = x[x.rank() - 1], rows = x.rank() == 2 ? x[0] : 1;
  const int64_t in_tile = default_tile_rows(rows, length + n_grams.columns());
  const auto shared = std::make_shared<NGrams>(std::move(n_grams));
  return make_tiled_kernel(tile_count(rows, in_tile), [=](KernelContext& context, int tile) {
    const int64_t first = tile * in_tile, columns = shared->columns();
    for (int64_t i = first; i < std::min(rows, first + in_tile); ++i)
      shared->count(context.in<T>(0) + i * length, length, context.out<float>(0) + i * columns);
    return Progress::done;
  });
}

Result<std::unique_ptr<Kernel>> make_n_grams(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(NGrams n_grams, NGrams::read(setup.attrs()));
  const Shape& x = setup.input(0).shape;
  if (setup.input(0).dtype == DType::i32) return n_gram_kernel<int32_t>(std::move(n_grams), x);
  return n_gram_kernel<int64_t>(std::move(n_grams), x);
}

}  // namespace

void add_n_gram_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("TfIdfVectorizer", "cpu", make_n_grams);
}

}  // namespace leat
