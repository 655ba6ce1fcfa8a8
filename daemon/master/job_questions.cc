#include "daemon/master/job_questions.h"

#include <utility>

#include "devices/base/text.h"

namespace leat {

Status is_stopping() { return cancelled("the master is stopping"); }

JobQuestions::JobQuestions(Answer answer) : answer_(std::move(answer)) {
  for (size_t t = 0; t < kAtOnce; ++t)
    threads_.push_back(std::make_unique<TaskThread>(cat("why ", t)));
}

void JobQuestions::ask(std::string id, Done done) {
  std::unique_lock lock(mutex_);
  if (stopped_) {
    lock.unlock();
    return done(is_stopping());
  }
  for (Question& question : waiting_) {
    if (question.id != id) continue;
    question.done.push_back(std::move(done));
    return;
  }
  waiting_.push_back({std::move(id), std::chrono::steady_clock::now(), {}});
  waiting_.back().done.push_back(std::move(done));
  // The thread that is free first takes the question; the others find none.
  for (const auto& thread : threads_) (void)thread->post([this] { answer_next(); });
}

void JobQuestions::answer_next() {
  std::unique_lock lock(mutex_);
  if (waiting_.empty()) return;
  const Question question = std::move(waiting_.front());
  waiting_.pop_front();
  lock.unlock();
  const Result<Diagnosis> answer = answer_(question.id, question.asked);
  for (const Done& done : question.done) done(answer);
}

void JobQuestions::stop() {
  std::deque<Question> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(waiting_);
  }
  for (const Question& question : dropped) {
    for (const Done& done : question.done) done(is_stopping());
  }
  for (const auto& thread : threads_) thread->stop();
}

}  // namespace leat
