#include "ops/definitions/n_grams.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

Status infer_n_grams(InferContext& ctx) {
  const auto n_grams = NGrams::read(ctx.attrs());
  if (!n_grams.ok()) {
    const Status status = ctx.error(n_grams.status().message());
    return Status(n_grams.status().code(), status.message());
  }
  const SymbolicShape& x = ctx.shape(0);
  if (x.rank() != 1 && x.rank() != 2)
    return ctx.error(cat("X: expected a sequence [C] or sequences [N,C], received ", ctx.text(x)));
  SymbolicShape y;
  if (x.rank() == 2) y.push_back(x[0]);
  y.push_back(Dim::of(n_grams->columns()));
  ctx.set_tensor(0, DType::f32, y);
  return {};
}

// Each sequence may be on another shard.
std::vector<ShardingRule> shard_sequences(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>&, const Attrs&) {
  if (inputs[0].shape.rank() != 2) return {};
  return {{{Spread::on(0)}, {Spread::on(0)}}};
}

template <typename T>
std::vector<T> list_of(const Attrs& attrs, std::string_view name) {
  const auto found = attrs.find(name);
  const auto* list = found == attrs.end() ? nullptr : std::get_if<std::vector<T>>(&found->second);
  return list ? *list : std::vector<T>();
}

}  // namespace

Result<NGrams> NGrams::read(const Attrs& attrs) {
  if (has_attr(attrs, "pool_strings"))
    return unimplemented("pool_strings: expected pool_int64s: this build has no strings");
  const std::string mode = attr_string(attrs, "mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
    return invalid_argument(cat("mode: expected 'TF', 'IDF' or 'TFIDF', received '", mode, "'"));
  NGrams out;
  out.shortest_ = attr_int(attrs, "min_gram_length");
  out.longest_ = attr_int(attrs, "max_gram_length");
  out.most_skipped_ = attr_int(attrs, "max_skip_count");
  constexpr auto kMost = static_cast<int64_t>(limits::kListLength);
  if (out.shortest_ < 1 || out.longest_ < out.shortest_ || out.longest_ > kMost ||
      out.most_skipped_ < 0 || out.most_skipped_ > kMost) {
    return invalid_argument(cat("expected 1 <= min_gram_length <= max_gram_length <= ", kMost,
                                " and max_skip_count from 0 to ", kMost, ", received ",
                                out.shortest_, ", ", out.longest_, " and ", out.most_skipped_));
  }
  const std::vector<int64_t> columns = attr_ints(attrs, "ngram_indexes");
  for (const int64_t column : columns) {
    if (column < 0 || column >= int64_t{limits::kListLength})
      return invalid_argument(cat("ngram_indexes: expected columns from 0 to ",
                                  limits::kListLength - 1, ", received ", column));
    out.columns_ = std::max(out.columns_, column + 1);
  }
  LEAT_RETURN_IF_ERROR(
      out.add_all(attr_ints(attrs, "pool_int64s"), attr_ints(attrs, "ngram_counts"), columns));
  out.once_ = mode == "IDF";
  // As onnxruntime, the reference takes the weights by column.
  if (mode != "TF") out.weights_ = list_of<double>(attrs, "weights");
  if (!out.weights_.empty() && static_cast<int64_t>(out.weights_.size()) != out.columns_) {
    return invalid_argument(cat("weights: expected one for each of the ", out.columns_,
                                " columns, received ", out.weights_.size()));
  }
  return out;
}

// `begins` has the place in the pool where the n-grams of 1, 2, ... items begin.
Status NGrams::add_all(const std::vector<int64_t>& pool, const std::vector<int64_t>& begins,
                       const std::vector<int64_t>& columns) {
  const auto items = static_cast<int64_t>(pool.size());
  size_t next = 0;  // of the n-grams of all lengths
  for (size_t n = 1; n <= begins.size(); ++n) {
    const int64_t begin = begins[n - 1], end = n < begins.size() ? begins[n] : items;
    const auto length = static_cast<int64_t>(n);
    if (begin < 0 || end < begin || end > items || (end - begin) % length != 0) {
      return invalid_argument(cat("ngram_counts: expected ascending places in a pool of ", items,
                                  " items, whole n-grams apart, received ", begin, " and ", end,
                                  " for n-grams of ", n));
    }
    for (int64_t at = begin; at < end; at += length, ++next) {
      if (next < columns.size() && length >= shortest_ && length <= longest_)
        add(std::span(pool).subspan(static_cast<size_t>(at), n), columns[next]);
    }
  }
  if (next == columns.size()) return {};
  return invalid_argument(cat("ngram_indexes: expected a column for each of the pool's ", next,
                              " n-grams, received ", columns.size()));
}

void NGrams::add(std::span<const int64_t> n_gram, int64_t column) {
  int node = 0;
  for (const int64_t item : n_gram) {
    const auto [child, fresh] =
        children_.try_emplace({node, item}, static_cast<int>(column_.size()));
    if (fresh) column_.push_back(-1);
    node = child->second;
  }
  column_[static_cast<size_t>(node)] = column;
}

template <typename T>
void NGrams::count(const T* sequence, int64_t length, float* row) const {
  std::fill_n(row, columns_, 0.0f);
  // An n-gram may leave out the same number of items between any two of its own. One of a single
  // item counts once.
  for (int64_t step = 1; step <= most_skipped_ + 1; ++step) {
    const int64_t shortest = step == 1 ? shortest_ : std::max<int64_t>(2, shortest_);
    if (shortest > longest_ || step * (shortest - 1) >= length) break;
    for (int64_t begin = 0; begin + step * (shortest - 1) < length; ++begin) {
      int node = 0;
      int64_t at = begin;
      for (int64_t n = 1; n <= longest_ && at < length; ++n, at += step) {
        const auto child = children_.find({node, static_cast<int64_t>(sequence[at])});
        if (child == children_.end()) break;
        node = child->second;
        const int64_t column = column_[static_cast<size_t>(node)];
        if (n >= shortest && column >= 0) row[column] += 1;
      }
    }
  }
  for (int64_t c = 0; c < columns_; ++c) {
    if (once_) row[c] = std::min(row[c], 1.0f);
    if (!weights_.empty()) row[c] *= static_cast<float>(weights_[static_cast<size_t>(c)]);
  }
}

template void NGrams::count(const int32_t*, int64_t, float*) const;
template void NGrams::count(const int64_t*, int64_t, float*) const;

void register_n_gram_ops(Catalogue& catalogue) {
  catalogue.add(Op("TfIdfVectorizer", 9)
                    .input("X", "T")
                    .output("Y", "float")
                    .type("T", kIndexTypes)
                    .attr_required("max_gram_length", "int")
                    .attr_required("max_skip_count", "int")
                    .attr_required("min_gram_length", "int")
                    .attr_required("mode", "string")
                    .attr_required("ngram_counts", "ints")
                    .attr_required("ngram_indexes", "ints")
                    .attr_optional("pool_int64s", "ints")
                    .attr_optional("pool_strings", "strings")
                    .attr_optional("weights", "floats")
                    .infer(infer_n_grams)
                    .sharding(shard_sequences));
}

}  // namespace leat
