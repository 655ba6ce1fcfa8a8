// Programs: jobs whose graphs have their own gradients, updates and state. [cluster] runs under
// ThreadSanitizer.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using Set = std::vector<std::string>;

std::string shipped(const std::string& name) {
  return (std::filesystem::path(LEAT_SOURCE_DIR) / "configs/programs" / name).string();
}

// A folder for runs; its own job and data are not used.
constexpr const char* kAnyGraph = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
any (float[N,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  y = leat.Dense <units = 4> (f)
}
)";

Job job_of(const std::string& path, const Set& set = {}) {
  JobOverrides overrides;
  overrides.set = set;
  return must(load_job(path, overrides));
}

// A job with this graph in the folder of `small`.
Job job_with(const SmallJob& small, const std::string& graph, const Set& set = {}) {
  std::ofstream(small.path("p.onnxtxt"))
      << "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n"
      << graph;
  return job_of(small.path("p.onnxtxt"), set);
}

std::string refusal(const SmallJob& small, const Job& job) {
  TrainOptions options;
  options.folder = small.path("refused");
  auto trainer = small.trainer(job, options);
  if (!trainer.ok()) return trainer.status().message();
  Silent watch;
  const auto outcome = (*trainer)->run(watch, [] { return false; });
  REQUIRE(!outcome.ok());
  return outcome.status().message();
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

// The last row of a step in the run's metrics.
std::string last_row(const SmallJob& small, const std::string& folder) {
  std::ifstream in(small.path(folder) + "/metrics.jsonl");
  std::string line, last;
  while (std::getline(in, line)) {
    if (line.find("\"epoch\"") == std::string::npos) last = line;
  }
  return last;
}

double number_of(const std::string& row, const std::string& name) {
  const std::string key = cat("\"", name, "\":");
  const size_t at = row.find(key);
  INFO(row);
  REQUIRE(at != std::string::npos);
  return std::stod(row.substr(at + key.size()));
}

TEST_CASE("a GAN is a program with two losses", "[cluster]") {
  const SmallJob small(kAnyGraph);
  const Set set{"steps=40", "shards=4"};
  Silent watch;
  const auto whole = small.train(job_of(shipped("gan.onnxtxt"), set), "whole", watch);
  const std::string row = last_row(small, "whole");
  CHECK(static_cast<float>(number_of(row, "loss_d")) == static_cast<float>(watch.losses.back()));
  CHECK(number_of(row, "loss_g") > 0);
  CHECK(row.find("learning_rate") == std::string::npos);
  for (const int workers : {2, 3, 4}) {
    Set more = set;
    more.push_back(cat("num_workers=", workers));
    CHECK(small.hash(job_of(shipped("gan.onnxtxt"), more), cat("workers-", workers), workers % 4) ==
          whole.weights_sha256);
  }
  Silent first, second;
  small.train(job_of(shipped("gan.onnxtxt"), {"steps=17", "shards=4"}), "parts", first);
  const auto parts =
      small.train(job_of(shipped("gan.onnxtxt"), set), "parts", second, 2, /*resume=*/true);
  CHECK(second.first == 17);
  CHECK(parts.weights_sha256 == whole.weights_sha256);
  if (kSlowness > 1) return;  // daemons are processes of their own
  ProcessCluster cluster({.workers = 2, .master = {"--set", "chaos=true"}});
  Set two = set;
  two.emplace_back("num_workers=2");
  const std::string path = small.path("submitted.yaml");
  std::ofstream(path) << print_job(job_of(shipped("gan.onnxtxt"), two));
  const auto view = nlohmann::json::parse(cluster.run_with_fault(path, "kill=runner:1@step=7"));
  CHECK(view["weights_sha256"] == whole.weights_sha256);
  CHECK(view["history"].size() == 1);
}

TEST_CASE("the GAN's generator learns where the points are") {
  const SmallJob small(kAnyGraph);
  Silent watch;
  small.train(job_of(shipped("gan.onnxtxt"), {"steps=1500"}), "run", watch, 2);
  CHECK(std::abs(number_of(last_row(small, "run"), "mean_x") - 2) < 0.7);
}

TEST_CASE("a parameter server by hand trains on three workers", "[cluster]") {
  const SmallJob small(kAnyGraph);
  Silent watch;
  const Job job = job_of(shipped("parameter_server.onnxtxt"),
                         {"steps=150", "strategy=single", "num_workers=3"});
  const auto outcome = small.train(job, "run", watch);
  CHECK(watch.losses.front() > 5);
  CHECK(watch.losses.back() < 1e-3);
  CHECK(small.hash(job, "again", 2) == outcome.weights_sha256);
}

TEST_CASE("sampled softmax trains a table by few of its rows", "[cluster]") {
  const SmallJob small(kAnyGraph);
  const Set set{"steps=60", "shards=2"};
  Silent watch;
  const auto one = small.train(job_of(shipped("sampled_softmax.onnxtxt"), set), "run", watch);
  CHECK(watch.losses.back() < watch.losses.front());
  Set two = set;
  two.emplace_back("num_workers=2");
  CHECK(small.hash(job_of(shipped("sampled_softmax.onnxtxt"), two), "two", 2) ==
        one.weights_sha256);
}

TEST_CASE("an actor and a learner share a queue", "[cluster]") {
  const SmallJob small(kAnyGraph);
  const Job job = job_of(shipped("actor_learner.yaml"));
  Silent watch;
  const auto outcome = small.train(job, "run", watch);
  CHECK(watch.losses.front() == 0.45f);  // the mean of the first batch
  CHECK(watch.losses.back() > 0.8);
  CHECK(small.hash(job, "again", 2) == outcome.weights_sha256);
  // The queue is in no checkpoint.
  TrainOptions options;
  options.folder = small.path("run");
  options.resume = true;
  auto trainer = must(small.trainer(job_of(shipped("actor_learner.yaml"), {"steps=300"}), options));
  const auto on = trainer->run(watch, [] { return false; });
  REQUIRE(!on.ok());
  has(on.status().message(), "leat.Queue 'played', which is in no checkpoint");
}

constexpr const char* kReplicas =
    R"(replicas () => (float[1] sum, float[1] most, float gathered, float[1] root, float part, float other) {
  id = leat.ReplicaId ()
  number = Cast <to = 1> (id)
  sum = leat.AllReduce (number)
  most = leat.AllReduce <op = "max"> (number)
  all = leat.AllGather <axis = 0, replicas = 3> (number)
  last = Constant <value = int64 {2}> ()
  gathered = Gather (all, last)
  root = leat.Broadcast <root = 1> (number)
  hundreds = Constant <value = float[3] {100, 200, 300}> ()
  three = Add (hundreds, number)
  summed = leat.ReduceScatter <replicas = 3> (three)
  parts = leat.AllGather <axis = 0, replicas = 3> (summed)
  part = Gather (parts, last)
  exchanged = leat.AllToAll <replicas = 3> (three)
  all_exchanged = leat.AllGather <axis = 0, replicas = 3> (exchanged)
  place = Constant <value = int64 {5}> ()
  other = Gather (all_exchanged, place)
}
)";

TEST_CASE("the shards of a program exchange values", "[cluster]") {
  const SmallJob small(kAnyGraph);
  const std::string strategy = GENERATE("mirrored", "parameter_server", "central_storage");
  for (const int workers : {1, 2, 3}) {
    INFO(strategy << ", workers " << workers);
    const std::string folder = cat("run", workers);
    Silent watch;
    small.train(
        job_with(small, kReplicas,
                 {"steps=2", "shards=3", cat("num_workers=", workers), cat("strategy=", strategy)}),
        folder, watch);
    const std::string row = last_row(small, folder);
    CHECK(number_of(row, "part") == 903);   // the third elements of 100 + id, 200 + id, 300 + id
    CHECK(number_of(row, "other") == 202);  // what the second shard has of the third
    CHECK(number_of(row, "sum") == 3);
    CHECK(number_of(row, "most") == 2);
    CHECK(number_of(row, "gathered") == 2);
    CHECK(number_of(row, "root") == 1);
  }
}

// The shipped programs, from their files, through the daemons: as `leat submit` takes them.
TEST_CASE("every shipped program trains on daemons to the weights of one process", "[cluster]") {
  if (kSlowness > 1) return;  // daemons are processes of their own
  struct Shipped {
    const char* file;
    Set set;
  };
  // A parameter server by hand has two workers beside the server.
  const Shipped programs[] = {
      {"gan.onnxtxt", {"steps=30", "shards=4", "num_workers=2"}},
      {"actor_learner.yaml", {"steps=60"}},
      {"parameter_server.onnxtxt", {"steps=40", "strategy=single", "num_workers=3"}},
      {"sampled_softmax.onnxtxt", {"steps=30", "shards=2", "num_workers=2"}}};
  const SmallJob small(kAnyGraph);
  ProcessCluster cluster({.workers = 3});
  std::set<std::string> hashes;
  for (const Shipped& program : programs) {
    std::vector<std::string> arguments{"--wait", "--json", shipped(program.file)};
    for (const std::string& entry : program.set)
      arguments.insert(arguments.end(), {"--set", entry});
    const Finished done = cluster.leat("submit", arguments);
    INFO(program.file << "\n" << done.out << done.err << cluster.logs());
    REQUIRE(done.exit_code == 0);
    const std::string expected =
        small.hash(job_of(shipped(program.file), program.set), cat(program.file, "-run"));
    CHECK(done.out.find(cat('"', expected, '"')) != std::string::npos);
    hashes.insert(expected);
  }
  CHECK(hashes.size() == std::size(programs));
}

// Eight items on four shards; the same by plain ops, which every shard computes for all items.
constexpr const char* kMapped =
    R"(mapped () => (float loss, float off, float grad_off, float gather_off, float most) {
  w_variable = leat.Variable <name = "w", shape = [3]> ()
  w_first = Constant <value = float[3] {0.5, -1, 2}> ()
  [init_w] = leat.Initialize (w_variable, w_first)
  w = leat.Read (w_variable)
  items = Constant <value = float[8,3] {1, 2, 3, 0, 1, 0, -1, 2, 0.5, 3, 3, 1, 0, 0, 2, 1, 1, 1, -2, 1, 0, 1, -1, 1}> ()
  targets = Constant <value = float[8] {1, -2, 0, 3, 1, 0.5, 2, -1}> ()
  last = Constant <value_ints = [1]> ()
  loss = leat.MapReduce <op = "mean", replicas = 4, body = cost (float[3] x, float t) => (c) {
    p = Mul (x, w)
    sum = ReduceSum <keepdims = 0> (p)
    e = Sub (sum, t)
    c = Mul (e, e)
  }> (items, targets)
  shard_grad = leat.Gradients (loss, w)
  grad = leat.AllReduce <op = "mean"> (shard_grad)
  rate = Constant <value = float {0.02}> ()
  [train] = leat.ApplySgd (w_variable, grad, rate)
  products = leat.MapGather <replicas = 4, body = product (float[3] x) => (p) { p = Mul (x, w) }> (items)
  most = leat.MapReduce <op = "max", replicas = 4, body = largest (float t) => (u) { u = Neg (t) }> (targets)
  plain_products = Mul (items, w)
  plain_sums = ReduceSum <keepdims = 0> (plain_products, last)
  plain_errors = Sub (plain_sums, targets)
  plain_squares = Mul (plain_errors, plain_errors)
  plain_loss = ReduceMean <keepdims = 0> (plain_squares)
  plain_grad = leat.Gradients (plain_loss, w)
  loss_difference = Sub (loss, plain_loss)
  off = Abs (loss_difference)
  grad_difference = Sub (grad, plain_grad)
  grad_distance = Abs (grad_difference)
  grad_off = ReduceMax <keepdims = 0> (grad_distance)
  gather_difference = Sub (products, plain_products)
  gather_distance = Abs (gather_difference)
  gather_off = ReduceMax <keepdims = 0> (gather_distance)
}
)";

TEST_CASE("shards share the items of a map under every synchronous strategy", "[cluster]") {
  const SmallJob small(kAnyGraph);
  std::string hash;
  for (const char* strategy : {"single", "mirrored", "parameter_server", "central_storage"}) {
    for (const int workers : {1, 2, 3, 4}) {
      if (std::string(strategy) == "single" && workers > 1) continue;
      INFO(strategy << ", workers " << workers);
      const std::string folder = cat(strategy, "-", workers);
      Silent watch;
      const auto outcome = small.train(
          job_with(
              small, kMapped,
              {"steps=20", "shards=4", cat("num_workers=", workers), cat("strategy=", strategy)}),
          folder, watch, workers % 2 + 1);
      if (hash.empty()) hash = outcome.weights_sha256;
      CHECK(outcome.weights_sha256 == hash);
      CHECK(watch.losses.back() < 0.5 * watch.losses.front());
      const std::string row = last_row(small, folder);
      CHECK(number_of(row, "off") < 1e-5);
      CHECK(number_of(row, "grad_off") < 1e-5);
      CHECK(number_of(row, "gather_off") == 0);
      CHECK(number_of(row, "most") == 2);
    }
  }
  // The sum over the items is one tree, however many shards there are.
  std::set<double> losses;
  for (const int shards : {1, 2, 4, 8}) {
    std::string text = kMapped;
    for (size_t at = 0; (at = text.find("replicas = 4", at)) != std::string::npos; ++at)
      text.replace(at, 12, cat("replicas = ", shards));
    Silent watch;
    small.train(job_with(small, text, {"steps=1", cat("shards=", shards), "num_workers=1"}),
                cat("shards-", shards), watch);
    losses.insert(watch.losses.front());
  }
  CHECK(losses.size() == 1);
  // As many replicas as shards, or the sum would count items twice.
  has(refusal(small, job_with(small, kMapped, {"steps=1", "shards=2", "num_workers=2"})),
      "replicas: expected 2, the number of shards, received 4");
}

constexpr const char* kMeanModel = R"(mean (float[N,3] x, int64[N] k) => (float[N] y) {
  w_variable = leat.Variable <name = "w", shape = [3]> ()
  zero = Constant <value = float[3] {0, 0, 0}> ()
  [init_w] = leat.Initialize (w_variable, zero)
  w = leat.Read (w_variable)
  last = Constant <value_ints = [1]> ()
  error = Sub (x, w)
  y = ReduceSumSquare <keepdims = 0> (error, last)
  shard_loss = ReduceMean <keepdims = 0> (y)
  loss = leat.AllReduce <op = "mean"> (shard_loss)
  shard_grad = leat.Gradients (shard_loss, w)
  grad = leat.AllReduce <op = "mean"> (shard_grad)
  rate = Constant <value = float {0.25}> ()
  [train] = leat.ApplySgd (w_variable, grad, rate)
  [wrong] = leat.ApplySgd (w_variable, shard_grad, rate)
}
)";

TEST_CASE("the inputs of a program read columns") {
  const SmallJob small(kAnyGraph);
  Tensor x(DType::f32, {12, 3}), k(DType::i64, {12});
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i % 3 + 1));
  must(write_npy(real_files(), small.path("x.npy"), x));
  must(write_npy(real_files(), small.path("k.npy"), k));
  const std::string graph = kMeanModel;
  const Set set{"data={root: ., train: {format: npy, files: {x: x.npy, k: k.npy}}}",
                "global_batch_size=6", "epochs=20", "shards=2",
                "program={step: [train], fetch: [loss]}"};
  Silent watch;
  small.train(job_with(small, graph, set), "run", watch);
  CHECK(watch.epochs == 20);
  CHECK(watch.losses.size() == 40);
  CHECK(watch.losses.front() == 14);
  CHECK(watch.losses.back() < 1e-6);

  // An update that the shards do not agree on, and a fetch of one shard.
  Set wrong = set;
  wrong.back() = "program={step: [wrong], fetch: [loss]}";
  has(refusal(small, job_with(small, graph, wrong)), "differs between shards");
  wrong.back() = "program={step: [train], fetch: [shard_loss]}";
  has(refusal(small, job_with(small, graph, wrong)), "differs between the 2 shards");
  // Names.
  wrong.back() = "program={step: [trian], fetch: [loss]}";
  has(refusal(small, job_with(small, graph, wrong)),
      "program.step: expected the name of a node, or of a value that a node makes, received "
      "'trian' (did you mean 'train'?)");
  wrong.back() = "program={step: [train], fetch: [y]}";
  has(refusal(small, job_with(small, graph, wrong)), "'y': expected one number");
  // An input needs data.
  has(refusal(small, job_with(small, graph, {"steps=1", "program={step: [train]}"})),
      "its input 'x' reads a column: expected data in the job file");
}

TEST_CASE("a program that gets a NaN fails and names the step") {
  const SmallJob small(kAnyGraph);
  const Job job = job_with(small, R"(nan () => (float a, float b) {
  step = leat.Step ()
  at = Cast <to = 1> (step)
  one = Constant <value = float {1}> ()
  a = Identity (one)
  three = Constant <value = float {3}> ()
  left = Sub (three, at)
  b = Log (left)
}
)",
                           {"steps=9"});
  has(refusal(small, job), "a fetch of step 4 is -Inf");
}

TEST_CASE("a job file with a program is read, checked and printed") {
  const SmallJob small(kAnyGraph);
  const std::string text =
      "version: 1\nname: p\nmodel: {graph: p.onnxtxt}\nprogram: {init: [a], step: [b, c], fetch: "
      "[d]}\nsteps: 3\nshards: 4\n";
  const std::string path = small.path("p.yaml");
  const Job job = must(parse_job(text, path));
  REQUIRE(job.program);
  CHECK(job.program->step == Set{"b", "c"});
  CHECK(!job.has_data());
  CHECK(job.global_batch_size == 4);
  CHECK(must(parse_job(print_job(job), path)) == job);

  const auto refuses = [&](const std::string& more, const std::string& message) {
    const auto read = parse_job(text + more, path);
    REQUIRE(!read.ok());
    has(read.status().message(), message);
  };
  refuses("loss: mse\n", "loss: expected no such key beside program");
  refuses("optimizer: {name: sgd, learning_rate: 1}\n", "optimizer: expected no such key");
  refuses("epochs: 2\n", "expected");
  const auto no_data = parse_job(
      "version: 1\nname: p\nmodel: {graph: p.onnxtxt}\nloss: mse\noptimizer: {name: sgd, "
      "learning_rate: 1}\nglobal_batch_size: 1\nsteps: 3\n",
      path);
  REQUIRE(!no_data.ok());
  has(no_data.status().message(), "data: ");
  // A graph file stands for a program with all of its effects and outputs.
  std::ofstream(small.path("my graph.onnxtxt")) << "x";
  const Job bare = job_of(small.path("my graph.onnxtxt"), {"steps=5"});
  CHECK(bare.name == "my-graph");
  CHECK(bare.model.graph == small.path("my graph.onnxtxt"));
  CHECK(bare.program == Job::Program{});
}

}  // namespace
}  // namespace leat
