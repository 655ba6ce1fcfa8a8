// Large values move and are used in pieces, which must not change any bit of a result. Also runs
// under ThreadSanitizer.
#include "scheduler/graph/pieces.h"

#include <algorithm>
#include <set>

#include "devices/base/text.h"
#include "scheduler/capnp/plan_file.h"
#include "scheduler/runtime/places.h"
#include "tests/scheduler/example_plans.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int64_t kRows = 1700, kColumns = 2000;  // of f32: 13.6 MB, and no multiple of a piece

// A variable that changes every step by a value of all shards, and a number that depends on it.
CompileRequest request_for(Graph& graph, const std::string& strategy, int workers) {
  GraphBuilder g(graph);
  const ValueId rows = g.op("test.Rows", {}, {{"rows", int64_t{kShards}}});
  const ValueId mine = g.op("ReduceSum", {rows}, {{"keepdims", int64_t{0}}});
  const std::vector<int64_t> shape = {kRows, kColumns};
  const ValueId v = g.op("leat.Variable", {}, {{"name", std::string("v")}, {"shape", shape}});
  Tensor table(DType::f32, Shape{kRows, 1});
  for (int64_t i = 0; i < kRows; ++i) table.data<float>()[i] = 1 / static_cast<float>(i + 3);
  const ValueId read = g.op("leat.Read", {v});
  const ValueId part = g.op("Mul", {g.op("Add", {read, g.constant(table)}), mine});
  const ValueId all = g.op("leat.AllReduce", {part}, {{"op", std::string("mean")}});
  CompileRequest request;
  request.borders.targets = {g.effect("leat.ApplySgd", {v, all, g.scalar(DType::f32, 1e-2)})};
  request.borders.fetches = {g.op("ReduceSum", {all}, {{"keepdims", int64_t{0}}})};
  must(g.status());
  request.devices = cpus(workers);
  request.strategy = strategy;
  request.shards = kShards;
  return request;
}

Plan training_plan(const std::string& strategy, int workers) {
  Graph graph(scheduler_catalogue());
  const CompileRequest request = request_for(graph, strategy, workers);
  return must(compile(graph, request));
}

// Runs some steps and returns the bytes of the variable and of the fetch.
std::vector<Bytes> outcome(PlanRunner& runner, uint64_t steps) {
  must(runner.step_to(steps));
  std::vector<Bytes> out;
  const auto keep = [&](const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    out.emplace_back(begin, begin + bytes);
  };
  const Tensor fetched = runner.fetched(0, steps - 1);
  keep(fetched.raw(), fetched.bytes());
  for (const Variable* variable : runner.resources().variables())
    keep(variable->data(), variable->bytes());
  return out;
}

size_t count_home(const Plan& plan, Home home) {
  size_t count = 0;
  for (const Partition& part : plan.partitions)
    for (const PlanValue& value : part.values) count += value.home == home;
  return count;
}

PlanValue& joined(Plan& plan) {
  for (Partition& part : plan.partitions) {
    for (PlanValue& value : part.values)
      if (value.home == Home::joined && value.alias == kNone) return value;
  }
  FAIL("nothing is joined");
  return plan.partitions[0].values[0];
}

}  // namespace

TEST_CASE("large values are cut by their size alone, and pieces leave nothing out") {
  CHECK(cut_in_pieces({1 << 20}, DType::f32).empty());
  CHECK(cut_in_pieces({}, DType::f32).empty());
  for (const int64_t elements : {int64_t{2} << 20, int64_t{25'000'000}, int64_t{1} << 28}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const auto pieces = cut_in_pieces({elements}, dtype);
      int64_t at = 0;
      for (const ElementPiece& piece : pieces) {
        CHECK(piece.first == at);
        CHECK(piece.first * static_cast<int64_t>(dtype_size(dtype)) % (256 << 10) == 0);
        CHECK(piece.count > 0);
        at += piece.count;
      }
      if (!pieces.empty()) CHECK(at == elements);
    }
  }
  CHECK(cut_in_pieces({25'000'000}, DType::f32).size() > 8);
}

TEST_CASE("a variable trained in pieces has the bits of one worker's, over each transport",
          "[cluster]") {
  // A slow build runs only the case with the most complex traffic.
  constexpr bool kSlow = kSlowness > 1;
  constexpr uint64_t kSteps = kSlow ? 2 : 4;
  const std::vector<int> worker_counts = kSlow ? std::vector{3} : std::vector{2, 3, 4};
  const std::vector<int> thread_counts = kSlow ? std::vector{3} : std::vector{1, 3};
  PlanRunner alone(training_plan("mirrored", 1), 1);
  const std::vector<Bytes> expected = outcome(alone, kSteps);
  for (const std::string strategy : {"mirrored", "parameter_server"}) {
    for (const int workers : worker_counts) {
      const Plan plan = training_plan(strategy, workers);
      CHECK((count_home(plan, Home::joined) > 0) == (strategy == "mirrored"));
      for (const Transport& transport : transports()) {
        for (const int threads : thread_counts) {
          INFO(strategy << " on " << workers << " workers over " << transport.name << ", "
                        << threads << " threads");
          PlanRunner runner(plan, threads, transport);
          const bool same = outcome(runner, kSteps) == expected;
          CHECK(same);
        }
      }
      PlanRunner channels(plan, 2), places(plan, 2, InSharedPlaces());
      const bool same = outcome(channels, kSteps) == expected;
      CHECK(same);
      const bool same_in_places = outcome(places, kSteps) == expected;
      CHECK(same_in_places);
    }
  }
}

TEST_CASE("an update is done piece by piece, each as it arrives") {
  const Plan plan = training_plan("mirrored", 2);
  PlanRunner runner(plan, 1);
  std::vector<const Timeline*> awaited;
  size_t updates = 0;
  for (const Entry& entry : runner.program().entries()) {
    const PlanInstruction& instruction = plan.partitions[0].instructions[entry.instruction];
    if (!instruction.op || instruction.op->full_name() != "leat.ApplySgd") continue;
    ++updates;
    CHECK(entry.awaits.size() <= 1);  // each of the others' pieces has its own entry
    for (const auto& await : entry.awaits) awaited.push_back(await.timeline);
  }
  const size_t pieces = cut_in_pieces({kRows, kColumns}, DType::f32).size();
  CHECK(updates == pieces);
  CHECK(awaited.size() >= pieces / 2);
  CHECK(std::set<const Timeline*>(awaited.begin(), awaited.end()).size() == awaited.size());
}

TEST_CASE("a sum that goes to several partitions is written once, with credit of all") {
  const Plan plan = training_plan("mirrored", 3);
  const size_t pieces = cut_in_pieces({kRows, kColumns}, DType::f32).size();
  size_t values = 0;
  for (uint32_t p = 0; p < 3; ++p) {
    for (const ValueForMany& value : values_for_many(plan, p, {true, true, true})) {
      ++values;
      CHECK(value.edges.size() == 2);
      for (uint32_t e : value.edges) {
        CHECK(plan.edges[e].from == p);
        CHECK(plan.edges[e].bytes == value.bytes);
      }
    }
    std::vector<bool> one(3, false);
    one[(p + 1) % 3] = true;
    CHECK(values_for_many(plan, p, one).empty());
  }
  CHECK(values == pieces);
  PlanRunner runner(plan, 1, InSharedPlaces());
  size_t writers = 0;
  for (uint32_t p = 0; p < 3; ++p) {
    for (const Entry& entry : runner.program(p).entries()) {
      if (entry.kind != Entry::Kind::kernel) continue;
      std::set<const Timeline*> credits;
      for (const Await& await : entry.awaits)
        if (await.lag == kSlotDepth) credits.insert(await.timeline);
      CHECK((credits.empty() || credits.size() == 2));
      writers += !credits.empty();
    }
  }
  CHECK(writers >= pieces);
}

TEST_CASE("a plan with pieces is written and read, and prints them") {
  const Plan plan = training_plan("mirrored", 2);
  REQUIRE(count_home(plan, Home::pages) > 0);
  const EncodedPlan encoded = must(encode_plan(plan));
  const Plan decoded = must(decode_plan(encoded, scheduler_catalogue()));
  CHECK(decoded.text() == plan.text());
  CHECK(plan.text().find(" joined v") != std::string::npos);
  for (uint32_t p = 0; p < 2; ++p)
    must(decode_plan(must(encode_plan_for(plan, p)), scheduler_catalogue()));
}

TEST_CASE("a value that cannot be its pieces is refused") {
  const Plan good = training_plan("mirrored", 2);
  must(verify(good));
  const auto refused = [&](const auto& change, std::string_view message) {
    Plan plan = good;
    change(plan, joined(plan));
    const Status status = verify(plan);
    INFO(status.message());
    CHECK(status.code() == Code::internal);
    CHECK(status.message().find(message) != std::string::npos);
  };
  refused([](Plan&, PlanValue& v) { v.pieces.pop_back(); }, "is not its pieces");
  refused([](Plan&, PlanValue& v) { v.pieces.push_back(v.pieces[0]); }, "as a piece");
  refused([](Plan&, PlanValue& v) { v.pieces[0] = kNone; }, "as a piece");
  refused([](Plan&, PlanValue& v) { v.pieces[0] = 1'000'000; }, "as a piece");
  refused([](Plan&, PlanValue& v) { v.pieces.clear(); }, "not where its kind is");
  refused([](Plan&, PlanValue& v) { std::swap(v.pieces.front(), v.pieces.back()); }, "as a piece");
  refused([](Plan&, PlanValue& v) { v.offset = 64; }, "not where its kind is");
  refused([](Plan& p, PlanValue& v) { p.partitions[0].values[v.pieces[0]].home = Home::arena; },
          "");
  refused(
      [](Plan& p, PlanValue& v) {  // retired before the joined value is read
        auto& part = p.partitions[0];
        const uint32_t piece = v.home == Home::joined ? v.pieces[0] : 0;
        for (size_t i = 0; i < part.instructions.size(); ++i) {
          const PlanInstruction retire = part.instructions[i];
          if (retire.kind != PlanInstruction::Kind::retire || retire.inputs.empty()) continue;
          const auto at = std::find_if(
              part.instructions.begin(), part.instructions.end(), [&](const PlanInstruction& r) {
                return r.kind == PlanInstruction::Kind::receive && r.edge == retire.edge;
              });
          const auto& pieces = v.pieces;
          if (std::find(pieces.begin(), pieces.end(), retire.inputs[0]) == pieces.end()) continue;
          part.instructions.erase(part.instructions.begin() + static_cast<std::ptrdiff_t>(i));
          part.instructions.insert(at + 1, retire);
          return;
        }
        FAIL("no piece is received: " << piece);
      },
      "when it is not there");
}

TEST_CASE("a range is a view that ends inside its value") {
  const Plan good = training_plan("mirrored", 2);
  const auto refused = [&](const auto& change, std::string_view message) {
    Plan plan = good;
    for (PlanValue& value : plan.partitions[0].values) {
      if (value.alias == kNone || value.offset == 0) continue;
      change(value);
      const Status status = verify(plan);
      INFO(status.message());
      CHECK(status.message().find(message) != std::string::npos);
      return;
    }
    FAIL("there is no range");
  };
  const char* const kElsewhere = "has other bytes than";
  refused([](PlanValue& v) { v.offset += 4; }, kElsewhere);
  refused([](PlanValue& v) { v.offset += uint64_t{1} << 40; }, kElsewhere);
  refused([](PlanValue& v) { v.offset = ~uint64_t{63}; }, kElsewhere);
  refused([](PlanValue& v) { v.type.shape = Shape{kRows * kColumns}; }, "shapes do not broadcast");
}

}  // namespace leat
