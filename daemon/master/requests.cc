#include "daemon/master/requests.h"

#include <utility>

namespace leat {

uint64_t Tickets::open(AnswerJob done) {
  open_[++last_] = std::move(done);
  return last_;
}

void Tickets::answer(Answer answer) {
  const auto found = open_.find(answer.ticket);
  if (found == open_.end()) return;
  const auto done = std::move(found->second);
  open_.erase(found);
  done(std::move(answer.view));
  if (settling() && open_.empty()) settled_->set_value();
}

void Tickets::settle(std::shared_ptr<std::promise<void>> settled) {
  settled_ = std::move(settled);
  if (open_.empty()) settled_->set_value();
}

void Tickets::cancel(const Status& status) {
  for (auto& [ticket, done] : std::exchange(open_, {})) done(status);
}

void Watchers::add(Watcher watcher) {
  if (!answered(watcher)) watchers_.push_back(std::move(watcher));
}

void Watchers::answer(uint64_t version) {
  if (watchers_.empty() || std::exchange(version_, version) == version) return;
  answer_late();
}

void Watchers::answer_late() {
  for (auto at = watchers_.begin(); at != watchers_.end();)
    at = answered(*at) ? watchers_.erase(at) : std::next(at);
}

void Watchers::cancel(const Status& status) {
  for (Watcher& watcher : std::exchange(watchers_, {})) watcher.done(status);
}

bool Watchers::answered(Watcher& watcher) const {
  auto view = find_(watcher.id);
  const bool late = watcher.deadline <= std::chrono::steady_clock::now();
  if (view.ok() && view->version <= watcher.seen && !late) return false;
  watcher.done(std::move(view));
  return true;
}

}  // namespace leat
