// The queue of the table of jobs: priorities, pauses, limits of time, and jobs that make way.
#include "daemon/jobs/job_queue.h"

#include "daemon/jobs/queue_plan.h"
#include "tests/daemon/jobs/queue_scene.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// Priorities --------------------------------------------------------------------------------------

TEST_CASE("a job of a higher priority goes first, and those of one priority as they came") {
  QueueScene scene(1);
  const std::string first = scene.run("first", 1);
  const std::string low = scene.submit("low", 1, of_priority(-5));
  const std::string second = scene.submit("second", 1, of_priority(0));
  const std::string third = scene.submit("third", 1, of_priority(0));
  const std::string high = scene.submit("high", 1, of_priority(7));
  CHECK(scene.position(high) == 1);
  CHECK(scene.position(second) == 2);
  CHECK(scene.position(third) == 3);
  CHECK(scene.position(low) == 4);
  CHECK(scene.position(first) == 0);
  CHECK(scene.reason(high) == cat("waits for 1 worker, 0 free; '", first, "' has 1"));
  CHECK(scene.reason(low) ==
        cat("position 4; waits for 1 worker, 0 free; '", high, "' is before it"));
  std::string runs = first;
  for (const std::string& next : {high, second, third, low}) {
    scene.finish(runs);
    CHECK(scene.state(next) == "STARTING");
    scene.begin(next);
    runs = next;
  }
}

TEST_CASE("the queue is the same after a restart of the master") {
  QueueScene scene(0);
  const std::string low = scene.submit("low", 1, of_priority(-5));
  const std::string high = scene.submit("high", 1, of_priority(7));
  scene.restart();
  CHECK(scene.position(high) == 1);
  CHECK(scene.position(low) == 2);
  CHECK(scene.view(low).priority == -5);
  scene.join("w1");
  CHECK(scene.state(high) == "STARTING");
}

TEST_CASE("users whose jobs have one priority take turns") {
  QueueScene scene(1);
  const std::string first = scene.run("first", 1, of_user("ann"));
  const std::string a1 = scene.submit("a1", 1, of_user("ann"));
  const std::string a2 = scene.submit("a2", 1, of_user("ann"));
  const std::string b1 = scene.submit("b1", 1, of_user("bob"));
  const std::string b2 = scene.submit("b2", 1, of_user("bob"));
  const std::string c1 = scene.submit("c1", 1, of_user("cid"));
  // Ann has a worker already, and the others none.
  CHECK(scene.position(b1) == 1);
  CHECK(scene.position(c1) == 2);
  CHECK(scene.position(b2) == 3);
  CHECK(scene.position(a1) == 4);
  CHECK(scene.position(a2) == 5);
  scene.finish(first);
  CHECK(scene.state(b1) == "STARTING");
  // Now Bob has one, and Cid has not had a turn.
  CHECK(scene.position(c1) == 1);
  CHECK(scene.position(a1) == 2);
  CHECK(scene.position(a2) == 3);
  CHECK(scene.position(b2) == 4);
  scene.begin(b1);
  scene.restart();                 // which forgets no turn
  CHECK(scene.position(b1) == 1);  // it waits for its runner
  CHECK(scene.position(c1) == 2);
  CHECK(scene.position(a1) == 3);
}

// The longest run ---------------------------------------------------------------------------------

TEST_CASE("a job that has run as long as it may saves a checkpoint and fails") {
  QueueScene scene(1);
  const std::string id = scene.run("long", 1, for_at_most(10s));
  scene.tick(6s);
  CHECK(scene.done() == "");
  scene.tick(4s);
  CHECK(scene.done() == cat("save and yield ", id, " 1\n"));
  CHECK(scene.state(id) == "RUNNING");
  CHECK(scene.reason(id) == "it ran for its max_run_time of 10s");
  scene.tick(1s);
  CHECK(scene.done() == "");  // it is asked once
  scene.come_to_fence(id, 70);
  CHECK(scene.state(id) == "FAILED");
  CHECK(scene.reason(id) == cat("it ran for its max_run_time of 10s; leat submit --resume ", id,
                                " continues from step 70"));
  CHECK(scene.done() == cat("end ", id, " 1\nstop ", id, " 1 w1\n"));
  CHECK(scene.view(id).max_run_time_ms == 10'000);
}

TEST_CASE("the time in the queue and of a pause is no time of a run, and a restart keeps it") {
  QueueScene scene(0);
  const std::string id = scene.submit("long", 1, for_at_most(10s));
  scene.tick(60s);
  scene.join("w1");
  scene.begin(id);
  scene.tick(6s);
  CHECK(scene.pause(id) == "ok PAUSING");
  scene.come_to_fence(id, 50);
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
  scene.tick(3600s);
  CHECK(scene.pause(id, true) == "ok QUEUED");
  scene.begin(id);
  scene.tick(2s);
  CHECK(scene.done() == "");
  scene.restart();
  scene.join("w1", 2);
  CHECK(scene.state(id) == "RECOVERING");
  scene.start_all(id);
  CHECK(scene.state(id) == "RUNNING");
  (void)scene.done();
  scene.tick(1s);
  CHECK(scene.done() == "");
  scene.tick(1s);
  CHECK(scene.done() == cat("save and yield ", id, " 3\n"));
}

TEST_CASE("a job whose time is over ends though its run does not come to a fence") {
  QueueScene scene(1);
  const std::string id = scene.run("stuck", 1, for_at_most(10s));
  scene.tick(10s);
  scene.tick(59s);
  CHECK(scene.state(id) == "RUNNING");
  scene.tick(1s);
  CHECK(scene.state(id) == "FAILED");
  CHECK(scene.reason(id) ==
        "it ran for its max_run_time of 10s, and did not come to a fence within 1m after that");
}

TEST_CASE("the time that a job recovers in the queue ends no job after a restart of the master") {
  QueueScene scene(1);
  const std::string id = scene.run("long", 1, for_at_most(10s));
  scene.tick(2s);
  scene.lose("w1");
  scene.send(JobBroke{id, 1, unavailable("a peer is gone")});
  CHECK(scene.state(id) == "RECOVERING");
  scene.tick(60s);
  scene.restart();
  scene.join("w1", 2);
  scene.start_all(id);
  CHECK(scene.state(id) == "RUNNING");
  (void)scene.done();
  scene.tick(7s);
  CHECK(scene.done() == "");
  scene.tick(1s);
  CHECK(scene.done() == cat("save and yield ", id, " 2\n"));
}

TEST_CASE("a view is new when its job is asked to stop since its time is over") {
  QueueScene scene(1);
  const std::string id = scene.run("long", 1, for_at_most(10s));
  scene.tick(9s);
  const uint64_t version = scene.table->version();
  CHECK(scene.table->jobs(version).empty());
  scene.tick(1s);
  REQUIRE(scene.table->jobs(version).size() == 1);
  CHECK(scene.table->jobs(version)[0].condition.reason == "it ran for its max_run_time of 10s");
}

TEST_CASE("a job that is being paused leaves its workers though it comes to no fence") {
  QueueScene scene(1);
  const std::string id = scene.run("stuck", 1, for_at_most(10s));
  scene.tick(6s);
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.done() == cat("save and yield ", id, " 1\n"));
  scene.tick(63s);
  CHECK(scene.done() == "");
  scene.tick(1s);
  CHECK(scene.done() == cat("end ", id, " 1\nstop ", id, " 1 w1\n"));
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
  CHECK(scene.reason(id) == "paused by ann");
}

// Pauses ------------------------------------------------------------------------------------------

TEST_CASE("a running job is paused at a fence, and goes on when it is resumed") {
  QueueScene scene(2);
  const std::string id = scene.run("job", 2);
  const std::string next = scene.submit("next", 1);
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.done() == cat("save and yield ", id, " 1\n"));
  CHECK(scene.reason(id) == "paused by ann");
  scene.come_to_fence(id, 70);
  CHECK(scene.done() == cat("end ", id, " 1\nstop ", id, " 1 w1 w2\n"));
  CHECK(scene.state(id) == "PAUSING");
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
  CHECK(scene.state(next) == "STARTING");
  CHECK(scene.done() == cat("start ", next, " 1 w1\n"));
  scene.begin(next);
  scene.tick(3600s);
  CHECK(scene.state(id) == "PAUSED");
  CHECK(scene.view(id).times.running < 3600'000);

  CHECK(scene.pause(id, true) == "ok QUEUED");
  CHECK(scene.pause(id, true) == "ok QUEUED");
  CHECK(scene.reason(id) == cat("resumed by ann; waits for 2 workers, 1 free; '", next, "' has 1"));
  scene.finish(next);
  CHECK(scene.state(id) == "STARTING");
  (void)scene.done();
  scene.start_all(id);
  CHECK(scene.done() == cat("run ", id, " 2 w1 w2\n"));
  CHECK(scene.view(id).condition.restarts == 0);
  CHECK(scene.view(id).history.count == 0);
  scene.finish(id);
  CHECK(scene.state(id) == "SUCCEEDED");
  CHECK_THAT(scene.pause(id), Catch::Contains("is SUCCEEDED: expected one that goes on"));
  CHECK_THAT(scene.pause(id, true), Catch::Contains("is SUCCEEDED: expected one that is paused"));
}

TEST_CASE("a queued job is held, also from its submit on, and over a restart of the master") {
  QueueScene scene(0);
  const std::string id = scene.submit("job", 1);
  CHECK(scene.pause(id) == "ok PAUSED");
  QueueTerms held;
  held.paused = true;
  const std::string other = scene.submit("other", 1, held);
  CHECK(scene.state(other) == "PAUSED");
  CHECK(scene.reason(other) == "submitted so");
  scene.join("w1");
  scene.restart();
  scene.join("w1", 2);
  CHECK(scene.state(id) == "PAUSED");
  CHECK(scene.state(other) == "PAUSED");
  CHECK(scene.position(id) == 0);
  CHECK(scene.pause(other, true) == "ok QUEUED");
  CHECK(scene.state(other) == "STARTING");
  CHECK(scene.cancel(id) == "ok CANCELLED");
  CHECK(scene.reason(id) == "cancelled before it started");
}

TEST_CASE("a job that starts or recovers is paused without a checkpoint") {
  QueueScene scene(2);
  const std::string id = scene.submit("job", 2);
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.done() == cat("start ", id, " 1 w1 w2\nstop ", id, " 1 w1 w2\n"));
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
  CHECK(scene.pause(id, true) == "ok QUEUED");
  scene.begin(id);
  scene.lose("w2");
  scene.send(JobBroke{id, 2, unavailable("a peer is gone")});
  CHECK(scene.state(id) == "RECOVERING");
  CHECK(scene.pause(id) == "ok PAUSING");
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
  CHECK(scene.table->leases().free() == 1);
}

TEST_CASE("a job that is resumed while it is being paused goes on after the pause") {
  QueueScene scene(1);
  const std::string id = scene.run("job", 1);
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.pause(id, true) == "");  // answered when it is in the queue again
  scene.come_to_fence(id, 70);
  scene.exit_all(id);
  CHECK(scene.state(id) == "STARTING");
  CHECK(scene.answer(3) == "ok QUEUED");
  scene.begin(id);
  // The last request counts.
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.pause(id, true) == "");
  CHECK(scene.pause(id) == "ok PAUSING");
  CHECK(scene.answer(5) == "ok PAUSING");
  scene.come_to_fence(id, 80);
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
}

TEST_CASE("a job that is being paused can be cancelled, and can succeed or fail") {
  QueueScene scene(1);
  const std::string id = scene.run("job", 1);
  CHECK(scene.pause(id) == "ok PAUSING");
  SECTION("cancelled") {
    CHECK(scene.cancel(id) == "ok CANCELLING");
    scene.exit_all(id);
    CHECK(scene.state(id) == "CANCELLED");
  }
  SECTION("it was done before the fence") {
    scene.finish(id);
    CHECK(scene.state(id) == "SUCCEEDED");
  }
  SECTION("an error that would come again") {
    scene.send(JobBroke{id, 1, invalid_argument("a bad batch")});
    CHECK(scene.state(id) == "FAILED");
  }
  SECTION("a lost worker: it has its last checkpoint") {
    scene.lose("w1");
    scene.send(JobBroke{id, 1, unavailable("a peer is gone")});
    CHECK(scene.state(id) == "PAUSED");
    CHECK(scene.reason(id) == "paused by ann");
  }
  SECTION("the master restarts") {
    scene.restart();
    (void)scene.done();
    CHECK(scene.state(id) == "PAUSED");
    // The runner that it left is stopped, and then the job may go on.
    scene.send(WorkerJoined{{"w1", 1}, {HeldRunner{id, 1, 0}}});
    CHECK(scene.done() == cat("stop ", id, " 1 w1\n"));
    CHECK(scene.pause(id, true) == "ok QUEUED");
    scene.send(RunnerExited{id, 1, {"w1", 1}, {"has ended", false}});
    CHECK(scene.state(id) == "STARTING");
  }
}

TEST_CASE("a job that is paused when it has just made way does not wait for another fence") {
  QueueScene scene(1);
  const std::string id = scene.run("low", 1, of_priority(0, true));
  (void)scene.submit("high", 1, of_priority(5));
  scene.write_status = resource_exhausted("disk full");
  scene.come_to_fence(id, 70);
  CHECK(scene.pause(id) == "");
  scene.write_status = Status();
  (void)scene.done();
  scene.tick(1000ms);
  CHECK(scene.state(id) == "PAUSING");
  CHECK(scene.done() == cat("end ", id, " 1\nstop ", id, " 1 w1\n"));
  scene.exit_all(id);
  CHECK(scene.state(id) == "PAUSED");
}

TEST_CASE("a pause that cannot be written says so and is tried again") {
  QueueScene scene(0);
  const std::string id = scene.submit("job", 1);
  scene.write_status = resource_exhausted("disk full");
  CHECK_THAT(scene.pause(id),
             Catch::Contains("is not paused yet, since the journal cannot be written: disk full"));
  CHECK(scene.state(id) == "QUEUED");
  scene.write_status = Status();
  scene.tick(1000ms);
  CHECK(scene.state(id) == "PAUSED");
}

// Making way --------------------------------------------------------------------------------------

TEST_CASE("a job that consents makes way for one of a higher priority, and goes on after it") {
  QueueScene scene(2);
  const std::string low = scene.run("low", 2, of_priority(0, true));
  const std::string same = scene.submit("same", 2, of_priority(0));
  CHECK(scene.done() == "");
  const std::string high = scene.submit("high", 1, of_priority(5));
  CHECK(scene.done() == cat("save and yield ", low, " 1\n"));
  CHECK(scene.reason(low) == cat("makes way for '", high, "', of priority 5"));
  scene.tick(1s);
  CHECK(scene.done() == "");  // it is asked once
  scene.come_to_fence(low, 70);
  CHECK(scene.state(low) == "QUEUED");
  CHECK(scene.done() == cat("end ", low, " 1\nstop ", low, " 1 w1 w2\n"));
  CHECK(scene.state(high) == "QUEUED");
  scene.exit_all(low);
  CHECK(scene.state(high) == "STARTING");
  CHECK(scene.state(low) == "QUEUED");
  scene.begin(high);
  // It keeps its place among those of its priority, and does not disturb the one that came.
  CHECK(scene.position(low) == 1);
  CHECK(scene.position(same) == 2);
  for (int i = 0; i < 20; ++i) scene.tick(250ms);
  CHECK(scene.done() == "");
  scene.finish(high);
  CHECK(scene.state(low) == "STARTING");
  scene.begin(low);
  CHECK(scene.view(low).condition.restarts == 0);
  scene.finish(low);
  CHECK(scene.state(same) == "STARTING");
}

TEST_CASE("no job makes way that has not consented, nor in vain") {
  QueueScene scene(3);
  const std::string refuses = scene.run("refuses", 2, of_priority(0));
  const std::string yields = scene.run("yields", 1, of_priority(0, true));
  // Two workers are wanted, and one could be had.
  const std::string high = scene.submit("high", 2, of_priority(5));
  CHECK(scene.done() == "");
  CHECK(scene.reason(high) ==
        cat("waits for 2 workers, 0 free; '", refuses, "' has 2, '", yields, "' has 1"));
  const std::string small = scene.submit("small", 1, of_priority(6));
  CHECK(scene.done() == cat("save and yield ", yields, " 1\n"));
}

TEST_CASE("elastic jobs give back what others wait for, and keep their least") {
  QueueScene scene(4);
  const std::string elastic = scene.run("elastic", 4, {}, 2);
  const std::string next = scene.submit("next", 1);
  CHECK(scene.done() == cat("save and yield ", elastic, " 1\n"));
  scene.come_to_fence(elastic, 70);
  CHECK(scene.state(elastic) == "RECOVERING");
  scene.send(RunnerExited{elastic, 1, {"w4", 1}, {"has ended", false}});
  CHECK(scene.state(next) == "STARTING");
  CHECK(scene.view(next).condition.workers == std::vector<std::string>{"w4"});
  scene.start_all(elastic);
  CHECK(scene.state(elastic) == "RUNNING");
  CHECK(scene.view(elastic).condition.workers == std::vector<std::string>{"w1", "w2", "w3"});
  CHECK(scene.view(elastic).condition.restarts == 0);
  (void)scene.done();
  // Two more are wanted, and only one is beyond the least.
  scene.send(ProgressMade{elastic, 2, {.step = 80, .steps = 1000}});
  (void)scene.submit("large", 2);
  CHECK(scene.done() == "");
}

TEST_CASE("an elastic job with workers beyond its least makes way whole if those are too few") {
  QueueScene scene(4);
  const std::string other = scene.run("other", 1);
  const std::string low = scene.run("low", 3, of_priority(0, true), 2);
  CHECK(scene.view(low).condition.workers.size() == 3);
  const std::string high = scene.submit("high", 2, of_priority(5));
  CHECK(scene.done() == cat("save and yield ", low, " 1\n"));
  CHECK(scene.reason(low) == cat("makes way for '", high, "', of priority 5"));
  scene.come_to_fence(low, 70);
  CHECK(scene.state(low) == "QUEUED");
  scene.exit_all(low);
  CHECK(scene.state(high) == "STARTING");
}

TEST_CASE("elastic jobs keep what the head gets from a job that makes way") {
  QueueScene scene(4);
  const std::string elastic = scene.run("elastic", 2, {}, 1);
  const std::string low = scene.run("low", 2, of_priority(0, true));
  (void)scene.submit("high", 2, of_priority(5));
  CHECK(scene.done() == cat("save and yield ", low, " 1\n"));
}

TEST_CASE("workers that are free go to one of the jobs that could take them in") {
  QueueScene scene(2);
  const std::string first = scene.run("first", 2, {}, 1);
  scene.lose("w2");
  scene.send(JobBroke{first, 1, unavailable("a peer is gone")});
  scene.tick(1s);
  scene.begin(first);
  scene.join("w3");
  const std::string second = scene.run("second", 2, {}, 1);
  scene.join("w4");
  (void)scene.done();
  scene.tick(3s);
  CHECK(scene.done() == cat("yield ", first, " 2\n"));
  scene.tick(3s);  // it has not come to its fence yet
  CHECK(scene.done() == "");
}

TEST_CASE("an elastic job in the queue counts for its user with the workers that it waits for") {
  QueueScene scene(3);
  QueueTerms of_ann = of_user("ann");
  const std::string elastic = scene.run("elastic", 3, of_ann, 1);
  CHECK(scene.pause(elastic) == "ok PAUSING");
  scene.come_to_fence(elastic, 70);
  scene.exit_all(elastic);
  const std::string all = scene.run("all", 3, of_user("cid"));
  CHECK(scene.pause(elastic, true) == "ok QUEUED");
  const std::string a2 = scene.submit("a2", 1, of_ann);
  const std::string b1 = scene.submit("b1", 1, of_user("bob"));
  const std::string b2 = scene.submit("b2", 1, of_user("bob"));
  const std::string b3 = scene.submit("b3", 1, of_user("bob"));
  CHECK(scene.position(b1) == 1);
  CHECK(scene.position(elastic) == 2);
  CHECK(scene.position(b2) == 3);
  CHECK(scene.position(a2) == 4);  // behind the one worker of the elastic job
  CHECK(scene.position(b3) == 5);
}

// Backfill ----------------------------------------------------------------------------------------

TEST_CASE("a job that ends in time goes before the head, and no other does") {
  QueueScene scene(3);
  const std::string runs = scene.run("runs", 2, for_at_most(1h));
  const std::string head = scene.submit("head", 3);
  CHECK_THAT(scene.reason(head), Catch::Contains(cat("'", runs, "', which runs until ")) &&
                                     Catch::Contains("UTC at most, has 2; it starts by "));
  const std::string unlimited = scene.submit("unlimited", 1);
  const std::string too_long = scene.submit("too-long", 1, for_at_most(2h));
  CHECK(scene.state(unlimited) == "QUEUED");
  CHECK(scene.state(too_long) == "QUEUED");
  const std::string quick = scene.submit("quick", 1, for_at_most(30min));
  CHECK(scene.state(quick) == "STARTING");
  CHECK(scene.state(head) == "QUEUED");
  scene.begin(quick);
  scene.finish(quick);
  scene.finish(runs);
  CHECK(scene.state(head) == "STARTING");
}

TEST_CASE("a job goes before the head on workers that the head does not need") {
  QueueScene scene(4);
  const std::string runs = scene.run("runs", 3, for_at_most(1h));
  const std::string head = scene.submit("head", 3);
  // Of the four workers one is left over when the head starts.
  const std::string small = scene.submit("small", 1);
  CHECK(scene.state(small) == "STARTING");
  scene.begin(small);
  scene.finish(runs);
  CHECK(scene.state(head) == "STARTING");
}

TEST_CASE("no job goes before a head without a promised start") {
  QueueScene scene(3);
  (void)scene.run("runs", 2);
  (void)scene.submit("head", 3);
  const std::string quick = scene.submit("quick", 1, for_at_most(1s));
  CHECK(scene.state(quick) == "QUEUED");
}

// The decisions as functions ----------------------------------------------------------------------

TEST_CASE("the jobs that make way are few and of the lowest priority") {
  const std::vector<Yielding> all = {{1, 0, 2}, {2, -5, 1}, {3, 0, 4}, {4, 3, 8}};
  CHECK(jobs_to_preempt(all, 1) == std::vector<uint64_t>{2});
  CHECK(jobs_to_preempt(all, 4) == std::vector<uint64_t>{3});
  CHECK(jobs_to_preempt(all, 5) == std::vector<uint64_t>{2, 3});
  CHECK(jobs_to_preempt(all, 7) == std::vector<uint64_t>{2, 3, 1});
  CHECK(jobs_to_preempt(all, 16).empty());
}

TEST_CASE("a reservation admits what ends in time or takes no more than is left over") {
  const auto at = [](int seconds) { return Clock::Steady(std::chrono::seconds(seconds)); };
  const std::vector<std::optional<Clock::Steady>> busy = {at(10), at(20), at(20), std::nullopt};
  Reservation reserved(3, 1, busy);
  CHECK(reserved.shadow_time() == at(20));
  CHECK(reserved.admits(4, at(20)));
  CHECK_FALSE(reserved.admits(4, at(21)));
  CHECK(reserved.admits(1, std::nullopt));
  CHECK_FALSE(reserved.admits(2, std::nullopt));
  reserved.take(1, std::nullopt);
  CHECK_FALSE(reserved.admits(1, std::nullopt));
  CHECK(reserved.admits(1, at(5)));
  CHECK_FALSE(Reservation(6, 1, busy).shadow_time());
  CHECK_FALSE(Reservation(6, 1, busy).admits(1, at(1)));
}

}  // namespace
}  // namespace leat
