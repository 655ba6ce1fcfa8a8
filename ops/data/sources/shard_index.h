// The places of a shard's records: one pass over the shard's headers finds them, and those of a
// large shard are kept in a file beside it, so that the next job begins at once.
//
// The index of data/train-000.tar is data/.train-000.tar.leat-index:
//
//   "leat-index 2 tar\n"
//   "47040016 bytes, crc32c 0a1b2c3d, written 1790000000.123456789\n"
//                          the fingerprint of the shard, and when it was last written
//   for each record        u64 offset, u64 size, u32 size of the name, the name
//   at the end             u32 CRC-32C of all before it
//
// It is used only if it is whole and has the fingerprint and the time of the shard; otherwise the
// shard is read. The fingerprint does not see the middle of a shard: a change there that keeps the
// size is noticed by the time. In a folder that cannot be written to there is no index, and nothing
// else changes.
//
// Private to ops/data/sources.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A record of a shard, or a file in an archive.
struct ShardMember {
  std::string name;
  uint64_t offset = 0, size = 0;  // in the shard
};
using TakeMember = std::function<Status(const ShardMember&)>;
// The pass over a shard, which gives its members in order.
using ScanShard = std::function<Status(const ReadableFile& shard, const TakeMember& take)>;

// A shard of at least so many bytes gets a file with its index.
inline constexpr uint64_t kIndexedShard = uint64_t{64} << 20;

// Passes the members of the shard to `take`, in order, until it fails. `kind` names the format.
// Errors are those of `scan` and `take`; those of the index's file are none.
Status read_shard(Files& files, const ReadableFile& shard, std::string_view kind,
                  const ScanShard& scan, const TakeMember& take, uint64_t indexed = kIndexedShard);

// The path of the index's file.
std::string shard_index_path(const std::string& shard);

}  // namespace leat
