// The time for which the steps of each host wait for rows of the data.
#include <chrono>
#include <fstream>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/http_store.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

class InputWatch final : public Silent {
 public:
  void waited_for_input(const std::vector<NamedNumber>& seconds,
                        const std::vector<NamedNumber>& steps_ahead) override {
    waits.push_back(seconds);
    ahead.push_back(steps_ahead);
  }
  std::vector<std::vector<NamedNumber>> waits, ahead;
};

TEST_CASE("each host tells how long its steps have waited for rows") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"num_workers=2", "epochs=3"});
  for (const int threads : {1, 4}) {
    InputWatch watch;
    const auto begun = std::chrono::steady_clock::now();
    small.train(job, cat("run-", threads), watch, threads);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    // At the end of each epoch, and once a second.
    REQUIRE(watch.waits.size() >= 3);
    std::vector<double> before(2, 0.0);
    for (const auto& hosts : watch.waits) {
      REQUIRE(hosts.size() == 2);
      CHECK(hosts[0].name != hosts[1].name);
      for (size_t h = 0; h < 2; ++h) {
        CHECK(hosts[h].value >= before[h]);
        CHECK(hosts[h].value < passed.count());
        before[h] = hosts[h].value;
      }
    }
    // A host with one thread reads its rows by itself. In one process the hosts share the threads.
    if (threads == 1) {
      CHECK(before[0] > 0);
      CHECK(before[1] > 0);
    }
  }
}

TEST_CASE("steps that read nothing wait for no rows") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net () => (float total) {
  v = leat.Variable <name = "v", shape = [4], dtype = "float"> ()
  x = leat.Read (v)
  one = Constant <value = float[4] {1, 1, 1, 1}> ()
  next = Add (x, one)
  [write] = leat.Assign (v, next)
  total = ReduceSum <keepdims = 0> (next)
})");
  JobOverrides overrides;
  overrides.set = {"steps=20"};
  const Job job = must(
      parse_job("version: 1\nname: none\nmodel: {graph: model.onnxtxt}\nprogram: {}\nsteps: 1\n",
                small.path("job.yaml"), overrides));
  InputWatch watch;
  small.train(job, "run", watch);
  REQUIRE(watch.losses.size() == 20);
  REQUIRE(!watch.waits.empty());
  for (const NamedNumber& host : watch.waits.back()) CHECK(host.value == 0);
}

// Tokens of a server, of which each row is a block of its own, so that no step finds its rows.
class SlowTokens {
 public:
  static constexpr int64_t kRows = 96, kWindow = 1 << 17;  // two bytes each
  SlowTokens()
      : server_([this](const StoreRequest& request) {
          return HttpStore::range_of(request, content_, "\"tokens\"");
        }) {
    content_.resize(static_cast<size_t>(kRows * kWindow * 2));
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < 4; ++i)
        content_[static_cast<size_t>((row * kWindow + i) * 2)] =
            static_cast<char>(row * (i + 1) % 12);
    }
  }
  std::string url() const { return server_.url() + "/data"; }
  const std::string& content() const { return content_; }

 private:
  std::string content_;
  HttpStore server_;
};

TEST_CASE("steps that wait for a store have its rows brought ahead, with the same weights") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
windows (int64[N,3] tokens) => (float[N,12] logits) {
  e = leat.Embedding <input_dim = 12, output_dim = 8> (tokens)
  f = Flatten (e)
  logits = leat.Dense <units = 12> (f)
}
)");
  const SlowTokens tokens;
  std::ofstream(small.path("text.bin"), std::ios::binary) << tokens.content();
  const std::string source =
      cat("{format: tokens, files: text.bin, window: ", SlowTokens::kWindow, "}");
  const auto job = [&](const std::string& root) {
    return small.job({cat("data.root=", root), cat("data.train=", source),
                      cat("data.validation=", source), "data.rescale=1",
                      "data.columns={tokens: 'window[:3]', labels: 'window[3:4]'}",
                      "global_batch_size=4", "shards=2", "epochs=2"});
  };
  for (const int threads : {1, 3}) {
    INFO("threads " << threads);
    InputWatch disk, store;
    const std::string weights =
        small.train(job(small.path()), cat("disk-", threads), disk, threads).weights_sha256;
    const TrainOutcome slow =
        small.train(job(tokens.url()), cat("store-", threads), store, threads);
    CHECK(slow.weights_sha256 == weights);
    // The first step has waited, and there were too few for a descent since then.
    REQUIRE(!store.ahead.empty());
    REQUIRE(store.ahead.back().size() == 1);
    const double depth = store.ahead.back()[0].value;
    CHECK(depth >= 1);
    // Half of the cache, for rows of a block each.
    CHECK(depth <= 32);
  }
}

}  // namespace
}  // namespace leat
