#include "daemon/master/requests.h"

#include <utility>

namespace leat {

uint64_t Tickets::open(AnswerJob done) {
  open_[++last_] = std::move(done);
  return last_;
}

void Tickets::answer(Answer answer) {
  // A ticket that cancel() answered is not open any more, so a request is answered once at most.
  const auto found = open_.find(answer.ticket);
  if (found == open_.end()) return;
  const auto done = std::move(found->second);
  open_.erase(found);
  done(std::move(answer.view));
  // The promise is set once: settle() ends the tickets, so `open_` cannot become empty a second
  // time.
  if (settling() && open_.empty()) settled_->set_value();
}

void Tickets::settle(std::shared_ptr<std::promise<void>> settled) {
  settled_ = std::move(settled);
  // With no open ticket there is no later answer that could set the promise.
  if (open_.empty()) settled_->set_value();
}

void Tickets::cancel(const Status& status) {
  // The table is emptied first, so that no call below can find a ticket that was answered.
  for (auto& [ticket, done] : std::exchange(open_, {})) done(status);
}

void Watchers::add(Watcher watcher) {
  if (!answered(watcher)) watchers_.push_back(std::move(watcher));
}

void Watchers::answer(uint64_t version) {
  // This is called after each event. With the same version no view has changed, so that no watcher
  // has to be looked at.
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
  // An error of `find_` is an answer, too: the job was removed, or its id was never right. A
  // watcher whose time is over gets the view that it has seen already.
  auto view = find_(watcher.id);
  const bool late = watcher.deadline <= std::chrono::steady_clock::now();
  if (view.ok() && view->version <= watcher.seen && !late) return false;
  watcher.done(std::move(view));
  return true;
}

}  // namespace leat
