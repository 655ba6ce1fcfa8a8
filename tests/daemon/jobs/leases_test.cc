// Tests which workers are free, and what a lease changes. A draining worker gets none.
#include "daemon/jobs/leases.h"

#include "tests/catch.h"

namespace leat {
namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<uint64_t>;

Names names_of(const std::vector<WorkerRef>& workers) {
  Names names;
  for (const WorkerRef& worker : workers) names.push_back(worker.name);
  return names;
}

Leases three_workers() {
  Leases leases;
  for (const char* name : {"w1", "w2", "w3"}) leases.add({name, 1});
  return leases;
}

TEST_CASE("a worker that drains keeps its lease and gets no other") {
  Leases leases = three_workers();
  leases.set_draining("w1", true);
  CHECK(leases.is_draining("w1"));
  CHECK(leases.draining() == Names{"w1"});
  CHECK(leases.free() == 2);
  CHECK(leases.free_but({}, 20) == 2);
  CHECK(leases.usable_but({}) == 2);
  CHECK(names_of(leases.take(2, 7, Names{"w1"})) == Names{"w2", "w3"});
  CHECK(leases.jobs_of("w1").empty());

  leases.set_draining("w2", true);
  CHECK(leases.jobs_of("w2") == Numbers{7});
  leases.release({"w2", 1}, 7);
  CHECK(leases.free() == 0);
  CHECK(leases.take(0, 8, {}).empty());

  leases.set_draining("w2", false);
  CHECK(names_of(leases.take(1, 8, {})) == Names{"w2"});
}

TEST_CASE("no worker is leased twice, and none of those that are ruled out") {
  Leases leases = three_workers();
  CHECK(names_of(leases.take(1, 7, Names{"w3"}, Names{"w1"})) == Names{"w3"});
  CHECK(leases.free_but(Names{"w1"}, 20) == 1);
  CHECK(names_of(leases.take(1, 8, Names{"w1", "w3"}, Names{"w1"})) == Names{"w2"});
  CHECK(leases.free() == 1);
  CHECK_FALSE(leases.claim({"w2", 1}, 9));
  CHECK(leases.jobs_of("w2") == Numbers{8});
  CHECK_FALSE(leases.claim({"w1", 2}, 9));  // another incarnation
  CHECK(leases.claim({"w1", 1}, 9));
  leases.release({"w1", 1}, 8);  // of another job
  CHECK(leases.jobs_of("w1") == Numbers{9});
}

TEST_CASE("a job that wants no GPU leaves the workers that have one for others") {
  Leases leases;
  leases.add({"w1", 1}, {}, 1);
  leases.add({"w2", 1});
  leases.add({"w3", 1}, {}, 1);
  CHECK(leases.with_fewer_gpus(1) == Names{"w2"});
  CHECK(leases.with_fewer_gpus(0).empty());
  CHECK(names_of(leases.take(2, 7, {})) == Names{"w1", "w2"});
  leases.release({"w1", 1}, 7);
  CHECK(names_of(leases.take(1, 8, Names{"w3"})) == Names{"w3"});
}

TEST_CASE("jobs share a worker as long as their cores and memory fit") {
  Leases leases;
  leases.add({"w1", 1}, {}, 0, {4, 1000});
  leases.add({"w2", 1}, {}, 0, {2, 1000});
  leases.add({"w3", 1});  // offers no shares
  const WorkerShare two{2, 400}, large{1, 700}, three{3, 0};
  CHECK(leases.free_but({}, 20, two) == 2);
  CHECK(leases.free_but({}, 20, three) == 1);
  CHECK(leases.without_share(three) == Names{"w2", "w3"});
  CHECK(leases.without_share({1, 2000}) == Names{"w1", "w2", "w3"});
  CHECK(names_of(leases.take(1, 7, {}, {}, two)) == Names{"w1"});
  CHECK(leases.free() == 2);
  // A job never gets two shares of one worker: it is free for others only.
  CHECK(leases.free_but({}, 7, two) == 1);
  CHECK(leases.free_names_but({}, 7, two) == Names{"w2"});
  CHECK(leases.free_names_but({}, 8, two) == Names{"w1", "w2"});
  CHECK_FALSE(leases.has_room("w1", 7, two));
  CHECK_FALSE(leases.claim({"w1", 1}, 7, two));
  // A shared worker comes first.
  CHECK(names_of(leases.take(1, 8, {}, {}, two)) == Names{"w1"});
  CHECK(leases.jobs_of("w1") == Numbers{7, 8});
  CHECK_FALSE(leases.has_room("w1", 20, two));
  CHECK_FALSE(leases.has_room("w1", 20, {}));
  CHECK(leases.has_room("w2", 20, large));
  CHECK(leases.claim({"w2", 1}, 9, large));
  CHECK_FALSE(leases.has_room("w2", 20, two));  // its memory
  CHECK(leases.has_room("w2", 20, {1, 300}));
  CHECK_FALSE(leases.claim({"w2", 1}, 9, {1, 300}));
  leases.release({"w1", 1}, 7);
  CHECK(leases.jobs_of("w1") == Numbers{8});
  CHECK(leases.has_room("w1", 20, two));
  CHECK(leases.free() == 1);
  // A job with a whole worker leaves no room.
  CHECK(names_of(leases.take(1, 10, {})) == Names{"w3"});
  CHECK(leases.free_but({}, 20) == 0);
  leases.remove("w1");
  CHECK(leases.jobs_of("w1").empty());
}

}  // namespace
}  // namespace leat
