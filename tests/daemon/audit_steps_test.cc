// Trainings some of whose steps are audited: see Job::audit.
#include <algorithm>
#include <filesystem>

#include "daemon/training/audit_verdict.h"
#include "devices/base/failpoint.h"
#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/environment_number.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

// A convolution, running statistics, random numbers and two layers.
constexpr const char* kAudited = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
audited (float[N,1,8,8] image) => (float[N,4] logits) {
  c = leat.Conv2D <filters = 4, kernel = 3, activation = "relu"> (image)
  b = leat.BatchNorm (c)
  f = Flatten (b)
  d = leat.Dropout <rate = 0.2> (f)
  h = leat.Dense <units = 8, activation = "relu"> (d)
  logits = leat.Dense <units = 4> (h)
}
)";

// Digests of `runs` computations by `hosts` hosts of so many shards, all alike.
std::vector<AuditedRun> alike(size_t runs, int64_t shards, size_t values) {
  std::vector<AuditedRun> all;
  for (size_t r = 0; r < runs; ++r) {
    std::vector<int64_t> digests;
    for (int64_t s = 0; s < shards; ++s) {
      // Each shard has its own share of a sum, and the same sum.
      for (size_t v = 0; v < values; ++v)
        digests.push_back(v % 2 == 0 ? 100 * s + static_cast<int64_t>(v) : static_cast<int64_t>(v));
    }
    all.push_back({r, digests});
  }
  return all;
}

const std::vector<AuditedValue> kValues{{"a", false}, {"a", true}, {"b", false}, {"b", true}};

TEST_CASE("the verdict of an audit names the worker that most others contradict") {
  constexpr int64_t kShards = 6;
  for (const size_t hosts : {2, 3, 4, 6}) {
    const size_t runs = std::min<size_t>(hosts, 3);
    const auto right = alike(runs, kShards, kValues.size());
    CHECK(!compare_computations(kValues, right, kShards, hosts));
    for (size_t run = 0; run < runs; ++run) {
      for (int64_t shard = 0; shard < kShards; ++shard) {
        for (size_t value = 0; value < kValues.size(); ++value) {
          INFO(hosts << " hosts, run " << run << " shard " << shard << " value " << value);
          auto wrong = right;
          wrong[run].digests[static_cast<size_t>(shard) * kValues.size() + value] ^= 1;
          const auto found = compare_computations(kValues, wrong, kShards, hosts);
          REQUIRE(found);
          CHECK(found->value == value);
          CHECK(found->shard == (kValues[value].sum ? -1 : shard));
          if (kValues[value].sum || hosts > 2) {
            CHECK(found->wrong == std::vector<size_t>{host_of_shard(shard, run, kShards, hosts)});
          } else {
            CHECK(found->wrong.empty());
            CHECK(found->suspects == std::vector<size_t>{0, 1});
          }
        }
      }
    }
  }
}

TEST_CASE("the verdict of an audit blames no worker for what followed from another's fault") {
  // A wrong share makes all sums of its run wrong, and the shares behind them.
  auto runs = alike(3, 3, kValues.size());
  runs[1].digests[0 * 4 + 0] ^= 1;
  for (size_t shard = 0; shard < 3; ++shard) {
    for (size_t value = 1; value < 4; ++value) runs[1].digests[shard * 4 + value] ^= 1;
  }
  const auto found = compare_computations(kValues, runs, 3, 3);
  CHECK(found == AuditFinding{0, 0, {1}, {}});
  // A sum that all workers of a run have alike, but differently from the other runs, was wrong
  // before it came to them.
  runs = alike(3, 3, kValues.size());
  for (size_t shard = 0; shard < 3; ++shard) runs[2].digests[shard * 4 + 1] ^= 1;
  CHECK(compare_computations(kValues, runs, 3, 3) == AuditFinding{1, -1, {}, {0, 1, 2}});
  // Two faults at once leave no majority.
  runs = alike(3, 3, kValues.size());
  runs[0].digests[0] ^= 1;
  runs[1].digests[0] ^= 2;
  CHECK(compare_computations(kValues, runs, 3, 3) == AuditFinding{0, 0, {}, {0, 1, 2}});
}

TEST_CASE("the verdict of an audit on variables takes the bits of more than half of the workers") {
  CHECK(!compare_holdings({1, 2, 1, 2, 1, 2}, 2, 3));
  CHECK(compare_holdings({1, 2, 1, 7, 1, 2}, 2, 3) == AuditFinding{1, -1, {1}, {}});
  CHECK(compare_holdings({1, 2, 1, 7}, 2, 2) == AuditFinding{1, -1, {}, {0, 1}});
  CHECK(compare_holdings({5, 5, 6, 6}, 1, 4) == AuditFinding{0, -1, {}, {0, 1, 2, 3}});
  CHECK(compare_holdings({5, 6, 6, 6, 7}, 1, 5) == AuditFinding{0, -1, {0, 4}, {}});
}

// The error of a training whose failpoint `name` flips a bit at its pass number `pass`; "" if it
// succeeds.
std::string error_with_flip(const SmallJob& small, const Job& job, const std::string& folder,
                            const std::string& name, uint64_t pass, Silent& watch) {
  const ScopedFailpoint flip(name, unavailable("flip"), pass);
  TrainOptions options{small.path(folder)};
  options.threads = 1;
  const auto trainer = must(small.trainer(job, options));
  const auto outcome = trainer->run(watch, [] { return false; });
  return outcome.status().message();
}

// The weights of the job when it goes on from its last checkpoint; from its start without one.
std::string hash_resumed(const SmallJob& small, const Job& job, const std::string& folder) {
  Silent watch;
  const bool saved = !std::filesystem::is_empty(small.path(folder + "/checkpoints"));
  return small.train(job, folder, watch, 1, saved).weights_sha256;
}

TEST_CASE("an audit changes no bit of the weights, and finds nothing without a fault") {
  const SmallJob small(kAudited);
  const std::string optimizer =
      GENERATE(as<std::string>{}, "optimizer={name: adamw, learning_rate: 0.01}",
               "optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9, sam: 0.05}",
               "optimizer={name: adam, learning_rate: 0.01, ema: 0.9, clip_norm: 1}");
  const std::vector<std::string> common{optimizer, "lr_scheduler={name: constant}",
                                        "data.transforms=[{random_crop: {padding: 1}}]"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return small.job(more);
  };
  INFO(optimizer);
  const std::string expected = small.hash(with({}), "plain");
  for (const int workers : {2, 3, 4}) {
    if (kSlowness > 1 && workers != 3) continue;
    for (const char* share : {"0.3", "1"}) {
      INFO(workers << " workers, " << share);
      Silent watch;
      const Job job = with({cat("num_workers=", workers), cat("audit=", share)});
      const auto outcome = small.train(job, cat("run-", workers, "-", share), watch);
      CHECK(outcome.weights_sha256 == expected);
      CHECK(watch.warnings.empty());
      REQUIRE(!watch.notes.empty());
      CHECK_THAT(watch.notes.back(),
                 Catch::StartsWith("audited ") && Catch::EndsWith("pairs of a step and a shard, 0 "
                                                                  "differences"));
      if (std::string(share) == "1")
        CHECK_THAT(watch.notes.back(), Catch::Contains("30 steps: 120"));
    }
  }
}

// Its gradient goes as lines in a plan without digests, and whole in one with them.
TEST_CASE("an audit changes no bit of a table") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
lookup (int64[N] id, float[N,4] x) => (float[N,4] logits) {
  e = leat.Embedding <input_dim = 300, output_dim = 8> (id)
  d = leat.Dense <units = 8> (x)
  m = Mul (e, d)
  logits = leat.Dense <units = 4> (m)
}
)");
  const char* optimizer = GENERATE("optimizer={name: adam, learning_rate: 0.01, lazy: true}",
                                   "optimizer={name: sgd, learning_rate: 0.05}");
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {optimizer, "data.validation=null",
                 "data.train={format: synthetic, rows: 200, columns: {id: {dtype: int64, "
                 "distribution: integers, low: 0, high: 300}, x: {shape: [4]}, labels: {dtype: "
                 "int64, distribution: integers, low: 0, high: 4}}}"});
    return small.job(more);
  };
  const std::string expected = small.hash(with({}), "plain");
  Silent watch;
  CHECK(small.train(with({"num_workers=3", "audit=0.5"}), "audited", watch).weights_sha256 ==
        expected);
  CHECK(watch.warnings.empty());
}

TEST_CASE("a flipped bit is found wherever it is, and the training goes back before it") {
  const SmallJob small(kAudited);
  const int workers = GENERATE(2, 3);
  const Job job =
      small.job({cat("num_workers=", workers), "audit=1", "steps=12", "checkpoint.every_steps=4"});
  const std::string expected = small.hash(small.job({"steps=12"}), "plain");
  // Every kind of value, in turn, at a drawn pass of any worker; all of them come in the 12 steps.
  constexpr const char* kKinds[] = {"gradient", "share", "sum", "variable"};
  const int flips = static_cast<int>(environment_number("LEAT_AUDIT_FLIPS", kSlowness > 1 ? 4 : 8));
  int named = 0;
  for (int i = 0; i < flips; ++i) {
    const std::string kind = kKinds[i % 4];
    const uint64_t pass =
        1 +
        philox({static_cast<uint32_t>(i), static_cast<uint32_t>(workers), 0, 0}, {1, 2})[0] % 180;
    const std::string folder = cat("run-", workers, "-", i);
    INFO(folder << ": " << kind << " " << pass);
    Silent watch;
    const std::string error = error_with_flip(small, job, folder, "digest/" + kind, pass, watch);
    CHECK_THAT(error, Catch::StartsWith("audit "));
    CHECK_THAT(error, Catch::Contains("' has other bits of ") ||
                          Catch::Contains("it cannot be told which of them is wrong"));
    if (error.find("' has other bits of ") != std::string::npos) ++named;
    REQUIRE(watch.warnings.size() == 1);
    CHECK_THAT(watch.warnings[0], Catch::Contains("1 difference"));
    CHECK(hash_resumed(small, job, folder) == expected);
  }
  // With two workers only a sum can be told, which each of them has from both computations.
  if (workers == 3) CHECK(named >= flips - flips / 4);
}

}  // namespace
}  // namespace leat
