// Tests which workers are free, and what a lease changes. A draining worker gets none.
#include "daemon/jobs/leases.h"

#include "tests/catch.h"

namespace leat {
namespace {

using Names = std::vector<std::string>;

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
  CHECK(leases.usable() == 2);
  CHECK(leases.free_but({}) == 2);
  CHECK(leases.usable_but({}) == 2);
  CHECK(names_of(leases.take(2, 7, Names{"w1"})) == Names{"w2", "w3"});
  CHECK(leases.job_of("w1") == 0);

  leases.set_draining("w2", true);
  CHECK(leases.job_of("w2") == 7);
  leases.release({"w2", 1}, 7);
  CHECK(leases.free() == 0);
  CHECK(leases.take(0, 8, {}).empty());

  leases.set_draining("w2", false);
  CHECK(names_of(leases.take(1, 8, {})) == Names{"w2"});
}

TEST_CASE("no worker is leased twice, and none of those that are ruled out") {
  Leases leases = three_workers();
  CHECK(names_of(leases.take(1, 7, Names{"w3"}, Names{"w1"})) == Names{"w3"});
  CHECK(leases.free_but(Names{"w1"}) == 1);
  CHECK(names_of(leases.take(1, 8, Names{"w1", "w3"}, Names{"w1"})) == Names{"w2"});
  CHECK(leases.free() == 1);
  CHECK_FALSE(leases.claim({"w2", 1}, 9));
  CHECK(leases.job_of("w2") == 8);
  CHECK_FALSE(leases.claim({"w1", 2}, 9));  // another incarnation
  CHECK(leases.claim({"w1", 1}, 9));
  leases.release({"w1", 1}, 8);  // of another job
  CHECK(leases.job_of("w1") == 9);
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

}  // namespace
}  // namespace leat
