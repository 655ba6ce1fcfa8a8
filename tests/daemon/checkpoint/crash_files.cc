#include "tests/daemon/checkpoint/crash_files.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

Status missing(const std::string& path) {
  return failed_precondition(cat("'", path, "': No such file or directory"));
}
void put(std::span<const std::byte> part, uint64_t offset, Bytes& bytes) {
  if (bytes.size() < offset + part.size()) bytes.resize(offset + part.size());
  if (!part.empty()) std::memcpy(bytes.data() + offset, part.data(), part.size());
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
    disk_.write_in_place(node_, disk_.nodes_[node_].bytes.size(), bytes);
    return {};
  }
  Status sync() override {
    disk_.sync_in_place(node_);
    return {};
  }
  Status close() override { return {}; }

 private:
  CrashFiles& disk_;
  const Node node_;
};

CrashFiles::CrashFiles() : nodes_{{true, {}, {}}}, base_(nodes_) {}

uint64_t CrashFiles::mix(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

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
  log_.push_back({Deed::names, std::move(names)});
}

// Whether a directory that the change touches was synced after the change.
bool CrashFiles::is_synced(const Operation& change, size_t from, size_t to) const {
  for (size_t i = from; i < to; ++i) {
    if (log_[i].deed != Deed::sync) continue;
    for (const Name& each : change.names)
      if (each.directory == log_[i].file) return true;
  }
  return false;
}

void CrashFiles::apply(const Operation& operation, Bytes& bytes) {
  if (operation.deed == Deed::cut) return bytes.resize(operation.offset);
  put(operation.bytes, operation.offset, bytes);
}

// Decides which operations on one file survive, of those after its last sync.
struct CrashFiles::Luck {
  enum Kind { nothing, everything, a_first_part, operations, sectors, kinds };
  Luck(uint64_t seed, Node file, uint64_t loose)
      : random(mix(seed ^ mix(file))), kind(static_cast<Kind>(random % kinds)) {
    sector = random % 2 == 0 ? 512 : 4096;
    left = kind == a_first_part ? mix(random) % (loose + 1) : loose;
    tears = tears_a_sector(seed);
  }
  bool coin() { return (random = mix(random)) % 2 == 0; }
  // Whether the next sector of an operation is on the disk.
  bool keeps_next() {
    if (kind == a_first_part) return left-- > 0;
    return kind == everything || (kind == sectors && coin());
  }
  // Returns a partly written sector: only its beginning, or behind that zeros or garbage.
  Bytes torn(std::span<const std::byte> whole) {
    const auto written = static_cast<ptrdiff_t>(mix(random) % whole.size());
    Bytes part(whole.begin(), whole.begin() + written);
    if (coin()) part.resize(whole.size(), std::byte(coin() ? 0 : 0xa5));
    return part;
  }

  uint64_t random;
  Kind kind;
  uint64_t sector;
  uint64_t left;  // sectors of the first part
  bool tears;     // a sector may still be torn, and none was yet
};

void CrashFiles::apply_in_part(const Operation& operation, Luck& luck, Bytes& bytes) {
  const uint64_t end = operation.offset + operation.bytes.size();
  const bool keeps_all = luck.kind == Luck::operations && luck.coin();
  if (operation.deed == Deed::cut) {
    if (keeps_all || (luck.kind != Luck::operations && luck.keeps_next())) apply(operation, bytes);
    return;
  }
  for (uint64_t at = operation.offset; at < end;) {
    const uint64_t next = std::min(end, (at / luck.sector + 1) * luck.sector);
    const auto part = std::span(operation.bytes).subspan(at - operation.offset, next - at);
    const bool keeps = keeps_all || (luck.kind != Luck::operations && luck.keeps_next());
    if (keeps && luck.tears && luck.coin()) {
      luck.tears = false;
      put(luck.torn(part), at, bytes);
    } else if (keeps) {
      put(part, at, bytes);
    }
    at = next;
  }
}

void CrashFiles::keep_bytes(CrashFiles& left, size_t operations, uint64_t seed) const {
  std::vector<size_t> synced(nodes_.size());
  std::vector<uint64_t> loose(nodes_.size());  // unsynced sectors, roughly
  for (size_t i = 0; i < operations; ++i) {
    const Operation& each = log_[i];
    if (each.deed == Deed::sync) synced[each.file] = i, loose[each.file] = 0;
    if (each.deed == Deed::write) loose[each.file] += each.bytes.size() / 512 + 1;
    if (each.deed == Deed::cut) ++loose[each.file];
  }
  std::vector<Luck> lucks;
  for (Node n = 0; n < nodes_.size(); ++n) lucks.emplace_back(seed, n, loose[n]);
  for (size_t i = 0; i < operations; ++i) {
    const Operation& each = log_[i];
    if (each.deed != Deed::write && each.deed != Deed::cut) continue;
    Bytes& bytes = left.nodes_[each.file].bytes;
    if (i < synced[each.file])
      apply(each, bytes);
    else
      apply_in_part(each, lucks[each.file], bytes);
  }
}

CrashFiles CrashFiles::after_crash(size_t operations, uint64_t seed) const {
  CrashFiles left;
  left.nodes_ = base_;
  for (Node n = base_.size(); n < nodes_.size(); ++n)
    left.nodes_.push_back({nodes_[n].directory, {}, {}});
  // Of the unsynced changes, none survive, all survive, or a coin decides on each.
  const uint64_t mode = mix(seed) % 8;
  for (size_t i = 0; i < operations; ++i) {
    if (log_[i].deed != Deed::names) continue;
    const bool lucky = mode == 0 ? false : mode == 1 ? true : mix(seed ^ mix(i)) % 2 == 0;
    if (lucky || is_synced(log_[i], i, operations)) left.change(log_[i].names);
  }
  keep_bytes(left, operations, seed);
  left.base_ = left.nodes_;
  left.log_.clear();
  return left;
}

std::optional<size_t> CrashFiles::open_in_place(const std::string& path, bool create) {
  const Place place = find(path);
  if (place.now != kNone && !nodes_[place.now].directory) return place.now;
  if (place.now != kNone || place.directory == kNone || !create) return std::nullopt;
  return add({}, place);
}

void CrashFiles::write_in_place(size_t file, uint64_t offset, std::span<const std::byte> bytes) {
  log_.push_back({Deed::write, {}, file, offset, Bytes(bytes.begin(), bytes.end())});
  apply(log_.back(), nodes_[file].bytes);
}

void CrashFiles::truncate(size_t file, uint64_t size) {
  log_.push_back({Deed::cut, {}, file, size});
  apply(log_.back(), nodes_[file].bytes);
}

void CrashFiles::sync_in_place(size_t file) { log_.push_back({Deed::sync, {}, file}); }

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

Result<std::unique_ptr<WritableFile>> CrashFiles::append_to(const std::string& path,
                                                            uint64_t size) {
  const Place place = find(path);
  if (place.now == kNone || nodes_[place.now].directory) return missing(path);
  if (nodes_[place.now].bytes.size() != size) return in_the_way(path);
  return std::unique_ptr<WritableFile>(std::make_unique<Writer>(*this, place.now));
}

Status CrashFiles::rename(const std::string& from, const std::string& to) {
  const Place source = find(from), target = find(to);
  if (source.now == kNone || target.directory == kNone) return missing(from);
  if (target.now != kNone && nodes_[target.now].directory) return in_the_way(to);
  change({{source.directory, source.name, kNone}, {target.directory, target.name, source.now}});
  return {};
}

Status CrashFiles::link(const std::string& from, const std::string& to) {
  const Place source = find(from), target = find(to);
  if (source.now == kNone || target.directory == kNone) return missing(from);
  if (target.now != kNone || nodes_[source.now].directory) return in_the_way(to);
  change({{target.directory, target.name, source.now}});
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
  sync_in_place(place.now);
  return {};
}

Status CrashFiles::make_directories(const std::string& path) {
  for (size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    const Place place = find(path.substr(0, at));
    if (place.now != kNone && !nodes_[place.now].directory) return in_the_way(path);
    if (place.now != kNone) continue;
    add({true, {}, {}}, place);
    sync_in_place(place.directory);
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
