// Tests the promises of the master under thousands of histories. LEAT_SIM_SEEDS sets their number,
// and LEAT_SEED the first seed. A failing seed is run again, with a trace of its events:
//
//   `LEAT_SEED=1234 LEAT_SIM_SEEDS=1 build/release/bin/daemon_tests 'whatever happens*'`
#include "tests/daemon/sim/simulation.h"

#include <cstdlib>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/environment_number.h"
#include "tests/slowness.h"

namespace leat::sim {
namespace {

TEST_CASE("whatever happens to a cluster, every job ends as if nothing had") {
  const uint64_t first = environment_number("LEAT_SEED", 1),
                 seeds = environment_number("LEAT_SIM_SEEDS", 3'000 / kSlowness);
  Outcome all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    const Outcome outcome = simulate(seed);
    if (!outcome.broken.empty()) {
      const Outcome again = simulate(seed, Mutation::none, true);
      CHECK(again.broken == outcome.broken);
      FAIL("seed " << seed << ": " << outcome.broken << "\n" << join(again.trace, "\n"));
    }
    all.succeeded += outcome.succeeded;
    all.checkpoints += outcome.checkpoints;
    all.resumed += outcome.resumed;
    all.refused += outcome.refused;
    all.kept += outcome.kept;
    all.from_memory += outcome.from_memory;
    all.taken_up += outcome.taken_up;
    all.yields += outcome.yields;
    all.saved_yields += outcome.saved_yields;
    all.resized += outcome.resized;
    all.paused += outcome.paused;
    all.made_way += outcome.made_way;
    all.events += outcome.events;
    all.time += outcome.time;
  }
  if (seeds >= 1000) {  // fewer histories may miss some of these events
    CHECK(all.succeeded > seeds);
    CHECK(all.resumed * 20 > seeds);
    CHECK(all.from_memory * 20 > seeds);
    CHECK(all.taken_up * 20 > seeds);
    CHECK(all.yields * 20 > seeds);
    CHECK(all.saved_yields * 100 > seeds);
    CHECK(all.resized * 100 > seeds);
    CHECK(all.paused * 20 > seeds);
    CHECK(all.made_way * 100 > seeds);
  }
  if (std::getenv("LEAT_SIM_SEEDS") == nullptr) return;
  WARN(seeds << " seeds, " << all.events << " events, " << all.time / 1000 << " s of clusters: "
             << all.succeeded << " jobs, " << all.checkpoints << " checkpoints, " << all.resumed
             << " gone on from and " << all.refused << " refused; runners kept " << all.kept
             << " times, " << all.taken_up << " taken up, gone on from " << all.from_memory
             << " times; " << all.yields << " fences in memory, " << all.saved_yields << " saved, "
             << all.resized << " runners in other places; " << all.paused << " jobs paused, "
             << all.made_way << " made way");
}

TEST_CASE("a seed gives the same history every time") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome one = simulate(seed, Mutation::none, true);
    const Outcome other = simulate(seed, Mutation::none, true);
    CHECK(one.trace == other.trace);
    CHECK(one.events == other.events);
  }
}

TEST_CASE("a check or a sync that is missing is found") {
  if (kSlowness > 1) return;  // the cases above run the same code under sanitizers
  const struct {
    Mutation mutation;
    const char* what;
  } mutations[] = {
      {Mutation::assembly_unchecked, "news of an old assembly count"},
      {Mutation::acknowledged_unwritten, "acknowledged before it is written"},
      {Mutation::request_unknown, "a repeated request is another job"},
      {Mutation::lease_kept, "a lease is not released"},
      {Mutation::gone_too_soon, "a stopped runner counts as gone while it runs"},
      {Mutation::runners_outlive_lease, "a lost worker's runners go on"},
      {Mutation::checksum_unchecked, "what was damaged on its way is applied"},
      {Mutation::torn_weights_used, "variables between two steps are gone on from"},
      {Mutation::part_unsynced, "a part of a checkpoint is not synced"},
      {Mutation::manifest_unsynced, "a manifest is not synced"},
      {Mutation::folder_unsynced, "the folder of checkpoints is not synced"},
      {Mutation::not_renamed, "a checkpoint appears file by file"},
      {Mutation::resumed_behind, "a job goes on one step too far"},
  };
  for (const auto& [mutation, what] : mutations) {
    uint64_t seed = 1;
    while (seed <= 1000 && simulate(seed, mutation).broken.empty()) ++seed;
    INFO(what);
    CHECK(seed <= 1000);
  }
}

}  // namespace
}  // namespace leat::sim
