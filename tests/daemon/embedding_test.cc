// Trains tables of which a step looks up few rows. [cluster] runs under ThreadSanitizer.
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"

namespace leat {
namespace {

// Every pixel is an id, so that a global batch has 1536.
constexpr const char* kPixels = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
pixels (float[N,1,8,8] image) => (float[N,4] logits) {
  most = Constant <value = float {1999.0}> ()
  scaled = Mul (image, most)
  ids = Cast <to = 7> (scaled)
  looked_up = leat.Embedding <input_dim = 2001, output_dim = 4> (ids)
  f = Flatten (looked_up)
  logits = leat.Dense <units = 4> (f)
}
)";

TEST_CASE("a model with a large table trains to the same bits under every strategy", "[cluster]") {
  const SmallJob small(kPixels);
  for (const std::string optimizer :
       {"{name: sgd, learning_rate: 0.1}", "{name: adam, learning_rate: 0.01}",
        "{name: adam, learning_rate: 0.01, lazy: true}"}) {
    const auto hash = [&](const std::string& strategy, int workers, const std::string& folder,
                          const std::string& on_nan = "fail") {
      return small.hash(small.job({cat("optimizer=", optimizer), cat("strategy=", strategy),
                                   cat("num_workers=", workers), cat("on_nan=", on_nan)}),
                        folder, 2);
    };
    const std::string folder = cat(optimizer.size(), "-");
    const std::string expected = hash("single", 1, folder + "single");
    int run = 0;
    for (const char* strategy :
         {"mirrored", "parameter_server", "{name: parameter_server, num_ps: 2}"}) {
      for (const int workers : {2, 3, 4}) {
        INFO(optimizer << ", " << strategy << ", " << workers << " workers");
        CHECK(hash(strategy, workers, cat(folder, run++)) == expected);
      }
      CHECK(hash(strategy, 2, cat(folder, run++), "skip") == expected);
    }
  }
}

TEST_CASE("lazy updates learn too, and leave other weights than eager ones", "[cluster]") {
  const SmallJob small(kPixels);
  std::vector<std::string> hashes;
  for (const std::string lazy : {"false", "true"}) {
    const Job job =
        small.job({cat("optimizer={name: adam, learning_rate: 0.01, lazy: ", lazy, "}")});
    Silent watch;
    hashes.push_back(small.train(job, "run-" + lazy, watch, 2).weights_sha256);
    CHECK(watch.losses.back() < 0.5 * watch.losses.front());
  }
  CHECK(hashes[0] != hashes[1]);
}

TEST_CASE("one worker that steps by itself trains a table as one that waits does", "[cluster]") {
  const SmallJob small(kPixels);
  const auto hash = [&](const std::string& mode) {
    return small.hash(small.job({"optimizer={name: sgd, learning_rate: 0.1}", "shards=2",
                                 cat("strategy={name: parameter_server, mode: ", mode, "}")}),
                      mode);
  };
  CHECK(hash("async") == hash("sync"));
}

}  // namespace
}  // namespace leat
