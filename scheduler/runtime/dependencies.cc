#include <algorithm>
#include <map>

#include "scheduler/runtime/list_entries.h"

namespace leat {
namespace {

// With more entries, implied dependencies are kept: they cost time, but change nothing.
constexpr size_t kReduceLimit = 4000;

// The last accesses to each range of bytes. Ranges are split where accesses begin and end.
class LastAccesses {
 public:
  // Adds the entries that `access` must follow to `out`, and records the access as one of `entry`.
  void access(const Access& access, uint32_t entry, std::vector<uint32_t>& out) {
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
      touch(it->second, access.write, entry, out);
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

  // A read follows the last write. A write also follows the reads since then, and becomes the last
  // write.
  static void touch(Range& range, bool write, uint32_t entry, std::vector<uint32_t>& out) {
    if (range.writer != kNone && range.writer != entry) out.push_back(range.writer);
    if (!write) {
      if (range.readers.empty() || range.readers.back() != entry) range.readers.push_back(entry);
      return;
    }
    for (uint32_t reader : range.readers) {
      if (reader != entry) out.push_back(reader);
    }
    range.readers.clear();
    range.writer = entry;
  }

  // Cuts the range that has `at` inside, so that an access covers whole ranges only.
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

// By entry: a bit for each of the entries that it follows, directly or by way of others.
class Ancestors {
 public:
  explicit Ancestors(size_t n) : words_((n + 63) / 64), bits_(n * words_, 0) {}
  bool has(uint32_t of, uint32_t before) const {
    return bits_[of * words_ + before / 64] >> (before % 64) & 1;
  }
  void add(uint32_t of, uint32_t before) {
    // `of` also follows all that `before` follows. Entries come in order, so the bits of `before`
    // are complete.
    bits_[of * words_ + before / 64] |= uint64_t{1} << (before % 64);
    for (size_t w = 0; w < words_; ++w) bits_[of * words_ + w] |= bits_[before * words_ + w];
  }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

// Drops from each list the entries that another one of the list follows. Its bits grow with the
// square of the entries, which is the reason of kReduceLimit.
void drop_implied(std::vector<std::vector<uint32_t>>& after) {
  Ancestors ancestors(after.size());
  for (uint32_t e = 0; e < after.size(); ++e) {
    auto& direct = after[e];
    std::vector<uint32_t> kept;
    for (auto it = direct.rbegin(); it != direct.rend();
         ++it) {  // the latest may imply earlier ones
      if (!ancestors.has(e, *it)) {
        kept.push_back(*it);
        ancestors.add(e, *it);
      }
    }
    std::reverse(kept.begin(), kept.end());
    direct = std::move(kept);
  }
}

// The entries that `entry` must follow, ascending.
void find_before(LastAccesses& last, const std::vector<Access>& accesses, uint32_t entry,
                 std::vector<uint32_t>& found) {
  found.clear();
  // Reads first: an entry that reads and writes the same bytes follows the last writer, not itself.
  for (const Access& access : accesses) {
    if (!access.write) last.access(access, entry, found);
  }
  for (const Access& access : accesses) {
    if (access.write) last.access(access, entry, found);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
}

// Stores in an entry of the second of two steps what it follows; `before` numbers the entries of
// both steps through.
void tell(Entry& entry, const std::vector<uint32_t>& before, uint32_t n) {
  const auto same_step = std::lower_bound(before.begin(), before.end(), n);
  entry.after_previous.assign(before.begin(), same_step);
  entry.after.clear();
  entry.after.reserve(static_cast<size_t>(before.end() - same_step));
  for (auto it = same_step; it != before.end(); ++it) entry.after.push_back(*it - n);
}

}  // namespace

void find_dependencies(const std::vector<std::vector<Access>>& accesses,
                       std::vector<Entry>& entries) {
  // Entry e of the first step is number e, that of the second number n + e. The second step shows
  // what a step waits for in the one before; the first has nothing before it.
  const auto n = static_cast<uint32_t>(entries.size());
  const bool reduces = n <= kReduceLimit;
  LastAccesses last;
  std::vector<std::vector<uint32_t>> after(reduces ? size_t{2} * n : 0);
  std::vector<uint32_t> found;
  for (uint32_t e = 0; e < 2 * n; ++e) {
    find_before(last, accesses[e % n], e, found);
    if (reduces)
      after[e] = found;
    else if (e >= n)
      tell(entries[e - n], found, n);
  }
  if (!reduces) return;
  drop_implied(after);
  for (uint32_t e = 0; e < n; ++e) tell(entries[e], after[n + e], n);
}

}  // namespace leat
