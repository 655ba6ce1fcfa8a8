#include <algorithm>
#include <map>

#include "scheduler/runtime/program_builder.h"

namespace leat {
namespace {

constexpr size_t kReduceLimit =
    4000;  // entries; above it, implied dependencies are kept (they cost time, not sense)

// What happened last to each range of bytes. Ranges are split where accesses begin and end.
class LastAccesses {
 public:
  // Adds the entries that `access` must follow to `out`, and records it as done by `who`.
  void access(const Access& access, uint32_t who, std::vector<uint32_t>& out) {
    if (access.begin >= access.end) return;
    split(access.begin);
    split(access.end);
    auto it = ranges_.lower_bound(access.begin);
    uintptr_t at = access.begin;
    while (at < access.end) {
      if (it == ranges_.end() || it->first > at) {  // never touched so far
        const uintptr_t to = it == ranges_.end() ? access.end : std::min(access.end, it->first);
        it = ranges_.emplace_hint(it, at, Range{to, kNone, {}});
      }
      touch(it->second, access.write, who, out);
      at = it->second.end;
      ++it;
    }
  }

 private:
  struct Range {
    uintptr_t end;
    uint32_t writer;
    std::vector<uint32_t> readers;  // since that write
  };

  static void touch(Range& range, bool write, uint32_t who, std::vector<uint32_t>& out) {
    if (range.writer != kNone && range.writer != who) out.push_back(range.writer);
    if (!write) {
      if (range.readers.empty() || range.readers.back() != who) range.readers.push_back(who);
      return;
    }
    for (uint32_t reader : range.readers) {
      if (reader != who) out.push_back(reader);
    }
    range.readers.clear();
    range.writer = who;
  }

  void split(uintptr_t at) {
    auto it = ranges_.upper_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->first == at || it->second.end <= at) return;
    Range tail = it->second;
    it->second.end = at;
    ranges_.emplace(at, std::move(tail));
  }

  std::map<uintptr_t, Range> ranges_;
};

// Rows of bits: ancestors of each entry.
class Ancestors {
 public:
  explicit Ancestors(size_t n) : words_((n + 63) / 64), bits_(n * words_, 0) {}
  bool has(uint32_t of, uint32_t who) const {
    return bits_[of * words_ + who / 64] >> (who % 64) & 1;
  }
  void add(uint32_t of, uint32_t who) {
    bits_[of * words_ + who / 64] |= uint64_t{1} << (who % 64);
    for (size_t w = 0; w < words_; ++w) bits_[of * words_ + w] |= bits_[who * words_ + w];
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

void drop_implied(std::vector<std::vector<uint32_t>>& after) {
  if (after.size() > 2 * kReduceLimit) return;
  Ancestors ancestors(after.size());
  for (uint32_t e = 0; e < after.size(); ++e) {
    auto& direct = after[e];
    std::vector<uint32_t> kept;
    for (auto it = direct.rbegin(); it != direct.rend();
         ++it) {  // latest first: it may imply the earlier
      if (!ancestors.has(e, *it)) {
        kept.push_back(*it);
        ancestors.add(e, *it);
      }
    }
    std::reverse(kept.begin(), kept.end());
    direct = std::move(kept);
  }
}

}  // namespace

void find_dependencies(const std::vector<std::vector<Access>>& accesses,
                       std::vector<Entry>& entries) {
  const auto n = static_cast<uint32_t>(entries.size());
  LastAccesses last;
  std::vector<std::vector<uint32_t>> after(size_t{2} * n);
  for (uint32_t e = 0; e < 2 * n; ++e) {
    // Reads first: an entry that reads and writes the same bytes follows the last writer, not
    // itself.
    for (const Access& access : accesses[e % n]) {
      if (!access.write) last.access(access, e, after[e]);
    }
    for (const Access& access : accesses[e % n]) {
      if (access.write) last.access(access, e, after[e]);
    }
    std::sort(after[e].begin(), after[e].end());
    after[e].erase(std::unique(after[e].begin(), after[e].end()), after[e].end());
  }
  drop_implied(after);
  for (uint32_t e = 0; e < n; ++e) {
    entries[e].after.clear();
    entries[e].after_previous.clear();
    for (uint32_t before : after[n + e]) {
      if (before >= n)
        entries[e].after.push_back(before - n);
      else
        entries[e].after_previous.push_back(before);
    }
  }
}

}  // namespace leat
