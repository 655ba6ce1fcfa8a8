// How the shards of a step share the rows of a data set: the key `data.sharding` of a job, with the
// policies of tf.data's AutoShardPolicy.
//
// Shards are those of the job, and not its workers: the rows of a shard are the same wherever it
// runs, so that a job has the same bits on any number of workers with each of the policies.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/data/columns.h"

namespace leat {

enum class Sharding : uint8_t {
  data,  // shards take slices of one order of all rows: an epoch has each row once
  file,  // a shard has the rows of its own files, in an order of its own: shard s those of the
         // files s, s + shards, s + 2 * shards...
  off,   // each shard has all rows, in an order of its own
};

// "data", "file", "off", in the order of the enum.
inline constexpr std::string_view kShardings[] = {"data", "file", "off"};
inline std::string_view sharding_name(Sharding sharding) {
  return kShardings[static_cast<size_t>(sharding)];
}
std::optional<Sharding> sharding_from_name(std::string_view name);

// Checks that each of the shards has rows. invalid_argument, with "data.sharding" as its subject,
// if the rows do not lie in files one after the other, or if there are too few files.
Status check_sharding(const DatasetInfo& info, Sharding sharding, int64_t shards);

// The rows that one shard goes through in an epoch of its own. Immutable. Threads: any.
class ShardRows {
 public:
  // REQUIRES: check_sharding(), and 0 <= shard < shards.
  ShardRows(const DatasetInfo& info, Sharding sharding, int64_t shard, int64_t shards);
  // At least 1.
  int64_t count() const { return count_; }
  // The row of the data set. REQUIRES: 0 <= place < count().
  int64_t row(int64_t place) const;

 private:
  struct Run {
    int64_t place, row;  // of its first row
  };
  std::vector<Run> runs_;  // of the rows of a file each, by place; empty: all rows
  int64_t count_ = 0;
};

// The rows that all shards take until the shard that has most rows has had each of them once:
// those of an epoch. A shard with fewer rows begins again before that. REQUIRES: check_sharding().
int64_t epoch_rows(const DatasetInfo& info, Sharding sharding, int64_t shards);

}  // namespace leat
