#include "daemon/remote/fetch_rows.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

FetchRows::FetchRows(const Plan& plan, uint32_t partition) : offsets_(plan.fetches.size(), 0) {
  for (size_t i = 0; i < plan.fetches.size(); ++i) {
    const PlanBorder& fetch = plan.fetches[i];
    // A row has only the fetches of this partition, at offsets that are multiples of 8.
    if (fetch.partition != partition) continue;
    any_ = true;
    offsets_[i] = row_bytes_;
    const size_t bytes =
        static_cast<size_t>(fetch.shape.elements()) * static_cast<size_t>(dtype_size(fetch.dtype));
    row_bytes_ += (bytes + 7) / 8 * 8;
  }
  // The ring has kMostBytes at most, but at least one row.
  if (row_bytes_ > 0) window_ = std::clamp<uint64_t>(kMostBytes / row_bytes_, 1, kMostRows);
  if (any_) ring_.resize(window_);
}

Status FetchRows::store(std::span<const std::byte> bytes) {
  // `part_` is always less than a row, or 0, so the difference does not wrap around.
  if (bytes.size() > row_bytes_ - part_) {
    return invalid_argument(cat("the fetches of turn ", stored_, ": expected ", row_bytes_,
                                " bytes, received ", part_ + bytes.size()));
  }
  // The row of turn stored() - window() is written over: it is not needed any more.
  Bytes& row = ring_[stored_ % window_];
  row.resize(row_bytes_);
  std::copy(bytes.begin(), bytes.end(), row.begin() + static_cast<ptrdiff_t>(part_));
  part_ += bytes.size();
  if (part_ < row_bytes_) return {};
  // Only now the row counts, and a reader that sees its turn announced finds all of it.
  part_ = 0;
  ++stored_;
  return {};
}

}  // namespace leat
