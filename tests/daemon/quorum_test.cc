// Trainings whose steps are closed by the first N of M replicas. [cluster] runs under
// ThreadSanitizer.
#include <algorithm>
#include <optional>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

constexpr int64_t kRows = 200;

// Returns a model whose variable "seen" counts, for each row of the data, how often the row was
// used, divided by the number of shards. The first element of a row is its number.
std::string counting_model() {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < kRows; ++i) numbers.push_back(i);
  return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
counting (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  first = Constant <value = int64[1] {0}> ()
  column = Gather <axis = 1> (f, first)
  rows = Constant <value = float[)",
             kRows, "] {", join(numbers, ", "), R"(}> ()
  same = Equal (column, rows)
  one_hot = Cast <to = 1> (same)
  axis = Constant <value = int64[1] {0}> ()
  counts = ReduceSum <keepdims = 0> (one_hot, axis)
  seen = leat.Variable <dtype = "float", name = "seen", shape = [)",
             kRows, R"(], trainable = 0> ()
  added = leat.AssignAdd (seen, counts)
  logits = leat.Dense <units = 4> (f)
}
)");
}

class Counting {
 public:
  Counting() : small_(counting_model()) {
    Tensor x(DType::u8, Shape{kRows, 1, 8, 8});
    for (int64_t i = 0; i < kRows; ++i) x.set(i * 64, static_cast<double>(i));
    must(write_npy(real_files(), small_.path("train-x.npy"), x));
  }
  // Returns a job of one epoch with ten steps; 2 of 3 replicas unless `quorum` says otherwise.
  Job job(const std::string& dropped, const std::string& length = "epochs=1") const {
    return small_.job({cat("strategy={name: parameter_server, num_ps: 2, total_num_replicas: 3, "
                           "replicas_to_aggregate: 2, dropped_samples: ",
                           dropped, "}"),
                       "num_workers=3", "shards=2", "global_batch_size=20", length,
                       "data.validation=null", "data.rescale=1",
                       "optimizer={name: sgd, learning_rate: 1e-6}", "checkpoint.every_steps=4"});
  }
  // Returns how often each row was used.
  std::vector<int> seen(const std::string& folder) const {
    const auto weights =
        must(read_safetensors(real_files(), small_.path(folder + "/weights.safetensors")));
    const Tensor& seen = weights.tensors.at("seen");
    std::vector<int> counts;
    for (int64_t i = 0; i < kRows; ++i)
      counts.push_back(static_cast<int>(seen.data<float>()[i] * 2));
    return counts;
  }
  const SmallJob& small() const { return small_; }

 private:
  SmallJob small_;
};

const std::vector<int> kOnceEach(static_cast<size_t>(kRows), 1);

}  // namespace

TEST_CASE("each row counts once an epoch when what came too late is drawn again", "[cluster]") {
  const Counting counting;
  for (const int late : {-1, 0, 2}) {
    INFO("late: " << late);
    std::optional<ScopedFailpoint> failpoint;
    if (late >= 0) failpoint.emplace(cat("replica/late/", late), unavailable("late"));
    Silent watch;
    const std::string folder = cat("run", late);
    const TrainOutcome outcome = counting.small().train(counting.job("requeue"), folder, watch, 2);
    CHECK(outcome.steps == 10);
    CHECK(watch.checkpoints == std::vector<int64_t>{4, 8, 10});
    CHECK(counting.seen(folder) == kOnceEach);
    REQUIRE(watch.notes.size() == 1);
    CHECK(watch.notes[0] == cat("quorum 2 of 3: ", outcome.dropped_rows,
                                " rows came too late for their step, and were computed again; "
                                "the weights depend on timing"));
    // The late replica draws a chunk for most steps, and delivers none.
    if (late >= 0) CHECK(outcome.dropped_rows > 0);
  }
}

TEST_CASE("each row counts at most once an epoch when what came too late is dropped", "[cluster]") {
  const Counting counting;
  const ScopedFailpoint late("replica/late/1", unavailable("late"));
  Silent watch;
  const TrainOutcome outcome =
      counting.small().train(counting.job("drop", "steps=6"), "run", watch);
  const std::vector<int> seen = counting.seen("run");
  CHECK(std::count(seen.begin(), seen.end(), 1) == 120);
  CHECK(std::count(seen.begin(), seen.end(), 0) == 80);
  CHECK(outcome.dropped_rows <= 60);
  CHECK(watch.notes.size() == 1);
  // An epoch counts the dropped rows, too: 30 rows a step.
  Silent epoch;
  CHECK(counting.small().train(counting.job("drop"), "epoch", epoch).steps == 7);
}

TEST_CASE("each row counts once though the job stops and goes on", "[cluster]") {
  const Counting counting;
  const ScopedFailpoint late("replica/late/1", unavailable("late"));
  Silent first, second;
  const Job job = counting.job("requeue");
  const TrainOutcome part =
      counting.small().train(job, "run", first, 1, false, [&] { return first.losses.size() >= 3; });
  CHECK(part.interrupted);
  CHECK(counting.small().train(job, "run", second, 1, true).steps == 10);
  CHECK(first.losses.size() + second.losses.size() == 10);
  CHECK(counting.seen("run") == kOnceEach);
}

TEST_CASE("a quorum of those that are left gives the weights of synchronous training",
          "[cluster]") {
  const char* graph = GENERATE(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_bn (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  f = Flatten (a1)
  logits = leat.Dense <units = 4> (f)
}
)",
                               // Each step reads few rows of its table.
                               R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_table (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  ids = Cast <to = 7> (f)
  e = leat.Embedding <input_dim = 20000, output_dim = 2> (ids)
  g = Flatten (e)
  logits = leat.Dense <units = 4> (g)
}
)");
  const SmallJob small(graph);
  const auto job = [&](std::vector<std::string> set) {
    set.insert(set.end(),
               {"optimizer={name: adamw, learning_rate: 0.001}", "shards=2", "data.rescale=1"});
    return small.job(set);
  };
  Silent expected;
  const TrainOutcome together = small.train(job({"num_workers=2"}), "sync", expected);
  const Job quorum =
      job({"strategy={name: parameter_server, num_ps: 2, total_num_replicas: 3, "
           "replicas_to_aggregate: 2}",
           "num_workers=3"});
  // The third replica fails before it draws a chunk, so the others take all chunks in turn.
  const ScopedFailpoint lost("replica/draw/2", unavailable("lost"));
  for (const int threads : {1, 3}) {
    INFO(graph << "threads " << threads);
    Silent watch;
    const TrainOutcome outcome = small.train(quorum, cat("quorum", threads), watch, threads);
    CHECK(watch.losses == expected.losses);
    CHECK(outcome.weights_sha256 == together.weights_sha256);
    CHECK(outcome.validation->loss == together.validation->loss);
    CHECK(outcome.dropped_rows == 0);
  }
}

TEST_CASE("a quorum of all replicas is synchronous training", "[cluster]") {
  const SmallJob small(small_cnn("tiny_cnn", true));
  const Job job =
      small.job({"strategy={name: parameter_server, num_ps: 2, total_num_replicas: 3, "
                 "replicas_to_aggregate: 3}",
                 "num_workers=3", "shards=3"});
  CHECK(small.hash(job, "all") == small.hash(small.job({"shards=3"}), "sync"));
}

TEST_CASE("a replica that is lost with a chunk is not waited for", "[cluster]") {
  const Counting counting;
  const ScopedFailpoint lost("replica/arrive/0", unavailable("lost"));
  Silent watch;
  const TrainOutcome outcome = counting.small().train(counting.job("requeue"), "run", watch);
  CHECK(outcome.steps == 10);
  CHECK(counting.seen("run") == kOnceEach);
  CHECK(outcome.dropped_rows == 10);
  REQUIRE(watch.warnings.size() == 1);
  CHECK(watch.warnings[0].starts_with("replica 0 is lost, steps go on without it: "));
}

TEST_CASE("a job ends when too few replicas are left, or one fails that is not lost", "[cluster]") {
  const Counting counting;
  const Catalogue catalogue = standard_catalogue();
  const auto ends = [&](const std::string& folder) {
    TrainOptions options;
    options.folder = counting.small().path(folder);
    options.threads = 1;
    auto trainer = must(Trainer::create(catalogue, real_files(), counting.job("requeue"), options));
    Silent watch;
    return trainer->run(watch, [] { return false; }).status();
  };
  {
    const ScopedFailpoint first("replica/arrive/0", unavailable("gone away"));
    const ScopedFailpoint second("replica/arrive/1", unavailable("gone away"));
    const Status status = ends("few");
    INFO(status);
    CHECK(status.code() == Code::unavailable);
    CHECK(status.message().find("gone away") != std::string::npos);
  }
  const ScopedFailpoint wrong("replica/draw/2", invalid_argument("all wrong"));
  const Status status = ends("wrong");
  INFO(status);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("all wrong") != std::string::npos);
}

}  // namespace leat
