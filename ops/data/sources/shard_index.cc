#include "ops/data/sources/shard_index.h"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <optional>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/stores/store_files.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

constexpr uint64_t kIndexBytes = uint64_t{4} << 30;  // of an index's file
constexpr size_t kMemberBytes = 20;                  // of a member, without its name

void append_bytes(Bytes& out, const void* data, size_t size) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

void append_member(Bytes& out, const ShardMember& member) {
  const auto name = static_cast<uint32_t>(member.name.size());
  append_bytes(out, &member.offset, sizeof member.offset);
  append_bytes(out, &member.size, sizeof member.size);
  append_bytes(out, &name, sizeof name);
  append_bytes(out, member.name.data(), member.name.size());
}

// The members in the bytes of an index, if it is whole and all of them lie in the shard.
std::optional<std::vector<ShardMember>> members_of_index(std::span<const std::byte> bytes,
                                                         std::string_view head,
                                                         uint64_t shard_bytes) {
  if (bytes.size() < head.size() + 4 || std::memcmp(bytes.data(), head.data(), head.size()) != 0)
    return std::nullopt;
  const auto noted = load_little<uint32_t>(bytes.data() + bytes.size() - 4);
  bytes = bytes.first(bytes.size() - 4);
  if (crc32c(bytes) != noted) return std::nullopt;
  bytes = bytes.subspan(head.size());
  std::vector<ShardMember> out;
  while (!bytes.empty()) {
    if (bytes.size() < kMemberBytes) return std::nullopt;
    ShardMember member{"", load_little<uint64_t>(bytes.data()),
                       load_little<uint64_t>(bytes.data() + 8)};
    const auto name = load_little<uint32_t>(bytes.data() + 16);
    bytes = bytes.subspan(kMemberBytes);
    const bool inside = member.offset <= shard_bytes && member.size <= shard_bytes - member.offset;
    if (!inside || name > bytes.size()) return std::nullopt;
    member.name.assign(reinterpret_cast<const char*>(bytes.data()), name);
    bytes = bytes.subspan(name);
    out.push_back(std::move(member));
  }
  return out;
}

// "1234567.000000089": when the file was last written, in seconds since 1970; nothing if that is
// not known.
std::optional<std::string> last_write(const std::string& path) {
  struct stat seen {};
  if (::stat(path.c_str(), &seen) != 0) return std::nullopt;
  const std::string nanoseconds = std::to_string(seen.st_mtim.tv_nsec);
  return cat(static_cast<int64_t>(seen.st_mtim.tv_sec), ".",
             std::string(9 - nanoseconds.size(), '0'), nanoseconds);
}

}  // namespace

std::string shard_index_path(const std::string& shard) {
  const std::filesystem::path path(shard);
  return (path.parent_path() / cat(".", path.filename().string(), ".leat-index")).string();
}

Status read_shard(Files& files, const ReadableFile& shard, std::string_view kind,
                  const ScanShard& scan, const TakeMember& take, uint64_t indexed) {
  if (shard.size() < indexed || is_store_path(shard.path())) return scan(shard, take);
  const std::optional<std::string> written = last_write(shard.path());
  if (!written) return scan(shard, take);
  LEAT_ASSIGN_OR_RETURN(const std::string print, fingerprint(files, shard.path()));
  const std::string head = cat("leat-index 2 ", kind, "\n", print, ", written ", *written, "\n");
  const std::string path = shard_index_path(shard.path());
  const auto there = files.exists(path);
  if (there.ok() && *there) {
    const auto bytes = read_file(files, path, kIndexBytes);
    const auto members = bytes.ok() ? members_of_index(*bytes, head, shard.size()) : std::nullopt;
    if (members) {
      for (const ShardMember& member : *members) LEAT_RETURN_IF_ERROR(take(member));
      return {};
    }
  }
  Bytes index;
  append_bytes(index, head.data(), head.size());
  LEAT_RETURN_IF_ERROR(scan(shard, [&](const ShardMember& member) {
    append_member(index, member);
    return take(member);
  }));
  // A shard that another process writes meanwhile has no index.
  if (last_write(shard.path()) != written) return {};
  const uint32_t checksum = crc32c(index);
  append_bytes(index, &checksum, sizeof checksum);
  // The folder may be for reading only, or full.
  (void)write_file_atomically(files, path, index).ok();
  return {};
}

}  // namespace leat
