#include "tests/daemon/checkpoint/crash_files.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kSector = 512;

// SplitMix64.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

Status missing(const std::string& path) {
  return failed_precondition(cat("'", path, "': No such file or directory"));
}
Status in_the_way(const std::string& path) {
  return failed_precondition(cat("'", path, "': File exists"));
}

}  // namespace

class CrashFiles::Reader final : public ReadableFile {
 public:
  Reader(std::string path, Bytes bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset)
      return invalid_argument(cat("'", path_, "': the file ends"));
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  const std::string path_;
  const Bytes bytes_;
};

class CrashFiles::Writer final : public WritableFile {
 public:
  Writer(CrashFiles& disk, Node node) : disk_(disk), node_(node) {}
  Status append(std::span<const std::byte> bytes) override {
    Bytes& all = disk_.nodes_[node_].bytes;
    all.insert(all.end(), bytes.begin(), bytes.end());
    disk_.log_.push_back({{}, node_, all.size(), false});
    return {};
  }
  Status sync() override {
    disk_.log_.push_back({{}, node_, disk_.nodes_[node_].bytes.size(), true});
    return {};
  }
  Status close() override { return {}; }

 private:
  CrashFiles& disk_;
  const Node node_;
};

CrashFiles::CrashFiles() : nodes_{{true, {}, {}}}, base_(nodes_) {}

CrashFiles::Place CrashFiles::find(const std::string& path) const {
  Place place{kNone, "", kRoot};
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    if (place.now == kNone || !nodes_[place.now].directory) return {kNone, name, kNone};
    place.directory = place.now;
    place.name = name;
    const auto found = nodes_[place.directory].names.find(name);
    place.now = found == nodes_[place.directory].names.end() ? kNone : found->second;
  }
  return place;
}

CrashFiles::Node CrashFiles::add(File file, const Place& at) {
  nodes_.push_back(std::move(file));
  change({{at.directory, at.name, nodes_.size() - 1}});
  return nodes_.size() - 1;
}

void CrashFiles::change(std::vector<Name> names) {
  for (const Name& each : names) {
    auto& entries = nodes_[each.directory].names;
    if (each.now == kNone)
      entries.erase(each.name);
    else
      entries[each.name] = each.now;
  }
  log_.push_back({std::move(names), kNone, 0, false});
}

// Whether a directory that the change touches was synced after it.
bool CrashFiles::is_synced(const Operation& change, size_t from, size_t to) const {
  for (size_t i = from; i < to; ++i) {
    if (!log_[i].sync) continue;
    for (const Name& each : change.names)
      if (each.directory == log_[i].file) return true;
  }
  return false;
}

// Of every file at least what was synced; any first part of the rest, its last sector torn.
void CrashFiles::keep_bytes(CrashFiles& left, size_t operations, uint64_t seed) const {
  std::vector<uint64_t> written(nodes_.size());
  for (Node n = 0; n < base_.size(); ++n) written[n] = base_[n].bytes.size();
  std::vector<uint64_t> synced = written;
  for (size_t i = 0; i < operations; ++i) {
    const Operation& each = log_[i];
    if (each.file == kNone) continue;
    written[each.file] = each.bytes;
    if (each.sync) synced[each.file] = each.bytes;
  }
  for (Node n = 0; n < nodes_.size(); ++n) {
    if (nodes_[n].directory) continue;
    const uint64_t luck = mix(seed ^ mix(n)), loose = written[n] - synced[n];
    const uint64_t kept = synced[n] + (luck % 4 == 0 ? loose : mix(luck) % (loose + 1));
    Bytes& bytes = left.nodes_[n].bytes;
    bytes.assign(nodes_[n].bytes.begin(), nodes_[n].bytes.begin() + static_cast<ptrdiff_t>(kept));
    if (luck % 3 != 0) continue;
    const uint64_t torn = std::max(synced[n], kept - std::min(kept, kSector));
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(torn), bytes.end(),
              std::byte(luck % 2 ? 0 : 0xa5));
  }
}

CrashFiles CrashFiles::after_crash(size_t operations, uint64_t seed) const {
  CrashFiles left;
  left.nodes_ = base_;
  for (Node n = base_.size(); n < nodes_.size(); ++n)
    left.nodes_.push_back({nodes_[n].directory, {}, {}});
  // Of the changes that are not synced: none, all, or each with the flip of a coin.
  const uint64_t mode = mix(seed) % 8;
  for (size_t i = 0; i < operations; ++i) {
    if (log_[i].names.empty()) continue;
    const bool lucky = mode == 0 ? false : mode == 1 ? true : mix(seed ^ mix(i)) % 2 == 0;
    if (lucky || is_synced(log_[i], i, operations)) left.change(log_[i].names);
  }
  keep_bytes(left, operations, seed);
  left.base_ = left.nodes_;
  left.log_.clear();
  return left;
}

void CrashFiles::flip(const std::string& path, uint64_t byte, int bit) {
  nodes_[find(path).now].bytes[byte] ^= std::byte(1 << bit);
}

void CrashFiles::list_sizes(Node at, const std::string& path,
                            std::map<std::string, uint64_t>& out) const {
  if (!nodes_[at].directory) out[path] = nodes_[at].bytes.size();
  for (const auto& [name, node] : nodes_[at].names) list_sizes(node, path + "/" + name, out);
}

std::map<std::string, uint64_t> CrashFiles::sizes() const {
  std::map<std::string, uint64_t> out;
  list_sizes(kRoot, "", out);
  return out;
}

Result<std::unique_ptr<ReadableFile>> CrashFiles::open(const std::string& path) {
  const Place place = find(path);
  if (place.now == kNone || nodes_[place.now].directory) return missing(path);
  return std::unique_ptr<ReadableFile>(std::make_unique<Reader>(path, nodes_[place.now].bytes));
}

Result<std::unique_ptr<WritableFile>> CrashFiles::create(const std::string& path) {
  const Place place = find(path);
  if (place.directory == kNone) return missing(path);
  if (place.now != kNone) return in_the_way(path);
  return std::unique_ptr<WritableFile>(std::make_unique<Writer>(*this, add({}, place)));
}

Status CrashFiles::rename(const std::string& from, const std::string& to) {
  const Place source = find(from), target = find(to);
  if (source.now == kNone || target.directory == kNone) return missing(from);
  if (target.now != kNone && nodes_[target.now].directory) return in_the_way(to);
  change({{source.directory, source.name, kNone}, {target.directory, target.name, source.now}});
  return {};
}

Status CrashFiles::exchange(const std::string& a, const std::string& b) {
  const Place one = find(a), other = find(b);
  if (one.now == kNone || other.now == kNone) return missing(one.now == kNone ? a : b);
  change({{one.directory, one.name, other.now}, {other.directory, other.name, one.now}});
  return {};
}

Status CrashFiles::remove(const std::string& path) {
  const Place place = find(path);
  if (place.now == kNone) return missing(path);
  if (!nodes_[place.now].names.empty()) return in_the_way(path);
  change({{place.directory, place.name, kNone}});
  return {};
}

Status CrashFiles::remove_all(const std::string& path) {
  const Place place = find(path);
  if (place.now == kNone) return {};
  const auto names = nodes_[place.now].names;
  for (const auto& [name, node] : names) LEAT_RETURN_IF_ERROR(remove_all(path + "/" + name));
  return remove(path);
}

Status CrashFiles::sync_directory(const std::string& path) {
  const Place place = find(path);
  if (place.now == kNone) return missing(path);
  log_.push_back({{}, place.now, 0, true});
  return {};
}

Status CrashFiles::make_directories(const std::string& path) {
  for (size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const Place place = find(path.substr(0, at));
    if (place.now != kNone && !nodes_[place.now].directory) return in_the_way(path);
    if (place.now != kNone) continue;
    add({true, {}, {}}, place);
    log_.push_back({{}, place.directory, 0, true});
  }
  return {};
}

Result<std::vector<std::string>> CrashFiles::list(const std::string& path) {
  const Place place = find(path);
  if (place.now == kNone) return missing(path);
  std::vector<std::string> names;
  for (const auto& [name, node] : nodes_[place.now].names) names.push_back(name);
  return names;
}

Result<bool> CrashFiles::exists(const std::string& path) { return find(path).now != kNone; }

}  // namespace leat
