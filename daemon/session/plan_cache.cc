#include "daemon/session/plan_cache.h"

#include <algorithm>

namespace leat {

void PlanCache::touch(PlanEntry& entry) {
  // A dropped entry has no place in the list any more, although a step may still use it.
  if (entry.cached) recent_.splice(recent_.begin(), recent_, entry.place);
}

std::shared_ptr<PlanEntry> PlanCache::find(const std::string& key) {
  const auto it = plans_.find(key);
  if (it == plans_.end()) return nullptr;
  touch(*it->second);
  return it->second;
}

PlanCache::Steps PlanCache::insert(std::shared_ptr<PlanEntry> entry) {
  Steps dropped;
  recent_.push_front(entry);
  // A list keeps its iterators valid when other entries move, so the place can be kept.
  entry->place = recent_.begin();
  plans_[entry->key] = entry;
  // The new entry is the first of the list, so it is never the one that is dropped.
  while (plans_.size() > std::max<size_t>(limit_, 1)) {
    const std::shared_ptr<PlanEntry> oldest = recent_.back();
    oldest->cached = false;
    std::move(oldest->idle.begin(), oldest->idle.end(), std::back_inserter(dropped));
    // To free a run takes a call to its hosts, which the caller makes without the lock. Runs in
    // flight are freed when their steps are given back.
    oldest->idle.clear();
    plans_.erase(oldest->key);
    recent_.pop_back();
  }
  return dropped;
}

PlanCache::Steps PlanCache::take_idle() {
  Steps idle;
  for (auto& [_, entry] : plans_) {
    std::move(entry->idle.begin(), entry->idle.end(), std::back_inserter(idle));
    entry->idle.clear();
  }
  return idle;
}

}  // namespace leat
