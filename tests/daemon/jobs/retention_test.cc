// Tests how ended jobs are forgotten: by request, by age, by count and by bytes.
#include "daemon/jobs/retention.h"

#include <functional>

#include "daemon/jobs/job_table.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Makes a job for each letter and cancels it, in this order, one minute apart.
void end_jobs(TableDriver& driver, std::string_view names) {
  uint64_t ticket = 0;
  for (const char name : names) {
    const std::string id = driver.submit(std::string(1, name), 1);
    driver.send(CancelAsked{++ticket, id, ""});
    driver.advance(1min);
  }
}

std::string names_of(const TableDriver& driver) {
  std::string names;
  for (const JobView& job : driver.table->jobs()) names += job.name;
  return names;
}

}  // namespace

TEST_CASE("a job is kept while age, count and bytes allow it") {
  CHECK_FALSE(forgets_oldest({}, {1000, uint64_t{1} << 60, 24h * 10000}));
  CHECK(forgets_oldest({}, {1001, 0, 0ms}));
  CHECK_FALSE(forgets_oldest({.max_age = 1h}, {1, 0, 1h}));
  CHECK(forgets_oldest({.max_age = 1h}, {1, 0, 1h + 1ms}));
  CHECK_FALSE(forgets_oldest({.max_bytes = 10}, {5, 10, 1h}));
  CHECK(forgets_oldest({.max_bytes = 10}, {1, 11, 1h}));
  CHECK_FALSE(forgets_oldest({.max_jobs = 0}, {}));
}

TEST_CASE("jobs that ended too long ago are forgotten") {
  TableDriver driver({.retention = {.max_age = 150s}, .other_side = {}});
  end_jobs(driver, "abc");
  driver.tick(0ms);  // they ended 3, 2 and 1 minutes ago
  CHECK(names_of(driver) == "bc");
  driver.tick(31s);
  CHECK(names_of(driver) == "c");
}

TEST_CASE("jobs that ended first make room for the bytes of others") {
  TableDriver driver({.retention = {.max_bytes = 100}, .other_side = {}});
  end_jobs(driver, "abc");
  driver.submit("lives", 1);
  const auto weigh = [&](const std::string& name, uint64_t bytes) {
    for (const JobView& job : driver.table->jobs())
      if (job.name == name) return driver.send(JobWeighed{job.id, bytes});
  };
  weigh("lives", 1000);  // it has not ended, so it does not count
  weigh("a", 60);
  weigh("b", 40);
  CHECK(names_of(driver) == "abclives");
  weigh("c", 30);
  CHECK(names_of(driver) == "bclives");
  weigh("c", 101);  // more than the limit, so no ended job stays
  CHECK(names_of(driver) == "lives");
}

TEST_CASE("a job that has ended is removed when the journal has forgotten it, and no other") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.send(RemoveAsked{7, id});
  CHECK(driver.answer(7) ==
        "failed_precondition: job 'a-0000' is RUNNING: expected one that has ended");
  driver.send(RemoveAsked{8, "none"});
  CHECK(driver.answer(8) == "failed_precondition: there is no job 'none'");
  driver.send(JobFinished{id, 1, "3323"});
  driver.done();
  driver.send(RemoveAsked{9, id});  // its runner has not ended yet
  CHECK(driver.answer(9).empty());
  driver.hold_writes = true;
  driver.exit_all(id);
  CHECK(driver.answer(9).empty());
  CHECK(driver.table->find(id).ok());
  driver.release_writes();
  CHECK(driver.answer(9) == "ok SUCCEEDED");
  CHECK(driver.done().ends_with("remove a-0000\n"));
  CHECK(driver.journal.size() == 0);
  driver.restart();
  CHECK(driver.table->jobs().empty());
}

TEST_CASE("a new job has no forgotten one's id, whose folder may still be there") {
  JobTable table({}, [] { return uint64_t{7}; });
  std::vector<std::string> ids;
  const std::function<void(JobEvent)> send = [&](JobEvent event) {
    for (const JobAction& action : table.handle(std::move(event), {})) {
      if (const auto* write = std::get_if<WriteJournal>(&action)) {
        send(JournalWritten{write->write, Status()});
      } else if (const auto* answer = std::get_if<Answer>(&action)) {
        ids.push_back(answer->view->id);
      }
    }
  };
  send(SubmitAsked{1, make_submission("r1", "a", 1)});
  send(CancelAsked{2, ids.at(0), ""});
  send(RemoveAsked{3, ids.at(0)});
  CHECK(table.jobs().empty());
  send(SubmitAsked{4, make_submission("r2", "a", 1)});
  CHECK(ids.back() != ids.front());
}

TEST_CASE("a job whose removal cannot be written is there still") {
  TableDriver driver;
  const std::string id = driver.submit("a", 1);
  driver.send(CancelAsked{1, id, ""});
  driver.write_status = resource_exhausted("disk full");
  driver.send(RemoveAsked{2, id});
  CHECK(driver.answer(2) ==
        "resource_exhausted: job 'a-0000' is not removed, since the journal cannot be written: "
        "disk full");
  driver.write_status = Status();
  driver.tick(1s);
  CHECK(driver.table->find(id).ok());
  driver.send(RemoveAsked{3, id});
  CHECK(driver.answer(3) == "ok CANCELLED");
  CHECK(driver.table->jobs().empty());
}

}  // namespace leat
