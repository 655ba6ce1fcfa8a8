#include "devices/core/kernel_ways.h"

#include "devices/base/text.h"

namespace leat {

void KernelWays::add(std::string_view subject, std::string_view way) {
  const std::lock_guard lock(mutex_);
  ++counts_[{std::string(subject), std::string(way)}];
}

void KernelWays::add(const KernelWays& other) {
  const Counts more = other.copy();
  const std::lock_guard lock(mutex_);
  for (const auto& [key, count] : more) counts_[key] += count;
}

KernelWays::Counts KernelWays::copy() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

uint64_t KernelWays::count(std::string_view subject, std::string_view way) const {
  const std::lock_guard lock(mutex_);
  const auto at = counts_.find({std::string(subject), std::string(way)});
  return at == counts_.end() ? 0 : at->second;
}

std::string KernelWays::new_text() {
  std::string now = text();
  const std::lock_guard lock(mutex_);
  if (now == told_) return "";
  told_ = now;
  return now;
}

std::string KernelWays::text() const {
  std::string text, last;
  for (const auto& [key, count] : copy()) {
    const auto& [subject, way] = key;
    if (subject == last)
      text += ", ";
    else
      text += cat(text.empty() ? "" : "; ", subject, ": ");
    text += cat(count, " by ", way);
    last = subject;
  }
  return text;
}

}  // namespace leat
