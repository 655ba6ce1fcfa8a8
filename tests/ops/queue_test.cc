#include <atomic>
#include <thread>

#include "ops/state/queue_resource.h"
#include "tests/catch.h"
#include "tests/ops/job_testing.h"

namespace leat {
namespace {

using testing::TestJob;
using Texts = std::vector<std::string>;

std::unique_ptr<QueueResource> make_queue(int64_t capacity, const Texts& components = {"int64[]"}) {
  auto parsed = parse_components(components);
  REQUIRE(parsed.ok());
  auto made = QueueResource::create("q", *parsed, capacity, 1 << 20);
  REQUIRE(made.ok());
  return std::move(*made);
}

// One caller of a queue of int64 scalars.
struct Caller {
  QueueResource& queue;
  QueueResource::Pending pending;

  QueueResource::Attempt enqueue(int64_t value) {
    const void* from[] = {&value};
    return queue.enqueue(from, pending);
  }
  // -1 while blocked, -2 when closed and empty.
  int64_t dequeue() {
    int64_t value = 0;
    void* to[] = {&value};
    const auto attempt = queue.dequeue(to);
    if (attempt.progress == Progress::blocked) return -1;
    return attempt.progress == Progress::failed ? -2 : value;
  }
};

bool released(QueueResource& queue, const QueueResource::Attempt& attempt) {
  return queue.events().reached(attempt.await);
}

TEST_CASE("component types are read from text") {
  const auto matrix = parse_component("float[2,3]");
  REQUIRE(matrix.ok());
  CHECK(matrix->dtype == DType::f32);
  CHECK(matrix->shape == Shape{2, 3});
  CHECK(matrix->to_string() == "float[2,3]");
  const auto scalar = parse_component("int64[]");
  REQUIRE(scalar.ok());
  CHECK(scalar->shape == Shape());
  for (const auto* text :
       {"", "float", "float[", "[2]", "f32[2]", "float[2", "float[2,]", "float[,2]", "float[-1]",
        "float[x]", "float[2 ]", "float[2]]", "float[1,1,1,1,1,1,1,1,1]", "invalid[]",
        "float[99999999999999999999]", "float[4611686018427387904,4]"}) {
    INFO(text);
    CHECK(parse_component(text).status().code() == Code::invalid_argument);
  }
}

TEST_CASE("a queue gives its elements in the order in which they came, around the ring") {
  auto queue = make_queue(3);
  Caller caller{*queue, {}};
  int64_t next = 0;
  for (int64_t i = 0; i < 10; ++i) {
    CHECK(caller.enqueue(i).progress == Progress::done);
    if (i % 3 != 0) CHECK(caller.dequeue() == next++);
    if (queue->size() == 3) CHECK(caller.dequeue() == next++);
  }
  while (queue->size() > 0) CHECK(caller.dequeue() == next++);
  CHECK(next == 10);
}

TEST_CASE("elements of several components keep all of their bytes") {
  auto queue = make_queue(2, {"float[5]", "uint8[3]", "double[0]", "int64[]"});
  QueueResource::Pending pending;
  for (int round = 0; round < 5; ++round) {
    const auto seed = static_cast<uint64_t>(round);
    const Tensor a = testing::random_tensor(DType::f32, {5}, seed), c(DType::f64, {0});
    const Tensor b = testing::random_tensor(DType::u8, {3}, seed, 0, 255);
    const Tensor d = testing::random_tensor(DType::i64, {}, seed, -100, 100);
    const void* from[] = {a.raw(), b.raw(), c.raw(), d.raw()};
    REQUIRE(queue->enqueue(from, pending).progress == Progress::done);
    const Tensor x(DType::f32, {5}), y(DType::u8, {3}), z(DType::i64, {});
    void* to[] = {x.raw(), y.raw(), nullptr, z.raw()};
    REQUIRE(queue->dequeue(to).progress == Progress::done);
    testing::check_identical(x, a);
    testing::check_identical(y, b);
    testing::check_identical(z, d);
  }
}

TEST_CASE("a full queue blocks until an element leaves") {
  auto queue = make_queue(1);
  Caller caller{*queue, {}};
  CHECK(caller.enqueue(1).progress == Progress::done);
  const auto attempt = caller.enqueue(2);
  REQUIRE(attempt.progress == Progress::blocked);
  CHECK_FALSE(released(*queue, attempt));
  CHECK(queue->size() == 1);
  CHECK(caller.dequeue() == 1);
  CHECK(released(*queue, attempt));
  CHECK(caller.enqueue(2).progress == Progress::done);
  CHECK(caller.dequeue() == 2);
}

TEST_CASE("an empty queue blocks until an element comes") {
  auto queue = make_queue(2);
  Caller caller{*queue, {}};
  int64_t value = 0;
  void* to[] = {&value};
  const auto attempt = queue->dequeue(to);
  REQUIRE(attempt.progress == Progress::blocked);
  CHECK_FALSE(released(*queue, attempt));
  CHECK(caller.enqueue(7).progress == Progress::done);
  CHECK(released(*queue, attempt));
  CHECK(caller.dequeue() == 7);
}

TEST_CASE("a change between the look and the wait is not missed") {
  auto queue = make_queue(1);
  Caller caller{*queue, {}};
  int64_t value = 0;
  void* to[] = {&value};
  const auto looked = queue->dequeue(to);
  caller.enqueue(1);  // before any consumer waits
  bool called = false;
  queue->events().when(looked.await, [&](const Status& status) { called = status.ok(); });
  CHECK(called);
}

TEST_CASE("a closed queue gives what it holds, then fails") {
  auto queue = make_queue(4);
  Caller caller{*queue, {}};
  caller.enqueue(1);
  caller.enqueue(2);
  queue->close(false);
  queue->close(false);
  CHECK(queue->closed());
  const auto refused = caller.enqueue(3);
  CHECK(refused.progress == Progress::failed);
  CHECK(refused.status.code() == Code::cancelled);
  CHECK(refused.status.message() == "queue 'q' is closed");
  CHECK(caller.dequeue() == 1);
  CHECK(caller.dequeue() == 2);
  int64_t value = 0;
  void* to[] = {&value};
  const auto empty = queue->dequeue(to);
  CHECK(empty.progress == Progress::failed);
  CHECK(empty.status.code() == Code::cancelled);
  CHECK(empty.status.message() == "queue 'q' is closed and empty");
}

TEST_CASE("closing wakes a blocked dequeue") {
  auto queue = make_queue(1);
  Caller caller{*queue, {}};
  void* to[] = {nullptr};
  const auto attempt = queue->dequeue(to);
  queue->close(false);
  CHECK(released(*queue, attempt));
  CHECK(caller.dequeue() == -2);
}

TEST_CASE("closing spares the enqueues that were blocked, and dequeues wait for them") {
  auto queue = make_queue(1);
  Caller producer{*queue, {}}, late{*queue, {}}, consumer{*queue, {}};
  producer.enqueue(1);
  CHECK(producer.enqueue(2).progress == Progress::blocked);
  queue->close(false);
  CHECK(late.enqueue(9).progress == Progress::failed);
  CHECK(producer.enqueue(2).progress == Progress::blocked);
  CHECK(consumer.dequeue() == 1);
  CHECK(consumer.dequeue() == -1);  // 2 has not come yet
  CHECK(producer.enqueue(2).progress == Progress::done);
  CHECK(consumer.dequeue() == 2);
  CHECK(consumer.dequeue() == -2);
  CHECK(producer.enqueue(3).progress == Progress::failed);
}

TEST_CASE("closing with cancel_pending fails the enqueues that were blocked") {
  auto queue = make_queue(1);
  Caller producer{*queue, {}}, consumer{*queue, {}};
  producer.enqueue(1);
  const auto attempt = producer.enqueue(2);
  queue->close(true);
  CHECK(released(*queue, attempt));
  CHECK(producer.enqueue(2).progress == Progress::failed);
  CHECK(consumer.dequeue() == 1);
  CHECK(consumer.dequeue() == -2);
}

TEST_CASE("a blocked enqueue that is given up releases the dequeue that waits for it") {
  auto queue = make_queue(1);
  Caller consumer{*queue, {}};
  QueueResource::Attempt waiting;
  {
    Caller producer{*queue, {}};
    producer.enqueue(1);
    producer.enqueue(2);
    queue->close(false);
    CHECK(consumer.dequeue() == 1);
    void* to[] = {nullptr};
    waiting = queue->dequeue(to);
    CHECK(waiting.progress == Progress::blocked);
  }
  CHECK(released(*queue, waiting));
  CHECK(consumer.dequeue() == -2);
}

TEST_CASE("a claim may outlive its queue") {
  auto queue = make_queue(1);
  QueueResource::Pending pending;
  int64_t value = 1;
  const void* from[] = {&value};
  queue->enqueue(from, pending);
  queue->enqueue(from, pending);
  CHECK(pending.held());
  queue.reset();
  pending.reset();
  CHECK_FALSE(pending.held());
}

TEST_CASE("a queue that would exceed the memory is refused") {
  const auto component = parse_components({"float[256]"});
  const auto create = [&](int64_t capacity) {
    return QueueResource::create("q", *component, capacity, 1 << 20).status().code();
  };
  CHECK(create(1024) == Code::ok);
  CHECK(create(1025) == Code::resource_exhausted);
  CHECK(create(INT64_MAX) == Code::resource_exhausted);
  const auto huge = parse_components({"double[1000000000000]", "double[1000000000000]"});
  CHECK(QueueResource::create("q", *huge, 1, 1 << 20).status().code() == Code::resource_exhausted);
  // Each size is refused by itself, before sizes are added up.
  const auto second = parse_components({"float[2]", "double[1000000000000]"});
  CHECK(QueueResource::create("q", *second, 1, 1 << 20).status().message() ==
        "queue 'q': expected at most 1.0 MiB, 1 elements of double[1000000000000] are more");
}

// ---------------------------------------------------------------------------------------------
// Tests through the ops.

// Runs a step of one kernel as an executor does: again when the queue says so.
class Runner final : public StepContext {
 public:
  Runner(const std::string& op, QueueResource& queue, const Texts& components)
      : attrs_({{"components", components}}) {
    setup_.types.attrs = &attrs_;
    setup_.subject = op;
    const auto parsed = parse_components(components);
    setup_.types.inputs = {{DType::invalid, {}, Layout::plain, ValueKind::resource, true}};
    inputs_ = {static_cast<Resource*>(&queue)};
    for (const QueueComponent& c : *parsed) {
      const OperandType type{c.dtype, c.shape, Layout::plain, ValueKind::tensor, true};
      tensors.emplace_back(c.dtype, c.shape);
      (op == "leat.Enqueue" ? setup_.types.inputs : setup_.types.outputs).push_back(type);
      (op == "leat.Enqueue" ? inputs_ : outputs_).push_back(tensors.back().raw());
    }
    auto made = testing::test_catalogue().find(op)->kernels.at("cpu")(setup_);
    REQUIRE(made.ok());
    kernel_ = std::move(*made);
    context_.inputs = inputs_.data();
    context_.outputs = outputs_.data();
    context_.step = this;
  }
  void fail(uint32_t, Status status) override { failure = status; }

  Progress try_once() { return kernel_->run(context_, 0, 0); }
  // False if it failed. Waits for a limited time.
  bool run() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      const Progress progress = try_once();
      if (progress != Progress::blocked) return progress == Progress::done;
      failure = context_.await->wait(context_.await_value, deadline);
      if (!failure.ok()) return false;
    }
  }
  Status failure;
  std::vector<Tensor> tensors;

 private:
  Attrs attrs_;
  KernelSetup setup_;
  std::vector<void*> inputs_, outputs_;
  std::unique_ptr<Kernel> kernel_;
  KernelContext context_;
};

TEST_CASE(
    "many producers and consumers lose nothing, double nothing and keep each producer's order") {
  constexpr int kProducers = 3, kConsumers = 3, kEach = 400;
  const Texts components = {"int64[]", "int64[100]"};
  auto queue = make_queue(4, components);
  std::vector<std::vector<int64_t>> received(kConsumers);
  std::atomic<int> torn{0};
  std::vector<std::unique_ptr<Runner>> runners;
  for (int i = 0; i < kProducers + kConsumers; ++i) {
    runners.push_back(std::make_unique<Runner>(i < kProducers ? "leat.Enqueue" : "leat.Dequeue",
                                               *queue, components));
  }
  std::vector<std::thread> producers, consumers;
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      Runner& runner = *runners[static_cast<size_t>(p)];
      for (int64_t i = 0; i < kEach; ++i) {
        runner.tensors[0].data<int64_t>()[0] = p * kEach + i;
        for (int64_t& x : runner.tensors[1].span<int64_t>()) x = p * kEach + i;
        if (!runner.run()) torn += 1;
      }
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    consumers.emplace_back([&, c] {
      Runner& runner = *runners[static_cast<size_t>(kProducers + c)];
      while (runner.run()) {
        const int64_t value = runner.tensors[0].data<int64_t>()[0];
        received[static_cast<size_t>(c)].push_back(value);
        for (int64_t x : runner.tensors[1].span<int64_t>()) torn += x != value;
      }
      if (runner.failure.code() != Code::cancelled) torn += 1;
    });
  }
  for (auto& thread : producers) thread.join();
  queue->close(false);
  for (auto& thread : consumers) thread.join();
  CHECK(torn == 0);
  std::vector<int> seen(kProducers * kEach, 0);
  for (const auto& values : received) {
    std::vector<int64_t> last(kProducers, -1);
    for (int64_t value : values) {
      seen[static_cast<size_t>(value)] += 1;
      auto& previous = last[static_cast<size_t>(value / kEach)];
      CHECK(previous < value);
      previous = value;
    }
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
}

TEST_CASE("a step that is given up while blocked leaves no claim behind") {
  auto queue = make_queue(1);
  Runner enqueue("leat.Enqueue", *queue, {"int64[]"});
  CHECK(enqueue.try_once() == Progress::done);
  CHECK(enqueue.try_once() == Progress::blocked);  // step 0 ends here
  queue->close(false);
  enqueue.step = 1;
  CHECK(enqueue.try_once() == Progress::failed);
  CHECK(enqueue.failure.code() == Code::cancelled);
  CHECK(enqueue.failure.message() == "queue 'q' is closed; while running leat.Enqueue");
}

TEST_CASE("an operation whose types are not the queue's fails") {
  auto queue = make_queue(1, {"int64[]", "float[2]"});
  for (const auto* op : {"leat.Enqueue", "leat.Dequeue"}) {
    for (const Texts& components :
         {Texts{"int64[]"}, Texts{"int64[]", "float[3]"}, Texts{"int32[]", "float[2]"},
          Texts{"int64[]", "float[2]", "float[2]"}}) {
      Runner runner(op, *queue, components);
      CHECK(runner.try_once() == Progress::failed);
      CHECK(runner.failure.code() == Code::invalid_argument);
      CHECK(runner.failure.message().find("expected (int64[], float[2]) as queue 'q' holds") !=
            std::string::npos);
    }
  }
  CHECK(queue->size() == 0);
}

// A graph over a queue of (float[2], int64[]).
struct QueueGraph {
  TestJob job;
  Texts components = {"float[2]", "int64[]"};
  ValueId q =
      job.add("leat.Queue", {},
              {{"name", std::string("q")}, {"capacity", int64_t{2}}, {"components", components}});
  ValueId x = job.input("x", DType::f32, {2}), id = job.input("id", DType::i64, {});
  NodeId enqueue = job.add_node("leat.Enqueue", {q, x, id}, {}, 1);
  NodeId dequeue = job.add_node("leat.Dequeue", {q}, {{"components", components}}, 2);
  NodeId close = job.add_node("leat.Close", {q}, {}, 1);
  ValueId size = job.add("leat.QueueSize", {q});
};

TEST_CASE("a graph enqueues in one step and dequeues in another") {
  QueueGraph g;
  for (int64_t i = 0; i < 2; ++i) {
    g.job.run({{g.x, Tensor::of<float>({2}, {1, 2})}, {g.id, Tensor::scalar(i)}}, {}, {g.enqueue});
  }
  CHECK(g.job.run({}, {g.size})[0].int_at(0) == 2);
  const auto outputs = g.job.graph.node(g.dequeue).outputs;
  const auto first = g.job.run({}, {outputs[0], outputs[1]});
  testing::check_identical(first[0], Tensor::of<float>({2}, {1, 2}));
  CHECK(first[1].int_at(0) == 0);
  g.job.run({}, {}, {g.close});
  CHECK(g.job.run({}, {outputs[1]})[0].int_at(0) == 1);
  const auto end = g.job.try_run({}, {outputs[1]});
  CHECK(end.status().code() == Code::cancelled);
}

TEST_CASE("the interpreter does not wait at an empty queue") {
  QueueGraph g;
  const auto result = g.job.try_run({}, {g.job.graph.node(g.dequeue).outputs[0]});
  CHECK(result.status().code() == Code::failed_precondition);
}

TEST_CASE("two queue nodes of one name must agree") {
  QueueGraph g;
  const ValueId other = g.job.add(
      "leat.Queue", {},
      {{"name", std::string("q")}, {"capacity", int64_t{3}}, {"components", g.components}});
  const ValueId size = g.job.add("leat.QueueSize", {other});
  g.job.run({}, {g.size});
  CHECK(g.job.try_run({}, {size}).status().code() == Code::failed_precondition);
}

TEST_CASE("a queue's signature is checked at the gate") {
  const auto message = [](const std::string& op, Attrs attrs, int outputs, bool variable = false) {
    TestJob job;
    std::vector<ValueId> inputs;
    if (op != "leat.Queue") {
      inputs = {variable ? job.variable("w", DType::f32, {2})
                         : job.add("leat.Queue", {},
                                   {{"name", std::string("q")},
                                    {"capacity", int64_t{1}},
                                    {"components", Texts{"int64[]"}}})};
    }
    job.add_node(op, inputs, std::move(attrs), outputs);
    const Status status = validate(job.graph);
    CHECK(status.code() == Code::invalid_argument);
    return status.message();
  };
  const auto queue = [&](const std::string& name, int64_t capacity, const Texts& components) {
    return message("leat.Queue",
                   {{"name", name}, {"capacity", capacity}, {"components", components}}, 1);
  };
  CHECK(queue("", 1, {"int64[]"}).find("name: expected 1 to 1024 bytes") != std::string::npos);
  CHECK(queue("q", 0, {"int64[]"}).find("capacity: expected 1 to 1000000, received 0") !=
        std::string::npos);
  CHECK(queue("q", 1'000'001, {"int64[]"}).find("received 1000001") != std::string::npos);
  CHECK(queue("q", 1, {}).find("components: expected at least one") != std::string::npos);
  CHECK(queue("q", 1, {"int64"}).find("received 'int64'") != std::string::npos);
  CHECK(message("leat.Dequeue", {{"components", Texts{"int64[]"}}}, 2).find("at most 1 outputs") !=
        std::string::npos);
  CHECK(message("leat.Dequeue", {{"components", Texts{"int64[]"}}}, 1, true)
            .find("expected a queue, received a variable") != std::string::npos);
  CHECK(message("leat.Close", {}, 0, true).find("expected a queue, received a variable") !=
        std::string::npos);
  CHECK(message("leat.Enqueue", {}, 0).find("'x' is missing") != std::string::npos);
  TestJob job;
  const ValueId q = job.add(
      "leat.Queue", {},
      {{"name", std::string("q")}, {"capacity", int64_t{1}}, {"components", Texts{"int64[]"}}});
  job.add_node("leat.Read", {q}, {}, 1);
  CHECK(validate(job.graph).message().find("expected a variable, received another resource") !=
        std::string::npos);
}

}  // namespace
}  // namespace leat
