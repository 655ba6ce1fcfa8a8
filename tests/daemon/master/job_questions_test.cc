// Questions about jobs that come at the same time, and those that come too late.
#include "daemon/master/job_questions.h"

#include <atomic>
#include <future>
#include <map>

#include "tests/catch.h"
#include "tests/eventually.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Answers with the name of the job, when the test lets it.
class Answerer {
 public:
  Result<Diagnosis> answer(const std::string& id) {
    ++begun;
    open_.wait();
    Diagnosis out;
    out.subject = id;
    return out;
  }
  void open() { opens_.set_value(); }
  std::atomic<int> begun{0};

 private:
  std::promise<void> opens_;
  std::shared_future<void> open_ = opens_.get_future().share();
};

// Counts the answers by their subject, or by the code of their status.
struct Asker {
  explicit Asker(JobQuestions& questions) : questions(questions) {}
  void ask(const std::string& id) {
    questions.ask(id, [this](const Result<Diagnosis>& answer) {
      const std::lock_guard lock(mutex);
      ++answers[answer.ok() ? answer->subject : std::string(code_name(answer.status().code()))];
    });
  }
  int of(const std::string& key) {
    const std::lock_guard lock(mutex);
    return answers[key];
  }
  JobQuestions& questions;
  std::mutex mutex;
  std::map<std::string, int> answers;
};

TEST_CASE("questions about one job that no thread has begun with share an answer") {
  Answerer answerer;
  JobQuestions questions([&](const std::string& id, auto) { return answerer.answer(id); });
  Asker asker(questions);
  // One thread each is at work for a, b, c and d.
  int begun = 0;
  for (const char* id : {"a", "b", "c", "d"}) {
    asker.ask(id);
    ++begun;
    REQUIRE(eventually([&] { return answerer.begun == begun; }));
  }
  for (int i = 0; i < 10; ++i) asker.ask("a");
  answerer.open();
  CHECK(eventually([&] { return asker.of("a") == 11; }));
  CHECK(answerer.begun == 5);
  for (const char* id : {"b", "c", "d"}) CHECK(eventually([&] { return asker.of(id) == 1; }));
}

TEST_CASE("a question about another job does not wait for the first") {
  Answerer slow;
  JobQuestions questions([&](const std::string& id, auto) -> Result<Diagnosis> {
    if (id == "slow") return slow.answer(id);
    Diagnosis out;
    out.subject = id;
    return out;
  });
  Asker asker(questions);
  asker.ask("slow");
  asker.ask("quick");
  CHECK(eventually([&] { return asker.of("quick") == 1; }));
  CHECK(asker.of("slow") == 0);
  slow.open();
  CHECK(eventually([&] { return asker.of("slow") == 1; }));
}

TEST_CASE("a question that is not begun when the master stops, or comes later, is cancelled") {
  Answerer answerer;
  JobQuestions questions([&](const std::string& id, auto) { return answerer.answer(id); });
  Asker asker(questions);
  for (const char* id : {"a", "b", "c", "d", "e", "f"}) asker.ask(id);
  REQUIRE(eventually([&] { return answerer.begun == 4; }));
  std::thread stopper([&] { questions.stop(); });
  CHECK(eventually([&] { return asker.of("cancelled") == 2; }));
  answerer.open();
  stopper.join();
  asker.ask("late");
  CHECK(asker.of("cancelled") == 3);
}

}  // namespace
}  // namespace leat
