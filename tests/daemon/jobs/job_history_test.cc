#include "daemon/jobs/sqlite.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/journal_fixture.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

ProgressReport report(uint64_t step, uint64_t first_step, RecoverySource from) {
  ProgressReport report;
  report.step = step;
  report.steps = 100;
  report.first_step = first_step;
  report.from = from;
  return report;
}

TEST_CASE("the history says what an assembly was lost by, and how the job went on") {
  TableDriver driver;
  driver.join("w1");
  driver.join("w2");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  const int64_t began = moment_of(driver.clock).wall_ms;
  driver.advance(milliseconds(1000));
  driver.send(ProgressMade{id, 1, report(57, 0, RecoverySource::start)});
  driver.advance(milliseconds(3000));
  driver.send(WorkerLost{{"w1", 1}, "no heartbeat for 2.5 s", milliseconds(2500)});
  CHECK(driver.state(id) == "RECOVERING");
  const auto view = [&] { return *driver.table->find(id); };
  REQUIRE(view().history.last.size() == 1);
  LostAssembly expected;
  expected.number = expected.assembly = 1;
  expected.cause = "worker 'w1' was lost: no heartbeat for 2.5 s, after step 57";
  expected.culprit = "w1";
  expected.began_ms = began;
  expected.failed_ms = began + 4000;
  expected.detected_after = 2500;
  expected.stopped_at = 57;
  CHECK(view().history.last[0] == expected);

  driver.start_all(id);
  driver.advance(milliseconds(700));
  driver.send(ProgressMade{id, 2, report(40, 40, RecoverySource::checkpoint)});
  CHECK(view().history.last[0].recovered_after == -1);
  driver.advance(milliseconds(100));
  driver.hold_writes = true;
  driver.send(ProgressMade{id, 2, report(41, 40, RecoverySource::checkpoint)});
  CHECK(view().history.last[0].recovered_after == -1);  // not before the journal has it
  driver.release_writes();
  driver.advance(milliseconds(100));
  driver.send(ProgressMade{id, 2, report(42, 40, RecoverySource::checkpoint)});
  expected.recovered_after = 800;
  expected.went_on_from = 40;
  expected.source = RecoverySource::checkpoint;
  CHECK(view().history.last[0] == expected);
  CHECK(view().history.last[0].recomputed() == 17);
  CHECK(view().condition.state == JobState::running);
  CHECK(driver.table->jobs()[0].history.count == 1);
  CHECK(driver.table->jobs()[0].history.last.empty());

  driver.send(JobFinished{id, 2, "abc"});
  CHECK(driver.journal.find(id)->history == view().history);
}

TEST_CASE("an assembly that a master's restart ended is in the history, once") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.restart();
  driver.restart();
  auto history = driver.table->find(id)->history;
  REQUIRE(history.last.size() == 1);
  CHECK(history.last[0].assembly == 1);
  CHECK(history.last[0].cause == "the master restarted");
  CHECK(history.last[0].stopped_at == -1);
  driver.join("w1", 2);
  driver.start_all(id);
  driver.send(ProgressMade{id, 2, report(1, 0, RecoverySource::start)});
  history = driver.table->find(id)->history;
  REQUIRE(history.last.size() == 1);
  CHECK(history.last[0].recovered_after >= 0);
  CHECK_FALSE(history.last[0].recomputed());
}

TEST_CASE("facts about lost assemblies wait until the journal can be written") {
  TableDriver driver({.retry_after = milliseconds(100), .other_side = {}});
  driver.join("w1");
  driver.join("w2");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.lose("w1");
  driver.start_all(id);
  driver.write_status = resource_exhausted("disk full");
  driver.send(ProgressMade{id, 2, report(1, 0, RecoverySource::start)});
  CHECK(driver.table->find(id)->history.last.at(0).recovered_after == -1);
  driver.write_status = Status();
  driver.tick(milliseconds(200));
  CHECK(driver.table->find(id)->history.last.at(0).recovered_after == 0);
}

LostAssembly lost_assembly(uint64_t number) {
  LostAssembly lost;
  lost.number = number;
  lost.assembly = number + 1;
  lost.cause = "worker 'w1' was lost";
  lost.culprit = "w1";
  lost.fault = "kill=worker:1@step=7";
  lost.failed_ms = 12;
  lost.stopped_at = 9;
  lost.source = RecoverySource::memory;
  return lost;
}

TEST_CASE("the journal keeps the last lost assemblies of a job, and their number") {
  const JournalFolder folder;
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
    REQUIRE_OK(journal->append(submitted(2, "b-0002", make_submission("q", "b", 1))));
    JobCondition starting;
    starting.state = JobState::starting;
    REQUIRE_OK(
        journal->append(JobChanged{"a-0001", starting, {lost_assembly(1), lost_assembly(2)}}));
    for (uint64_t i = 2; i <= 130; ++i) {
      LostAssembly lost = lost_assembly(i);
      REQUIRE_OK(journal->append(JobNoted{"a-0001", {lost}}));
      lost.recovered_after = 5;
      REQUIRE_OK(journal->append(JobNoted{"a-0001", {lost}}));
    }
  }
  const auto journal = open_journal(folder.path());
  const auto jobs = journal->replay();
  REQUIRE(jobs.ok());
  CHECK(jobs->at(0).condition.state == JobState::starting);
  const JobHistory& history = jobs->at(0).history;
  CHECK(history.count == 130);
  REQUIRE(history.last.size() == JobHistory::kKept);
  LostAssembly expected = lost_assembly(130);
  expected.recovered_after = 5;
  CHECK(history.last.back() == expected);
  CHECK(history.last.front().number == 31);
  CHECK(jobs->at(1).history == JobHistory());
  REQUIRE_OK(journal->append(JobForgotten{"a-0001"}));
  CHECK(journal->replay()->size() == 1);
}

TEST_CASE("a journal of before there were lost assemblies is replayed, and takes them") {
  const JournalFolder folder;
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
  }
  {
    const auto database = SqliteDatabase::open(folder.path() + "/journal.sqlite", false);
    REQUIRE_OK(database.status());
    REQUIRE_OK(
        (*database)->run("DROP TABLE lost_epochs; DROP TABLE elastic_jobs; "
                         "DROP TABLE drained_workers; DELETE FROM meta WHERE key = 'crc'; "
                         "PRAGMA user_version=1"));
  }
  const auto journal = open_journal(folder.path());
  CHECK(journal->replay()->at(0).history == JobHistory());
  REQUIRE_OK(journal->append(JobNoted{"a-0001", {lost_assembly(1)}}));
  CHECK(journal->replay()->at(0).history.last.at(0) == lost_assembly(1));
}

TEST_CASE("a fault of a job's chaos is in the journal before it comes, and comes once") {
  TableDriver driver;
  driver.join("w1");
  driver.join("w2");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.hold_writes = true;
  driver.send(FaultAsked{1, id, 1, 4, "kill=worker:0@step=7"});
  driver.send(FaultAsked{2, id, 1, 4, "kill=worker:0@step=7"});
  CHECK(driver.answer(1) == "");
  CHECK_THAT(driver.answer(2), Catch::Contains("it has come before"));
  driver.release_writes();
  CHECK(driver.answer(1) == "ok RUNNING");
  driver.send(FaultAsked{3, id, 1, 4, "kill=worker:0@step=7"});
  CHECK_THAT(driver.answer(3), Catch::Contains("it has come before"));
  driver.advance(milliseconds(90));
  driver.lose("w1");
  const LostAssembly lost = driver.table->find(id)->history.last.at(0);
  CHECK(lost.fault == "kill=worker:0@step=7");
  CHECK(lost.detected_after == 90);

  driver.send(FaultAsked{4, id, 1, 5, "kill=worker:0@step=9"});
  CHECK_THAT(driver.answer(4), Catch::Contains("the job's assembly is over"));
  driver.restart();
  driver.join("w2", 2);
  driver.start_all(id);
  driver.send(FaultAsked{5, id, driver.table->find(id)->condition.assembly, 4, "kill"});
  CHECK_THAT(driver.answer(5), Catch::Contains("it has come before"));
}

TEST_CASE("a fault that slows a runner down is not blamed for what another fault ended") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.send(FaultAsked{1, id, 1, 0, "exit=runner:0@step=30"});
  driver.send(FaultAsked{2, id, 1, 1, "slow=runner:0@step=15,for=50ms"});
  driver.lose("w1");
  CHECK(driver.table->find(id)->history.last.at(0).fault == "exit=runner:0@step=30");
}

TEST_CASE("three faults of a job's chaos at one step do not count as a repeated crash") {
  for (const bool asked : {true, false}) {
    TableDriver driver;
    driver.join("w1");
    const std::string id = driver.submit("a", 1);
    for (uint64_t assembly = 1; assembly <= 3; ++assembly) {
      driver.start_all(id);
      driver.send(ProgressMade{id, assembly, report(7, 0, RecoverySource::start)});
      const auto index = static_cast<uint32_t>(assembly);
      if (asked) driver.send(FaultAsked{assembly, id, assembly, index, "kill=runner:0@step=8"});
      driver.send(RunnerExited{id, assembly, {"w1", 1}, {"was killed by signal 11", true}});
      driver.tick(std::chrono::seconds(1));
    }
    CHECK(driver.state(id) == (asked ? "RECOVERING" : "FAILED"));
  }
}

TEST_CASE("the journal has a job's chaos, and the faults that have fired") {
  const JournalFolder folder;
  Submission submission = make_submission("r", "a", 2);
  const Sha256Digest plain = content_of(submission);
  submission.chaos = {"kill=worker:1@step=700", "seed=7,every=15s"};
  CHECK(content_of(submission) != plain);
  const FiredFault fired{3, "kill=worker:1@step=700", 2, 1234};
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", submission)));
    REQUIRE_OK(journal->append(JobNoted{"a-0001", {}, {fired}}));
  }
  const auto journal = open_journal(folder.path());
  CHECK(*journal->submission("a-0001") == submission);
  CHECK(journal->replay()->at(0).fired == std::vector<FiredFault>{fired});
  REQUIRE_OK(journal->append(JobForgotten{"a-0001"}));
  REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 1))));
  CHECK(journal->replay()->at(0).fired.empty());
  CHECK(journal->submission("a-0001")->chaos.empty());
}

TEST_CASE("a journal whose faults of a job's chaos were changed is refused") {
  const JournalFolder folder;
  {
    const auto journal = open_journal(folder.path());
    REQUIRE_OK(journal->append(submitted(1, "a-0001", make_submission("r", "a", 2))));
    const FiredFault fired{3, "kill=worker:1@step=700", 2, 1234};
    REQUIRE_OK(journal->append(JobNoted{"a-0001", {}, {fired}}));
  }
  {
    const auto database = SqliteDatabase::open(folder / "journal.sqlite", false);
    REQUIRE_OK(database.status());
    REQUIRE_OK((*database)->run("UPDATE fired_faults SET epoch = 3"));
  }
  CHECK_THAT(Journal::open(real_files(), folder.path()).status().message(),
             Catch::Contains("the checksum of a fired fault of job 1 is wrong"));
}

}  // namespace
}  // namespace leat
