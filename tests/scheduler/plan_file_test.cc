// Tests plans as bytes: a plan that is read back is equal and runs the same, and no bytes are
// unsafe.
#include "scheduler/capnp/plan_file.h"

#include <cmath>
#include <functional>
#include <random>

#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/capnp/wire_attr.h"
#include "plan.capnp.h"
#include "tests/scheduler/example_plans.h"
#include "tests/scheduler/hostile_plans.h"
#include "tests/scheduler/plan_mutations.h"
#include "tests/slowness.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

const Catalogue& ops() { return scheduler_catalogue(); }

// Compares outside of CHECK, which would print the bytes.
bool same_bytes(const EncodedPlan& a, const EncodedPlan& b) { return a.message == b.message; }

void check_round_trip(const Plan& plan) {
  const EncodedPlan encoded = must(encode_plan(plan));
  const Plan decoded = must(decode_plan(encoded, ops()));
  CHECK(decoded.text() == plan.text());
  CHECK(decoded.summary() == plan.summary());
  CHECK(same_bytes(must(encode_plan(decoded)), encoded));
  CHECK(must(plan_hash(decoded)) == must(plan_hash(plan)));
}

// Returns the lines of one partition of a plan's text.
std::string partition_text(const Plan& plan, uint32_t partition) {
  const std::string text = plan.text();
  const size_t begin = text.find(cat("partition ", partition, " "));
  return text.substr(begin, text.find("\npartition ", begin) - begin);
}

// y = x + a large constant. Its output is fed onward by hand.
Plan plan_with_constant(int64_t elements) {
  Graph graph(ops());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{elements});
  Tensor large(DType::f32, Shape{elements});
  for (int64_t i = 0; i < elements; ++i) large.data<float>()[i] = static_cast<float>(i);
  const ValueId y = g.op("Add", {x, g.constant(large)});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {}};
  request.devices = cpus(1);
  return must(compile(graph, request));
}

// Returns the attributes of those instructions of partition 0 that run `op`.
std::vector<Attrs> attributes_of(const Plan& plan, std::string_view op) {
  std::vector<Attrs> found;
  for (const PlanInstruction& i : plan.partitions[0].instructions) {
    if (i.op && i.op->full_name() == op) found.push_back(i.attrs);
  }
  return found;
}

// Whether the kernels of all partitions can be made. Their data file does not exist.
bool registers(const Plan& plan) {
  for (uint32_t p = 0; p < plan.partitions.size(); ++p) {
    cpu::CpuDevice device(0, 1);
    JobResources resources(device);
    SlotTable slots(plan.edges.size());
    Exchange exchange;
    exchange.slots = &slots;
    exchange.channels.resize(plan.partitions.size());
    if (!Program::create(plan, p, device, resources, exchange).ok()) return false;
  }
  return true;
}

// Runs two steps, which may fail, but must end.
bool try_to_run(const Plan& plan) {
  if (!registers(plan)) return false;
  PlanRunner runner(plan, 1);
  const Status status = runner.step_to(2);
  CHECK(status.code() != Code::deadline_exceeded);
  return true;
}

}  // namespace

TEST_CASE("a plan packed into one blob comes back, and no blob that is cut does") {
  EncodedPlan encoded = must(encode_plan_for(small_plan(2, 2), 1));
  for (const size_t size : {size_t{1}, kChunkBytes}) {
    const Bytes bytes(size, std::byte{7});
    encoded.chunks.push_back({sha256(bytes), bytes});
  }
  const Bytes blob = pack_plan(encoded);
  const EncodedPlan back = must(unpack_plan(blob));
  CHECK(same_bytes(back, encoded));
  REQUIRE(back.chunks.size() == encoded.chunks.size());
  for (size_t i = 0; i < back.chunks.size(); ++i) {
    CHECK(back.chunks[i].digest == encoded.chunks[i].digest);
    CHECK((back.chunks[i].bytes == encoded.chunks[i].bytes));
  }
  const std::span<const std::byte> all(blob);
  const size_t first = 8 + encoded.message.size(), second = first + 8 + 1;
  for (size_t size :
       {size_t{0}, size_t{7}, first - 1, first + 1, first + 8, second + 7, blob.size() - 1}) {
    INFO(size);
    CHECK(unpack_plan(all.first(size)).status().code() == Code::invalid_argument);
  }
  Bytes large = blob;
  std::fill_n(large.begin(), 8, std::byte{0xff});
  CHECK(unpack_plan(large).status().code() == Code::invalid_argument);
  Bytes chunk = pack_plan({encoded.message, {{{}, Bytes(kChunkBytes + 1)}}});
  CHECK(unpack_plan(chunk).status().code() == Code::invalid_argument);
}

TEST_CASE("the golden plans come back equal from their bytes") {
  check_round_trip(small_plan(1, 1));
  check_round_trip(small_plan(2, 2));
}

TEST_CASE("the plans of the shipped models come back equal on 1 to 4 workers") {
  for (const char* model : {"fashion_mlp", "fashion_cnn"}) {
    for (int workers = 1; workers <= 4; ++workers) {
      for (const JobStep step : {JobStep::train, JobStep::init, JobStep::eval}) {
        INFO(model << " on " << workers);
        check_round_trip(shipped_plan(model, step, workers));
      }
    }
  }
}

TEST_CASE("a runner gets its own partition, and of the others the devices") {
  const Plan plan = shipped_plan("fashion_cnn", JobStep::train, 4);
  const EncodedPlan whole = must(encode_plan(plan));
  for (uint32_t p = 0; p < 4; ++p) {
    const EncodedPlan encoded = must(encode_plan_for(plan, p));
    CHECK(encoded.message.size() < whole.message.size() / 2);
    const Plan part = must(decode_plan(encoded, ops()));
    REQUIRE(part.partitions.size() == 4);
    REQUIRE(part.edges.size() == plan.edges.size());
    CHECK(partition_text(part, p) == partition_text(plan, p));
    for (uint32_t q = 0; q < 4; ++q) {
      CHECK(part.partitions[q].device == plan.partitions[q].device);
      CHECK(part.partitions[q].elsewhere == (q != p));
    }
    for (size_t e = 0; e < plan.edges.size(); ++e) {
      const bool ours = plan.edges[e].from == p || plan.edges[e].to == p;
      CHECK(part.edges[e].bytes == plan.edges[e].bytes);
      CHECK(part.edges[e].name == (ours ? plan.edges[e].name : ""));
    }
    CHECK(same_bytes(must(encode_plan(part)), encoded));
    CHECK(same_bytes(must(encode_plan_for(part, p)), encoded));
    CHECK_FALSE(encode_plan_for(part, (p + 1) % 4).ok());
  }
  CHECK_FALSE(encode_plan_for(plan, 4).ok());
}

TEST_CASE("instructions that are alike share their attributes when a plan is read") {
  const Plan read = must(decode_plan(must(encode_plan(small_plan(4, 1))), ops()));
  const auto readers = attributes_of(read, "leat.ReadBatch");
  REQUIRE(readers.size() == 4);  // one for each shard
  for (const Attrs& attrs : readers) CHECK(attrs.shares(readers[0]));
  CHECK_FALSE(attributes_of(read, "Conv").at(0).shares(readers[0]));
}

TEST_CASE("attributes are shared when a plan is read if their bits are the same") {
  Graph graph(ops());
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{4});
  CompileRequest request;
  request.borders.feeds = {x};
  for (const double alpha : {0.1, 0.2, 0.3})
    request.borders.fetches.push_back(g.op("LeakyRelu", {x}, {{"alpha", alpha}}));
  must(g.status());
  request.devices = cpus(1);
  Plan plan = must(compile(graph, request));
  const double zeros[] = {0.0, -0.0, 0.0};
  size_t next = 0;
  for (PlanInstruction& i : plan.partitions[0].instructions) {
    if (i.op) i.attrs["alpha"] = zeros[next++];
  }
  REQUIRE(next == 3);
  const Plan read = must(decode_plan(must(encode_plan(plan)), ops()));
  const auto attributes = attributes_of(read, "LeakyRelu");
  CHECK(attributes.at(0).shares(attributes.at(2)));
  CHECK_FALSE(attributes.at(0).shares(attributes.at(1)));
  CHECK(std::signbit(attr_float(attributes.at(1), "alpha")));
}

TEST_CASE("a decoded plan computes the same, whole or in parts", "[cluster]") {
  const TemporaryDirectory directory;
  const Plan plan = small_plan(2, 2, write_data(directory));
  PlanRunner original(plan, 2);
  const auto expected = results(original, 4);
  REQUIRE(expected.size() > 10);
  PlanRunner whole(must(decode_plan(must(encode_plan(plan)), ops())), 2);
  CHECK((results(whole, 4) == expected));
  std::vector<Plan> parts;
  for (uint32_t p = 0; p < 2; ++p)
    parts.push_back(must(decode_plan(must(encode_plan_for(plan, p)), ops())));
  PlanRunner apart(std::move(parts), 1);
  CHECK((results(apart, 4) == expected));
}

TEST_CASE("large constants of a plan stand outside in chunks") {
  const Plan plan = plan_with_constant(3 * 100'000);
  EncodedPlan encoded = must(encode_plan(plan));
  CHECK(encoded.chunks.size() == 2);
  CHECK(encoded.message.size() < 2048);
  const Plan decoded = must(decode_plan(encoded, ops()));
  CHECK(decoded.partitions[0].constants[0].identical(plan.partitions[0].constants[0]));
  encoded.chunks[1].bytes[5] ^= std::byte{1};
  CHECK(decode_plan(encoded, ops()).status().message().find("another digest") != std::string::npos);
  encoded.chunks.pop_back();
  CHECK(decode_plan(encoded, ops()).status().message().find("is missing") != std::string::npos);
}

TEST_CASE("the bytes of a plan stay the same from version to version") {
  const Plan plan = plan_with_constant(4);
  CHECK(must(plan_hash(plan)) ==
        "3a0927f7f947c361e694bd9c3b606a3978bf598e5f4b15ae56e448afda2af8d7");
  Plan other = plan;
  other.partitions[0].instructions[0].source = 7;  // not in the text, but it keys random numbers
  CHECK(other.text() == plan.text());
  CHECK(must(plan_hash(other)) != must(plan_hash(plan)));
}

TEST_CASE("a partition that may use TF32 is another one, and comes back so") {
  const Plan plan = plan_with_constant(4);
  Plan other = plan;
  other.partitions[0].tf32 = true;
  CHECK(other.text() != plan.text());
  CHECK(must(plan_hash(other)) != must(plan_hash(plan)));
  check_round_trip(other);
  CHECK(must(decode_plan(must(encode_plan(other)), ops())).partitions[0].tf32);
}

TEST_CASE("content that a plan cannot hold is refused when it is written") {
  Plan plan = plan_with_constant(4);
  plan.partitions[0].instructions[0].attrs["body"] = std::make_shared<Graph>(ops());
  CHECK(encode_plan(plan).status().message().find("which plans cannot hold") != std::string::npos);
  plan = plan_with_constant(4);
  plan.partitions[0].values[0].name = std::string(2000, 'x');
  CHECK(encode_plan(plan).status().message().find("at most 1024 bytes of a name") !=
        std::string::npos);
  plan = plan_with_constant(4);
  plan.partitions[0].instructions[0].op = nullptr;
  CHECK(encode_plan(plan).status().message().find("expected an op of a kernel, and of no other") !=
        std::string::npos);
  plan = small_plan(1, 1);
  plan.partitions[0].resources[0].op = nullptr;
  CHECK(encode_plan(plan).status().message().find("resource 'c1/kernel' has no op") !=
        std::string::npos);
}

TEST_CASE("a plan whose message is altered is refused with the reason") {
  const EncodedPlan good = must(encode_plan(plan_with_constant(4)));
  using Change = std::function<void(wire::Plan::Builder)>;
  const auto refusal = [&](const Change& change) {
    WireMessage words = must(WireMessage::open("good", good.message));
    capnp::MallocMessageBuilder builder;
    builder.setRoot(words.root<wire::Plan>());
    change(builder.getRoot<wire::Plan>());
    const Bytes bytes = must(canonical_bytes("altered", builder.getRoot<wire::Plan>().asReader()));
    return decode_plan({bytes, {}}, ops()).status().message();
  };
  const auto values = [](wire::Plan::Builder plan) {
    return plan.getPartitions()[0].getBody().getValues();
  };
  // Returns the value with this home; 1 is the arena, 3 a constant.
  const auto of_home = [&](wire::Plan::Builder plan, uint8_t home) {
    for (auto value : values(plan)) {
      if (value.getHome() == home) return value;
    }
    FAIL("no such value");
    return wire::PlanValue::Builder(nullptr);
  };
  CHECK(refusal([](auto) {}).empty());
  CHECK(refusal([](auto plan) { plan.setVersion(2); }) ==
        "decoding a plan: expected version 1, received 2");
  const std::string sizes =
      cat("expected sizes of at least 0 and at most ", limits::kElements, " elements");
  CHECK(refusal([](auto plan) { plan.getFeeds()[0].setDims({-1}); }) ==
        "decoding a plan: " + sizes);
  CHECK(refusal([](auto plan) { plan.getFetches()[0].setDims({limits::kElements + 1}); }) ==
        "decoding a plan: " + sizes);
  const auto misplaced = [&](const Change& change) {
    const std::string message = refusal(change);
    return message.find("has a place that its home does not have") != std::string::npos;
  };
  CHECK(misplaced([&](auto plan) { of_home(plan, 1).setIndex(1); }));
  CHECK(misplaced([&](auto plan) { of_home(plan, 3).setOffset(64); }));
  CHECK(misplaced([&](auto plan) { of_home(plan, 1).initPieces(1); }));
}

TEST_CASE("an op that this build lacks is named when a plan is read") {
  const Catalogue none;
  CHECK(decode_plan(must(encode_plan(plan_with_constant(4))), none)
            .status()
            .message()
            .find("expected a known op, received 'Add'") != std::string::npos);
}

TEST_CASE("no hostile plan gets through its bytes") {
  const Plan good = small_plan(2, 2);
  size_t written = 0;
  for (const HostilePlan& hostile : hostile_plans()) {
    INFO(hostile.what);
    Plan plan = good;
    hostile.change(plan);
    const auto encoded = encode_plan(plan);
    if (!encoded.ok()) continue;  // the format cannot express it
    ++written;
    const auto decoded = decode_plan(*encoded, ops());
    REQUIRE_FALSE(decoded.ok());
    CHECK(decoded.status().code() == Code::invalid_argument);
  }
  CHECK(written > 60);
}

TEST_CASE("no cut message of a plan is read") {
  const EncodedPlan encoded = must(encode_plan(small_plan(2, 2)));
  for (size_t n = 0; n < encoded.message.size(); n += n < 4096 ? 1 : 8) {
    EncodedPlan cut = encoded;
    cut.message.resize(n);
    CHECK_FALSE(decode_plan(cut, ops()).ok());
  }
}

// A plan with a changed byte must be refused, or run without harm.
TEST_CASE("a flipped byte makes a plan that is refused, or one that is safe to run") {
  const TemporaryDirectory directory;
  const EncodedPlan good = must(encode_plan(small_plan(2, 2, write_data(directory))));
  std::mt19937 random(17);
  size_t refused = 0, accepted = 0, run = 0;
  constexpr size_t kFlips = kSlowness > 1 ? 1000 : 2000;
  for (size_t i = 0; i < kFlips; ++i) {
    EncodedPlan flipped = good;
    const size_t at = random() % flipped.message.size();
    flipped.message[at] ^= std::byte{static_cast<uint8_t>(1 << random() % 8)};
    const auto plan = decode_plan(flipped, ops());
    if (!plan.ok()) {
      ++refused;
      continue;
    }
    ++accepted;
    const EncodedPlan again = must(encode_plan(*plan));
    CHECK(must(decode_plan(again, ops())).text() == plan->text());
    uint64_t bytes = 0;
    for (const Partition& part : plan->partitions) bytes += part.memory_bytes();
    if (bytes > 64 << 20 || accepted % 32 != 0) continue;
    run += try_to_run(*plan);
  }
  CHECK(refused > kFlips / 7);
  CHECK(accepted > kFlips / 7);
  CHECK(run > 5);
}

// With the sanitizers, this shows that the verifier keeps its promises.
TEST_CASE("a plan that is changed at random is refused, or is safe to run") {
  const TemporaryDirectory directory;
  const Plan good = small_plan(2, 2, write_data(directory));
  std::mt19937 random(23);
  size_t refused = 0, run = 0;
  for (int i = 0; i < 4000; ++i) {
    INFO("change " << i);
    Plan plan = good;
    mutate(plan, random);
    if (!verify(plan).ok()) {
      ++refused;
      continue;
    }
    if (i % 16 == 0) run += try_to_run(plan);
  }
  CHECK(refused > 2000);
  CHECK(run > 5);
}

}  // namespace leat
