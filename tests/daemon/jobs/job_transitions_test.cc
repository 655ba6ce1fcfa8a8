// Tests every event in every state of a job.
#include <algorithm>

#include "daemon/jobs/job_state.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/jobs/table_driver.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

const char* const kEvents[] = {"resubmit", "cancel", "join",  "lose",    "stuck", "drain",
                               "started",  "exited", "gone",  "finish",  "break", "unavailable",
                               "progress", "late",   "stale", "restart", "pause", "resume"};

// A job that wants two workers, in a state.
struct Case {
  explicit Case(JobState state) {
    driver.join("w1");
    driver.send(SubmitAsked{1, make_submission("r", "a", 2)});
    if (state == JobState::queued) return;
    driver.join("w2");
    if (state == JobState::starting) return;
    driver.start_all(id);
    switch (state) {
      case JobState::recovering:
        driver.send(JobBroke{id, 1, unavailable("a peer is gone")});
        break;
      case JobState::cancelling:
      case JobState::cancelled:
        driver.send(CancelAsked{2, id, ""});
        break;
      case JobState::succeeded:
        driver.send(JobFinished{id, 1, "abc"});
        break;
      case JobState::failed:
        driver.send(JobBroke{id, 1, internal_error("a bug")});
        break;
      case JobState::pausing:
      case JobState::paused:
        driver.send(PauseAsked{2, id, false, ""});
        break;
      default:
        break;
    }
    if (state == JobState::paused) driver.send(RunYielded{id, 1, 5, true});
    if (has_ended(state) || state == JobState::paused) driver.exit_all(id);
  }

  void send(const std::string& event) {
    const WorkerRef w1{"w1", 1}, w2{"w2", 1};
    if (event == "resubmit") driver.send(SubmitAsked{++ticket, make_submission("r", "a", 2)});
    if (event == "cancel") driver.send(CancelAsked{++ticket, id, ""});
    if (event == "join") driver.join("w3");
    if (event == "lose") driver.lose("w1");
    if (event == "stuck") driver.send(WorkerStuck{w1, "no progress for 10 s"});
    if (event == "drain") driver.send(WorkerDraining{w1, true});
    if (event == "started") driver.start_all(id);
    if (event == "exited") driver.send(RunnerExited{id, 1, w1, "has ended"});
    if (event == "gone") driver.exit_all(id);
    if (event == "finish") driver.send(JobFinished{id, 1, "abc"});
    if (event == "break") driver.send(JobBroke{id, 1, internal_error("a bug")});
    if (event == "unavailable") driver.send(JobBroke{id, 1, unavailable("a peer is gone")});
    if (event == "progress") driver.send(ProgressMade{id, 1, {.step = 1}});
    if (event == "late") driver.tick(milliseconds(60000));
    if (event == "stale") driver.send(RunnerExited{id, 9, w2, "has ended"});
    if (event == "restart") driver.restart();
    if (event == "pause") driver.send(PauseAsked{++ticket, id, false, ""});
    if (event == "resume") driver.send(PauseAsked{++ticket, id, true, ""});
  }

  TableDriver driver;
  uint64_t ticket = 10;
  const std::string id = "a-0000";
};

// The next state after an event. Events that are not listed leave the state as it is.
struct Move {
  JobState from;
  const char* event;
  JobState to;
};
const Move kMoves[] = {
    {JobState::queued, "cancel", JobState::cancelled},
    {JobState::queued, "join", JobState::starting},
    {JobState::queued, "pause", JobState::paused},
    {JobState::starting, "pause", JobState::pausing},
    {JobState::running, "pause", JobState::pausing},
    {JobState::recovering, "pause", JobState::pausing},
    {JobState::pausing, "cancel", JobState::cancelling},
    {JobState::pausing, "gone", JobState::paused},
    {JobState::pausing, "finish", JobState::succeeded},
    {JobState::pausing, "break", JobState::failed},
    {JobState::pausing, "restart", JobState::paused},
    {JobState::paused, "cancel", JobState::cancelled},
    {JobState::paused, "resume", JobState::starting},
    {JobState::starting, "cancel", JobState::cancelling},
    {JobState::starting, "lose", JobState::recovering},
    {JobState::starting, "stuck", JobState::recovering},
    {JobState::starting, "drain", JobState::recovering},
    {JobState::starting, "started", JobState::running},
    {JobState::starting, "exited", JobState::recovering},
    {JobState::starting, "gone", JobState::recovering},
    {JobState::starting, "break", JobState::failed},
    {JobState::starting, "unavailable", JobState::recovering},
    {JobState::starting, "late", JobState::recovering},
    {JobState::starting, "restart", JobState::recovering},
    {JobState::running, "cancel", JobState::cancelling},
    {JobState::running, "lose", JobState::recovering},
    {JobState::running, "stuck", JobState::recovering},
    {JobState::running, "exited", JobState::recovering},
    {JobState::running, "gone", JobState::recovering},
    {JobState::running, "finish", JobState::succeeded},
    {JobState::running, "break", JobState::failed},
    {JobState::running, "unavailable", JobState::recovering},
    {JobState::running, "restart", JobState::recovering},
    {JobState::recovering, "cancel", JobState::cancelling},
    {JobState::recovering, "started", JobState::running},  // both runners were kept
    {JobState::cancelling, "gone", JobState::cancelled},
    {JobState::cancelling, "restart", JobState::cancelled},
};

JobState expected(JobState from, const std::string& event) {
  for (const Move& move : kMoves) {
    if (move.from == from && event == move.event) return move.to;
  }
  return from;
}

TEST_CASE("every event in every state leads where it should") {
  for (const JobState state : kJobStates) {
    for (const std::string event : kEvents) {
      INFO(event << " in " << name_of(state));
      Case a(state);
      REQUIRE(a.driver.state(a.id) == name_of(state));
      const JobCondition before = a.driver.table->find(a.id)->condition;
      const int64_t began = moment_of(a.driver.clock).wall_ms;
      a.driver.advance(milliseconds(5));
      a.send(event);
      CHECK(a.driver.state(a.id) == name_of(expected(state, event)));
      const JobCondition after = a.driver.table->find(a.id)->condition;
      CHECK(after.since_ms ==
            (after.state == state ? before.since_ms : moment_of(a.driver.clock).wall_ms));
      CHECK(before.since_ms == began);
      if (has_ended(state)) CHECK(after == before);
      const JobCondition& written = a.driver.journal.find(a.id)->condition;
      CHECK(written.state == after.state);
      CHECK(written.restarts == after.restarts);
      CHECK(written.assembly == after.assembly);
    }
  }
}

TEST_CASE("every event while a change is in the air keeps the job in its table of transitions") {
  for (const JobState state : kJobStates) {
    for (const std::string first : kEvents) {
      for (const std::string second : kEvents) {
        if (first == "restart" || second == "restart") continue;
        INFO(first << ", " << second << " in " << name_of(state));
        Case a(state);
        a.driver.hold_writes = true;
        a.send(first);
        CHECK(a.driver.state(a.id) == name_of(state));  // no change is written yet
        a.send(second);
        CHECK(a.driver.state(a.id) == name_of(state));
        a.driver.release_writes();  // the journal would refuse a forbidden transition
        CHECK(a.driver.journal.find(a.id)->condition.state ==
              a.driver.table->find(a.id)->condition.state);
      }
    }
  }
}

TEST_CASE("the table of transitions leaves no ended state and leads to an end from everywhere") {
  for (const JobState from : kJobStates) {
    bool leaves = false;
    for (const JobState to : kJobStates) leaves = leaves || may_become(from, to);
    CHECK(leaves == !has_ended(from));
    const bool goes_back = from == JobState::running || from == JobState::paused;
    CHECK(may_become(from, JobState::queued) == goes_back);
    const auto after = state_after_restart(from);
    if (after) {
      CHECK((*after == JobState::recovering || *after == JobState::cancelled ||
             *after == JobState::paused));
      CHECK(may_become(from, *after));
    }
    const bool rests = from == JobState::queued || from == JobState::paused;
    CHECK(after.has_value() == (!has_ended(from) && !rests));
  }
}

}  // namespace
}  // namespace leat
