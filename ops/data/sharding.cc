#include "ops/data/sharding.h"

#include <algorithm>

#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The rows of a file, from its number in first_rows on.
int64_t rows_of_file(const DatasetInfo& info, size_t file) {
  const size_t next = file + 1;
  return (next < info.first_rows.size() ? info.first_rows[next] : info.count) -
         info.first_rows[file];
}

}  // namespace

std::optional<Sharding> sharding_from_name(std::string_view name) {
  const auto found = std::find(std::begin(kShardings), std::end(kShardings), name);
  if (found == std::end(kShardings)) return std::nullopt;
  return static_cast<Sharding>(found - std::begin(kShardings));
}

Status check_sharding(const DatasetInfo& info, Sharding sharding, int64_t shards) {
  if (sharding != Sharding::file) return {};
  if (info.first_rows.empty()) {
    return invalid_argument(
        "data.sharding: expected data or off with a format whose rows do not lie in files one "
        "after "
        "the other, received file");
  }
  const auto files = static_cast<int64_t>(info.first_rows.size());
  if (files < shards) {
    return invalid_argument(cat("data.sharding: file: expected at least a file for each of ",
                                counted(shards, "shard"), ", received ", counted(files, "file"),
                                "; write shards: ", files, " or less, or sharding: data"));
  }
  for (int64_t shard = 0; shard < shards; ++shard) {
    int64_t rows = 0;
    for (int64_t file = shard; file < files; file += shards)
      rows += rows_of_file(info, static_cast<size_t>(file));
    if (rows > 0) continue;
    return invalid_argument(cat("data.sharding: file: expected rows in the files of each shard, ",
                                "received none in those of shard ", shard));
  }
  return {};
}

ShardRows::ShardRows(const DatasetInfo& info, Sharding sharding, int64_t shard, int64_t shards)
    : count_(info.count) {
  if (sharding != Sharding::file) return;
  count_ = 0;
  for (auto file = static_cast<size_t>(shard); file < info.first_rows.size();
       file += static_cast<size_t>(shards)) {
    const int64_t rows = rows_of_file(info, file);
    if (rows == 0) continue;
    runs_.push_back({count_, info.first_rows[file]});
    count_ += rows;
  }
}

int64_t ShardRows::row(int64_t place) const {
  if (runs_.empty()) return place;
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), place,
                                     [](int64_t at, const Run& run) { return at < run.place; });
  const Run& run = *std::prev(next);
  return run.row + (place - run.place);
}

int64_t epoch_rows(const DatasetInfo& info, Sharding sharding, int64_t shards) {
  if (sharding == Sharding::data) return info.count;
  int64_t most = 0;
  for (int64_t shard = 0; shard < shards; ++shard)
    most = std::max(most, ShardRows(info, sharding, shard, shards).count());
  return most * shards;
}

}  // namespace leat
