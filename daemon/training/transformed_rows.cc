#include "daemon/training/transformed_rows.h"

#include <algorithm>
#include <cstring>

#include "ops/graph/interpret.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/recipes/transform_builder.h"

namespace leat {
namespace {

constexpr int64_t kRowsAtATime = 256;

// Applies the transforms to rows [from, from + count).
Result<TransformedRows> transform_part(const Catalogue& catalogue, const Job& job,
                                       const std::vector<Transform>& transforms, const Tensor& rows,
                                       int64_t from, int64_t count) {
  Shape shape = rows.shape();
  const size_t row = rows.bytes() / static_cast<size_t>(shape[0]);
  shape.set(0, count);
  Tensor part(rows.dtype(), shape);
  std::memcpy(part.raw(),
              static_cast<const std::byte*>(rows.raw()) + static_cast<size_t>(from) * row,
              part.bytes());
  Graph graph(catalogue);
  GraphBuilder g(graph);
  std::vector<BatchColumn> columns{{"input", g.input("input", rows.dtype(), shape)}};
  TransformSetting setting;
  setting.rows = count;
  setting.rescale = job.data.rescale;
  setting.precision = job.master_dtype();
  setting.labels = std::string(kLabelsColumn);
  TransformBuilder builder(g, setting, columns);
  LEAT_RETURN_IF_ERROR(builder.apply(transforms, false));
  LEAT_ASSIGN_OR_RETURN(auto made,
                        interpret(graph, {{graph.inputs()[0], part}}, {columns[0].value}));
  return TransformedRows{std::move(made[0]), columns[0].rescaled};
}

}  // namespace

std::vector<Transform> transforms_of_input(const Job& job, const std::string& input, bool first,
                                           bool only) {
  const auto named = job.model.inputs.find(input);
  const std::string& column = named == job.model.inputs.end() ? input : named->second;
  std::vector<Transform> out;
  for (const Transform& transform : job.data.transforms) {
    const TransformEntry* const entry = find_transform(transform.name);
    const bool of_labels =
        transform.column.empty() ? entry->of_labels : transform.column == kLabelsColumn;
    const bool here = transform.column.empty() ? first : only || transform.column == column;
    if (entry->random || of_labels || !here) continue;
    out.push_back(transform);
    out.back().column = "";
  }
  return out;
}

Result<TransformedRows> transform_rows(const Catalogue& catalogue, const Job& job,
                                       const std::vector<Transform>& transforms, Tensor rows) {
  const int64_t total = rows.shape().rank() == 0 ? 0 : rows.shape()[0];
  if (transforms.empty() || total == 0) return TransformedRows{std::move(rows), false};
  TransformedRows out;
  for (int64_t from = 0; from < total; from += kRowsAtATime) {
    const int64_t count = std::min(kRowsAtATime, total - from);
    LEAT_ASSIGN_OR_RETURN(const TransformedRows part,
                          transform_part(catalogue, job, transforms, rows, from, count));
    if (from == 0) {
      Shape shape = part.rows.shape();
      shape.set(0, total);
      out = {Tensor(part.rows.dtype(), shape), part.rescaled};
    }
    const size_t row = part.rows.bytes() / static_cast<size_t>(count);
    std::memcpy(static_cast<std::byte*>(out.rows.raw()) + static_cast<size_t>(from) * row,
                part.rows.raw(), part.rows.bytes());
  }
  return out;
}

}  // namespace leat
