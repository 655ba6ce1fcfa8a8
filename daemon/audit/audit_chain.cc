#include "daemon/audit/audit_chain.h"

#include <charconv>
#include <cstdio>
#include <optional>
#include <span>
#include <vector>

#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kSegmentBegin = "audit-", kSegmentEnd = ".jsonl";
constexpr size_t kLongestLine = 64 << 10;

// Takes `text` from the front of `rest`. False if it begins otherwise.
bool take_text(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

std::optional<uint64_t> take_number(std::string_view& rest) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  return number;
}

// The number in the name of a segment; nothing for another file.
std::optional<uint64_t> first_of_segment(std::string_view name) {
  if (!take_text(name, kSegmentBegin)) return std::nullopt;
  const auto first = take_number(name);
  return first && *first > 0 && name == kSegmentEnd ? first : std::nullopt;
}

// Follows the lines of one segment.
class SegmentReader {
 public:
  // `end`: the first entry of the next segment, or 0.
  SegmentReader(std::string name, AuditHead head, uint64_t end,
                const std::function<void(std::string_view)>& take)
      : name_(std::move(name)), head_(std::move(head)), end_(end), take_(take) {
    note_branch();
  }

  Status take(std::span<const std::byte> bytes) {
    unread_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    size_t begin = 0;
    for (size_t at = unread_.find('\n'); at != std::string::npos; at = unread_.find('\n', begin)) {
      LEAT_RETURN_IF_ERROR(follow(std::string_view(unread_).substr(begin, at - begin)));
      begin = at + 1;
    }
    unread_.erase(0, begin);
    if (branch_) unread_.clear();
    if (unread_.size() > kLongestLine) return broken("expected a line of at most 64 KiB");
    return {};
  }

  // The entry from which the next segment goes on. failed_precondition if the segment ends before.
  Result<AuditHead> end() const {
    if (end_ == 0) return head_;
    if (branch_) return *branch_;
    return failed_precondition(cat(name_, ": expected entries up to ", end_ - 1,
                                   ", with which the next segment begins, the last one is ",
                                   head_.sequence));
  }

 private:
  Status broken(std::string_view what) const {
    return failed_precondition(cat(name_, " line ", line_ + 1, ": ", what));
  }

  Status follow(std::string_view line) {
    // The next segment has all that follows; here a disk may have failed.
    if (branch_) return {};
    std::string_view rest = line;
    if (!take_text(rest, "{\"previous\": \"") || rest.size() < head_.hash.size())
      return broken("expected an entry, which begins with the hash of the one before it");
    const std::string_view previous = rest.substr(0, head_.hash.size());
    rest.remove_prefix(previous.size());
    if (previous != head_.hash)
      return broken(
          cat("expected the hash of the entry before it, ", head_.hash, ", received ", previous));
    const auto sequence =
        take_text(rest, "\", \"sequence\": ") ? take_number(rest) : std::optional<uint64_t>();
    if (!sequence || *sequence != head_.sequence + 1 || !line.ends_with('}'))
      return broken(cat("expected entry ", head_.sequence + 1, ", received ",
                        sequence ? cat("entry ", *sequence) : "none"));
    if (take_) take_(line);
    head_ = {*sequence, audit_hash(line)};
    ++line_;
    note_branch();
    return {};
  }

  void note_branch() {
    if (head_.sequence + 1 == end_) branch_ = head_;
  }

  const std::string name_;
  AuditHead head_;
  const uint64_t end_;
  const std::function<void(std::string_view)>& take_;
  std::optional<AuditHead> branch_;
  std::string unread_;
  size_t line_ = 0;
};

}  // namespace

std::string audit_segment(uint64_t first) {
  char number[24];
  std::snprintf(number, sizeof number, "%012llu", static_cast<unsigned long long>(first));
  return cat(kSegmentBegin, number, kSegmentEnd);
}

std::string audit_hash(std::string_view line) {
  return to_hex(sha256(std::as_bytes(std::span(line))));
}

Result<AuditHead> read_audit(Files& files, const std::string& folder,
                             const std::function<void(std::string_view line)>& take) {
  LEAT_ASSIGN_OR_RETURN(const bool exists, files.exists(folder));
  if (!exists) return AuditHead();
  LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.list(folder));
  std::vector<std::pair<uint64_t, std::string>> segments;  // the names are sorted
  for (const std::string& name : names)
    if (const auto first = first_of_segment(name)) segments.emplace_back(*first, name);
  AuditHead head;
  if (!segments.empty() && segments[0].first != 1)
    return failed_precondition(cat(folder, ": expected ", audit_segment(1),
                                   ", the first segment is ", segments[0].second));
  for (size_t i = 0; i < segments.size(); ++i) {
    const uint64_t next = i + 1 < segments.size() ? segments[i + 1].first : 0;
    SegmentReader reader(segments[i].second, head, next, take);
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(cat(folder, "/", segments[i].second)));
    LEAT_RETURN_IF_ERROR(read_in_pieces(
        *file, [&](std::span<const std::byte> bytes) { return reader.take(bytes); }));
    LEAT_ASSIGN_OR_RETURN(head, reader.end());
  }
  return head;
}

}  // namespace leat
