#include "daemon/jobs/job_table.h"

#include <cmath>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

TEST_CASE("a job runs from its submit to its success") {
  TableDriver driver;
  driver.join("w1");
  driver.join("w2");
  const std::string id = driver.submit("Fashion MNIST", 2);
  CHECK(id == "fashion-mnist-0000");
  CHECK(driver.state(id) == "STARTING");
  CHECK(driver.done() == "start fashion-mnist-0000 1 w1 w2\n");
  driver.start_all(id);
  CHECK(driver.state(id) == "RUNNING");
  CHECK(driver.done() == "run fashion-mnist-0000 1 w1 w2\n");
  CHECK(driver.holder("w1") == id);
  driver.send(JobFinished{id, 1, "abc"});
  CHECK(driver.state(id) == "SUCCEEDED");
  CHECK(driver.table->find(id)->condition.result == JobResult{"abc"});
  CHECK(driver.done() == "end fashion-mnist-0000 1\nstop fashion-mnist-0000 1 w1 w2\n");
  CHECK(driver.table->leases().free() == 0);
  driver.exit_all(id);
  CHECK(driver.table->leases().free() == 2);
  CHECK(driver.state(id) == "SUCCEEDED");
  CHECK(driver.done() == "");
}

TEST_CASE("a submit is acknowledged when the journal has it, not before") {
  TableDriver driver;
  driver.hold_writes = true;
  driver.send(SubmitAsked{1, make_submission("r", "a", 1)});
  CHECK(driver.answer(1) == "");
  CHECK(driver.table->jobs().empty());
  CHECK_FALSE(driver.table->find("a").ok());
  driver.release_writes();
  CHECK(driver.answer(1) == "ok QUEUED");
  CHECK(driver.table->jobs().size() == 1);
}

TEST_CASE("the same request is the same job, and with other content an error") {
  TableDriver driver;
  driver.hold_writes = true;
  driver.send(SubmitAsked{1, make_submission("r", "a", 1)});
  driver.send(SubmitAsked{2, make_submission("r", "a", 1)});
  driver.send(SubmitAsked{3, make_submission("r", "a", 2)});
  CHECK(driver.answer(2) == "");
  driver.release_writes();
  driver.send(SubmitAsked{4, make_submission("r", "a", 1)});
  driver.send(SubmitAsked{5, make_submission("r", "a", 1, "version: 2\n")});
  for (const uint64_t ticket : {1, 2, 4}) {
    CHECK(driver.answer(ticket) == "ok QUEUED");
    CHECK(driver.answers.at(ticket)->id == "a-0000");
  }
  for (const uint64_t ticket : {3, 5}) {
    CHECK(driver.answer(ticket) ==
          "invalid_argument: submit: request id 'r' was used before, for job 'a-0000' with other "
          "content; expected a new id for a new job");
  }
  CHECK(driver.table->jobs().size() == 1);

  driver.restart();
  driver.send(SubmitAsked{6, make_submission("r", "a", 1)});
  driver.send(SubmitAsked{7, make_submission("r", "b", 1)});
  CHECK(driver.answer(6) == "ok QUEUED");
  CHECK_FALSE(driver.answers.at(7).ok());
  CHECK(driver.journal.size() == 1);
}

TEST_CASE("the request id of another user is a request of its own") {
  TableDriver driver;
  const auto send = [&](uint64_t ticket, const std::string& user, uint32_t workers) {
    Submission submission = make_submission("r", "a", workers);
    submission.terms.user = user;
    driver.send(SubmitAsked{ticket, submission});
    return driver.answers.at(ticket).ok() ? driver.answers.at(ticket)->id : driver.answer(ticket);
  };
  CHECK(send(1, "ann", 1) == "a-0000");
  // The answer tells nothing of the job of ann, whether the content is the same or not.
  CHECK(send(2, "bob", 1) == "a-0001");
  CHECK(send(3, "", 2) == "a-0002");
  for (uint64_t round = 0; round < 2; ++round) {
    CHECK(send(10 * round + 4, "ann", 1) == "a-0000");
    CHECK(send(10 * round + 5, "bob", 1) == "a-0001");
    CHECK(send(10 * round + 6, "", 2) == "a-0002");
    CHECK_THAT(send(10 * round + 7, "bob", 2), Catch::Contains("for job 'a-0001' with other"));
    if (round == 0) driver.restart();
  }
  CHECK(driver.table->job_of_request("ann", "r") == "a-0000");
  CHECK(driver.table->job_of_request("eve", "r") == "");
}

TEST_CASE("a submit that cannot be written is refused, and reads go on") {
  TableDriver driver;
  const std::string before = driver.submit("before", 1);
  driver.write_status = unavailable("disk on fire");
  driver.send(SubmitAsked{1, make_submission("r", "a", 1)});
  CHECK(driver.answer(1) ==
        "resource_exhausted: job 'a' was not accepted, since the journal cannot be written: disk "
        "on fire");
  CHECK(driver.table->jobs().size() == 1);
  CHECK(driver.state(before) == "QUEUED");
  CHECK(driver.reason(before) == "waits for the journal: disk on fire");
  CHECK(driver.table->journal_status().code() == Code::unavailable);
  driver.write_status = Status();
  driver.send(SubmitAsked{2, make_submission("r", "a", 1)});
  CHECK(driver.answer(2) == "ok QUEUED");
  CHECK(driver.table->journal_status().ok());
}

TEST_CASE("a change that cannot be written is not seen, and comes when the journal is well") {
  TableDriver driver;
  const std::string id = driver.submit("a", 1);
  driver.write_status = resource_exhausted("disk full");
  driver.join("w1");
  CHECK(driver.state(id) == "QUEUED");
  CHECK(driver.done() == "");
  CHECK(driver.table->leases().free() == 1);
  driver.tick(milliseconds(900));
  CHECK(driver.table->leases().free() == 1);
  driver.write_status = Status();
  driver.tick(milliseconds(100));
  CHECK(driver.state(id) == "STARTING");
  CHECK(driver.done() == "start a-0000 1 w1\n");

  driver.start_all(id);
  driver.write_status = resource_exhausted("disk full");
  driver.send(JobFinished{id, 1, "abc"});
  driver.send(CancelAsked{1, id, ""});
  CHECK(driver.state(id) == "RUNNING");
  driver.write_status = Status();
  driver.tick(milliseconds(1000));
  CHECK(driver.state(id) == "SUCCEEDED");
  CHECK(driver.answer(1) == "ok SUCCEEDED");
}

TEST_CASE("a cancel that cannot be written says so and is tried again") {
  TableDriver driver;
  const std::string id = driver.submit("a", 1);
  driver.write_status = resource_exhausted("disk full");
  driver.send(CancelAsked{1, id, ""});
  CHECK(driver.answer(1) ==
        "resource_exhausted: job 'a-0000' is not cancelled yet, since the journal cannot be "
        "written: disk full; it is tried again");
  CHECK(driver.state(id) == "QUEUED");
  driver.write_status = Status();
  driver.tick(milliseconds(1000));
  CHECK(driver.state(id) == "CANCELLED");
}

TEST_CASE("a queued job is cancelled at once, a running one when its runners are gone") {
  TableDriver driver;
  driver.join("w1");
  const std::string running = driver.submit("a", 1);
  const std::string queued = driver.submit("b", 1);
  driver.start_all(running);
  driver.done();
  driver.send(CancelAsked{1, queued, "ann"});
  CHECK(driver.answer(1) == "ok CANCELLED");
  CHECK(driver.reason(queued) == "cancelled before it started");
  driver.send(CancelAsked{2, running, "ann"});
  CHECK(driver.answer(2) == "ok CANCELLING");
  CHECK(driver.reason(running) == "cancelled by ann");
  CHECK(driver.done() == "end a-0000 1\nstop a-0000 1 w1\n");
  driver.send(CancelAsked{3, running, "bob"});
  CHECK(driver.answer(3) == "ok CANCELLING");
  CHECK(driver.done() == "");
  driver.exit_all(running);
  CHECK(driver.state(running) == "CANCELLED");
  CHECK(driver.reason(running) == "cancelled by ann");
  for (const uint64_t ticket : {4, 5}) driver.send(CancelAsked{ticket, running, ""});
  CHECK(driver.answer(5) == "ok CANCELLED");
  driver.send(CancelAsked{6, "nothing", ""});
  CHECK(driver.answer(6) == "failed_precondition: there is no job 'nothing'");
}

TEST_CASE("a cancel of a job whose workers were just leased starts no runner") {
  TableDriver driver;
  const std::string id = driver.submit("a", 1);
  driver.hold_writes = true;
  driver.join("w1");
  driver.send(CancelAsked{1, id, ""});
  CHECK(driver.answer(1) == "");
  driver.release_writes();
  CHECK(driver.answer(1) == "ok CANCELLING");
  CHECK(driver.state(id) == "CANCELLED");
  CHECK(driver.done() == "");
  CHECK(driver.table->leases().free() == 1);
}

TEST_CASE("the queue is first come first served, and says what it waits for") {
  TableDriver driver;
  driver.join("w1");
  driver.join("w2");
  const std::string first = driver.submit("first", 1);
  const std::string second = driver.submit("second", 2);
  const std::string third = driver.submit("third", 1);
  const std::string huge = driver.submit("huge", 3);
  CHECK(driver.state(first) == "STARTING");
  CHECK(driver.reason(second) == "waits for 2 workers, 1 free; 'first-0000' has 1");
  CHECK(driver.reason(third) ==
        "position 2; waits for 1 worker, 1 free; 'second-0001' is before it");
  CHECK(driver.reason(huge) == "position 3; waits for 3 workers, 2 there");
  const uint64_t version = driver.table->find(huge)->version;
  driver.join("w3");
  CHECK(driver.table->find(huge)->version > version);
  CHECK(driver.state(second) == "STARTING");
  CHECK(driver.state(third) == "QUEUED");
  CHECK(driver.reason(third) ==
        "waits for 1 worker, 0 free; 'first-0000' has 1, 'second-0001' has 2");
  CHECK(driver.reason(huge) ==
        "position 2; waits for 3 workers, 0 free; 'third-0002' is before it");
}

TEST_CASE("a job that wants more workers than there are keeps no job waiting") {
  TableDriver driver;
  driver.join("w1");
  const std::string huge = driver.submit("huge", 3);
  const std::string small = driver.submit("small", 1);
  CHECK(driver.state(huge) == "QUEUED");
  CHECK(driver.state(small) == "STARTING");
}

TEST_CASE("a draining worker keeps a job that ends soon, and gets no other") {
  TableDriver driver;
  driver.join("w1");
  const std::string first = driver.submit("first", 1);
  driver.start_all(first);
  driver.send(WorkerDraining{{"w1", 1}, true});
  CHECK(driver.state(first) == "RUNNING");
  driver.send(JobFinished{first, 1, ""});
  driver.exit_all(first);
  const std::string second = driver.submit("second", 1);
  CHECK(driver.reason(second) == "waits for 1 worker, 0 there; 'w1' is drained");
  driver.send(WorkerDraining{{"w1", 1}, false});
  CHECK(driver.state(second) == "STARTING");
}

TEST_CASE("a job that recovers comes before those submitted later") {
  TableDriver driver;
  driver.join("w1");
  driver.join("w2");
  const std::string first = driver.submit("first", 2);
  const std::string second = driver.submit("second", 1);
  driver.start_all(first);
  driver.send(JobBroke{first, 1, deadline_exceeded("step 3 did not finish")});
  driver.lose("w1");
  driver.exit_all(first);
  const std::string cause = "deadline_exceeded: step 3 did not finish";
  CHECK(driver.reason(first) == cause + "; waits for 2 workers, 1 there");
  CHECK(driver.state(second) == "STARTING");  // w2 alone is not enough for the first
  driver.join("w1", 2);
  CHECK(driver.reason(first) == cause + "; waits for 2 workers, 1 free; 'second-0001' has 1");
  const std::string third = driver.submit("third", 1);
  CHECK(driver.state(third) == "QUEUED");
}

TEST_CASE("a runner that does not come in time costs the job its assembly") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.done();
  driver.tick(milliseconds(29999));
  CHECK(driver.state(id) == "STARTING");
  driver.tick(milliseconds(1));
  CHECK(driver.state(id) == "RECOVERING");
  CHECK(driver.reason(id) ==
        "the runner on 'w1' did not start in time; waits for 1 worker, 0 free; it starts by "
        "1970-01-01 01:01 UTC");
  CHECK(driver.done() == "stop a-0000 1 w1\n");
}

TEST_CASE("a runner that does not go in time costs its worker the membership") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.send(CancelAsked{1, id, ""});
  driver.done();
  driver.tick(milliseconds(6499));
  CHECK(driver.done() == "");
  driver.tick(milliseconds(1));
  CHECK(driver.done() == "expel w1\n");
  CHECK(driver.state(id) == "CANCELLING");
  driver.lose("w1");
  CHECK(driver.state(id) == "CANCELLED");
}

TEST_CASE("a runner that no job expects is told to stop") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.done();
  driver.send(RunnerStarted{id, 7, {"w1", 1}});
  driver.send(RunnerStarted{"other", 1, {"w1", 1}});
  driver.send(RunnerStarted{id, 1, {"w1", 2}});
  CHECK(driver.done() == "stop a-0000 7 w1\nstop other 1 w1\nstop a-0000 1 w1\n");
  CHECK(driver.state(id) == "RUNNING");
}

TEST_CASE("a new process of a worker ends the leases of the old one") {
  TableDriver driver;
  driver.join("w1", 1);
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.done();
  driver.join("w1", 2);
  CHECK(driver.reason(id) == "worker 'w1' was lost: another process of that name has joined");
  CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1\n");
  driver.send(WorkerLost{{"w1", 1}, "late news"});
  driver.send(RunnerExited{id, 1, {"w1", 1}, "late news"});
  driver.send(RunnerExited{id, 2, {"w1", 1}, "of the wrong process"});
  CHECK(driver.table->find(id)->condition.restarts == 1);
  CHECK(driver.holder("w1") == id);
}

TEST_CASE("jobs are found by a unique beginning of their ids") {
  TableDriver driver;
  driver.submit("fashion", 1);
  driver.submit("fashion", 1);
  driver.submit("fa", 1);
  CHECK(driver.table->find("fashion-0000")->number == 1);
  CHECK(driver.table->find("fa-")->number == 3);
  CHECK(driver.table->find("fashion").status().to_string() ==
        "invalid_argument: 'fashion' begins the ids of 2 jobs, expected one: fashion-0000, "
        "fashion-0001");
  CHECK(driver.table->find("").status().code() == Code::failed_precondition);
  CHECK(driver.table->find("x").status().code() == Code::failed_precondition);
}

TEST_CASE("the jobs that ended first are dropped beyond a limit") {
  JobTableLimits limits;
  limits.retention.max_jobs = 2;
  TableDriver driver(limits);
  std::vector<std::string> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(driver.submit("a", 1));
  for (const int i : {2, 0}) driver.send(CancelAsked{uint64_t(i), ids[i], ""});
  CHECK(driver.table->jobs().size() == 4);
  driver.send(CancelAsked{7, ids[3], ""});
  CHECK(driver.done() == "remove " + ids[2] + "\n");
  CHECK(driver.table->jobs().size() == 3);
  CHECK(driver.journal.size() == 3);
  driver.restart();
  CHECK(driver.table->jobs().size() == 3);
  driver.send(CancelAsked{8, ids[1], ""});
  CHECK(driver.table->jobs().size() == 2);
}

TEST_CASE("a restarted master knows what an ended job came to") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  ProgressReport report;
  report.step = report.steps = 40;
  report.loss = 0.25;
  driver.send(ProgressMade{id, 1, report});
  driver.send(RunWaits{id, 1, "waits for room"});
  CHECK(driver.reason(id) == "waits for room");
  CHECK(driver.journal.find(id)->condition.reason.empty());
  driver.send(RunWaits{id, 1, ""});
  CHECK(driver.reason(id).empty());
  driver.send(JobFinished{id, 1, "3323"});
  driver.exit_all(id);
  REQUIRE(driver.state(id) == "SUCCEEDED");
  const std::string silent = driver.submit("b", 9);
  driver.send(CancelAsked{1, silent, ""});
  driver.restart();
  CHECK(driver.table->find(id)->progress.last == report);
  CHECK(std::isnan(driver.table->find(id)->progress.steps_per_second));
  CHECK(driver.table->find(silent)->progress.last == ProgressReport());
}

TEST_CASE("jobs wait for a journal that refuses, say so, and keep what they hold") {
  TableDriver driver;
  for (const char* worker : {"w1", "w2", "w3"}) driver.join(worker);
  const std::string id = driver.submit("a", 2), other = driver.submit("b", 1);
  driver.start_all(id);
  driver.start_all(other);
  driver.done();
  const std::string full = "waits for the journal: disk full";
  SECTION("a failure that is to be written") {
    driver.write_status = resource_exhausted("disk full");
    driver.lose("w2");
    CHECK(driver.state(id) == "RUNNING");
    CHECK(driver.reason(id) == full);
    CHECK(driver.reason(other).empty());  // it keeps stepping
    driver.tick(std::chrono::minutes(2));
    CHECK(driver.reason(id) == full);
    driver.join("w4");
    driver.write_status = Status();
    driver.tick(std::chrono::minutes(2));
    CHECK(driver.done() == "end a-0000 1\nstart a-0000 2 w1* w4\n");
  }
  SECTION("an assembly that is to be written") {
    driver.lose("w2");
    driver.done();
    driver.write_status = resource_exhausted("disk full");
    driver.join("w4");
    CHECK_THAT(driver.reason(id), Catch::EndsWith("; " + full));
    for (int minutes = 0; minutes < 3; ++minutes) driver.tick(std::chrono::minutes(1));
    CHECK_THAT(driver.reason(id), Catch::EndsWith("; " + full));
    driver.write_status = Status();
    driver.tick(std::chrono::minutes(1));
    CHECK(driver.done() == "start a-0000 2 w1* w4\n");
  }
}

TEST_CASE("more unfinished jobs than the limit are refused") {
  JobTableLimits limits;
  limits.max_unfinished = 1;
  TableDriver driver(limits);
  driver.submit("a", 1);
  driver.send(SubmitAsked{1, make_submission("r", "b", 1)});
  CHECK(driver.answers.at(1).status().code() == Code::resource_exhausted);
}

TEST_CASE("a user has no more jobs that wait or run than the quota, and others have theirs") {
  JobTableLimits limits;
  limits.quotas.jobs = 2;
  TableDriver driver(limits);
  const auto submit = [&](uint64_t ticket, const std::string& user, uint64_t request = 0) {
    Submission submission = make_submission(cat("r", request == 0 ? ticket : request), "a", 1);
    submission.terms.user = user;
    driver.send(SubmitAsked{ticket, std::move(submission)});
    return driver.answers.at(ticket);
  };
  const auto first = submit(1, "ann");
  REQUIRE(first.ok());
  CHECK(submit(2, "ann").ok());
  const auto third = submit(3, "ann");
  CHECK(third.status().code() == Code::resource_exhausted);
  CHECK_THAT(third.status().message(), Catch::Contains("'ann' may have 2 jobs that wait or run "
                                                       "(quotas.jobs), and there are 2"));
  CHECK(submit(4, "bob").ok());
  CHECK(submit(5, "").ok());
  // One that has ended makes room, and a repeated request counts once.
  driver.send(CancelAsked{6, first->id, ""});
  CHECK(submit(7, "ann").ok());
  CHECK(submit(8, "ann", 7).ok());
}

TEST_CASE("a restarted master gives jobs that had runners new ones, before the queue") {
  TableDriver driver;
  driver.join("w1");
  const std::string running = driver.submit("running", 1);
  const std::string queued = driver.submit("queued", 1);
  driver.start_all(running);
  driver.write_status = resource_exhausted("disk full");
  driver.restart();
  CHECK(driver.state(running) == "RUNNING");  // the journal's state
  driver.write_status = Status();
  driver.tick(milliseconds(1000));
  CHECK(driver.state(running) == "RECOVERING");
  CHECK(driver.reason(running) == "the master restarted; waits for the runners that it had");
  CHECK(driver.reason(queued) == "position 2; waits for 1 worker, 0 there");
  driver.done();
  driver.join("w1", 2);
  CHECK(driver.done() == "start " + running + " 2 w1\n");
  driver.start_all(running);
  CHECK(driver.state(running) == "RUNNING");
  CHECK(driver.journal.find(running)->condition.restarts == 0);
  CHECK(driver.reason(queued) == "waits for 1 worker, 0 free; 'running-0000' has 1");
  driver.send(JobFinished{running, 1, "of the last master's assembly"});
  CHECK(driver.state(running) == "RUNNING");
  driver.send(JobFinished{running, 2, "weights"});
  CHECK(driver.state(running) == "SUCCEEDED");
}

TEST_CASE("the view that answers a submit waits for nothing if its workers are there") {
  TableDriver driver;
  driver.join("w1");
  driver.send(SubmitAsked{1, make_submission("r1", "a", 1)});
  CHECK(driver.answers.at(1)->condition.reason.empty());
  driver.send(SubmitAsked{2, make_submission("r2", "b", 1)});
  CHECK(driver.answers.at(2)->condition.reason == "waits for 1 worker, 0 free; 'a-0000' has 1");
}

TEST_CASE("restarts of the master are none of a job's, whose own are kept") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1, 1);
  driver.start_all(id);
  driver.send(ProgressMade{id, 1, {.step = 3}});
  driver.lose("w1");
  for (uint64_t life = 2; life <= 5; ++life) {
    driver.restart();
    CHECK(driver.state(id) == "RECOVERING");
    CHECK(driver.journal.find(id)->condition.restarts == 1);
    driver.join("w1", life);
    driver.start_all(id);
    CHECK(driver.state(id) == "RUNNING");
  }
  driver.lose("w1", 5);
  CHECK(driver.state(id) == "FAILED");
}

TEST_CASE("a job that is cancelled while no worker is there after a restart ends") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  driver.restart();
  driver.send(CancelAsked{7, id, ""});
  CHECK(driver.answer(7) == "ok CANCELLING");
  CHECK(driver.state(id) == "CANCELLED");
}

TEST_CASE("views of a restarted master are newer than those of the one before") {
  JobTable first({}, [] { return 1; });
  first.restore({}, Moment(), 1);
  JobTable second({}, [] { return 1; });
  second.restore({}, Moment(), 2);
  for (int i = 0; i < 1000; ++i) first.handle(WorkerJoined{{"w1", uint64_t(1 + i)}}, Moment());
  CHECK(first.version() > 1000);
  CHECK(second.version() > first.version());
}

TEST_CASE("a job's rate and remaining time follow its reports") {
  TableDriver driver;
  driver.join("w1");
  const std::string id = driver.submit("a", 1);
  driver.start_all(id);
  const auto report = [&](uint64_t assembly, uint64_t step) {
    driver.send(ProgressMade{
        id, assembly, {.step = step, .steps = 1000, .samples_per_step = 32, .loss = 0.5}});
  };
  report(1, 0);
  CHECK(std::isnan(driver.table->find(id)->progress.eta_seconds));
  for (uint64_t step = 1; step <= 400; ++step) {
    driver.advance(milliseconds(step <= 100 ? 1000 : 100));
    report(1, step);
  }
  const JobProgress progress = driver.table->find(id)->progress;
  CHECK(progress.last.step == 400);
  CHECK(progress.last.loss == 0.5);
  CHECK(progress.steps_per_second == Approx(10));
  CHECK(progress.samples_per_second == Approx(320));
  CHECK(progress.eta_seconds == Approx(60));
  const uint64_t version = driver.table->find(id)->version;
  report(7, 500);  // of another assembly
  CHECK(driver.table->find(id)->progress.last.step == 400);
  report(1, 401);
  CHECK(driver.table->find(id)->version > version);
}

TEST_CASE("a job gets only workers that have its data set, and names those that lack it") {
  TableDriver driver;
  const auto join = [&](const std::string& worker, std::vector<std::string> datasets) {
    driver.send(WorkerJoined{{worker, 1}, {}, std::move(datasets)});
  };
  const auto submit = [&](const std::string& name, uint32_t workers) {
    Submission submission = make_submission(name, name, workers);
    submission.dataset = "mnist";
    driver.send(SubmitAsked{7, submission});
    const std::string id = driver.answers.at(7)->id;
    driver.answers.erase(7);
    return id;
  };
  join("w1", {"mnist"});
  join("w2", {"other"});
  const std::string id = submit("a", 2);
  const std::string wants = "waits for 2 workers with data set 'mnist', ";
  CHECK(driver.reason(id) == wants + "1 there; 'w2' lacks it");
  join("w3", {});
  join("w4", {"mnist", "other"});
  CHECK(driver.done() == "start a-0000 1 w1 w4\n");
  driver.start_all(id);
  driver.done();

  const std::string later = submit("b", 1);
  CHECK(driver.reason(later) ==
        "waits for 1 worker with data set 'mnist', 0 free; 'w2', 'w3' lack it; 'a-0000' has 2");
  const std::string any = driver.submit("c", 1);
  CHECK(driver.state(any) == "STARTING");  // the other one cannot use the free workers
  driver.send(WorkerDraining{{"w1", 1}, true});
  driver.send(WorkerDraining{{"w4", 1}, true});
  CHECK(driver.reason(later) ==
        "waits for 1 worker with data set 'mnist', 0 there; 'w2', 'w3' "
        "lack it; 'w1', 'w4' are drained");
}

TEST_CASE("a job that wants GPUs gets only workers that have one, and names those without") {
  TableDriver driver;
  const auto join = [&](const std::string& worker, uint32_t gpus) {
    driver.send(WorkerJoined{{worker, 1}, {}, {"mnist"}, gpus});
  };
  const auto submit = [&](const std::string& name, uint32_t workers, const std::string& dataset) {
    Submission submission = make_submission(name, name, workers);
    submission.gpus = 1;
    submission.dataset = dataset;
    driver.send(SubmitAsked{7, submission});
    const std::string id = driver.answers.at(7)->id;
    driver.answers.erase(7);
    return id;
  };
  join("w1", 1);
  join("w2", 0);
  const std::string id = submit("a", 2, "");
  CHECK(driver.reason(id) == "waits for 2 workers with a GPU, 1 there; 'w2' has none");
  driver.restart();
  join("w2", 0);
  CHECK(driver.reason(id) == "waits for 2 workers with a GPU, 0 there; 'w2' has none");
  join("w1", 1);
  join("w3", 1);
  CHECK(driver.done() == "start a-0000 1 w1 w3\n");
  driver.send(WorkerJoined{{"w4", 1}, {}, {}, 1});
  const std::string other = submit("b", 1, "mnist");
  CHECK(driver.reason(other) ==
        "waits for 1 worker with data set 'mnist' and a GPU, 0 free; 'w4' lacks the data set; "
        "'w2' has no GPU; 'a-0000' has 2");
}

TEST_CASE("a job knows its data set after the master's restart") {
  TableDriver driver;
  Submission submission = make_submission("a", "a", 1);
  submission.dataset = "mnist";
  driver.send(SubmitAsked{7, submission});
  const std::string id = driver.answers.at(7)->id;
  driver.restart();
  driver.join("w1");
  CHECK(driver.reason(id) == "waits for 1 worker with data set 'mnist', 0 there; 'w1' lacks it");
}

}  // namespace
}  // namespace leat
