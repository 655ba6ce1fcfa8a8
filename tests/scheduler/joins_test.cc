#include "scheduler/runtime/joins.h"

#include <deque>
#include <set>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/definitions/variable.h"
#include "ops/graph/joinable_kernel.h"
#include "scheduler/runtime/profile.h"
#include "scheduler/runtime/workspaces.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

using Groups = std::vector<std::vector<uint32_t>>;

class JoinableWrite final : public Kernel, public JoinableKernel {
 public:
  JoinableWrite(std::string key, size_t workspace) : key_(std::move(key)), workspace_(workspace) {}
  size_t workspace_bytes() const override { return workspace_; }
  Progress run(KernelContext&, int, int) override { return Progress::done; }
  const std::string& join_key() const override { return key_; }
  Result<Joined> join(std::span<const Member>) const override { return Joined(); }

 private:
  const std::string key_;
  const size_t workspace_;
};

// A partition with instructions that each write one of these variables from one other value.
class Written {
 public:
  explicit Written(const std::vector<std::string>& variables) {
    write_.writes = {0};
    for (const std::string& name : variables) {
      value(Home::resource, static_cast<uint32_t>(partition.resources.size()));
      partition.resources.push_back({nullptr, {}, name, 4});
    }
    gradient = value(Home::arena, 0);
  }
  uint32_t value(Home home, uint32_t index) {
    PlanValue made;
    made.type.dtype = DType::f32;
    made.home = home;
    made.index = index;
    partition.values.push_back(made);
    return static_cast<uint32_t>(partition.values.size() - 1);
  }
  PlanInstruction& write(uint32_t variable, uint32_t from, const std::string& key = "a",
                         size_t workspace = 0) {
    PlanInstruction& made = partition.instructions.emplace_back();
    made.op = &write_;
    made.inputs = {variable, from};
    kernels.push_back(std::make_unique<JoinableWrite>(key, workspace));
    return made;
  }
  Groups groups() const { return find_joins(partition, kernels); }

  Partition partition;
  std::vector<std::unique_ptr<Kernel>> kernels;
  uint32_t gradient = 0;

 private:
  OpDef write_;
};

// A float of a variable, plus one.
class AddOne final : public Kernel, public JoinableKernel {
 public:
  Progress run(KernelContext& context, int, int) override {
    *static_cast<float*>(context.inputs[0]) += *context.in<float>(1);
    return Progress::done;
  }
  const std::string& join_key() const override { return key_; }
  Result<Joined> join(std::span<const Member> members) const override;

 private:
  const std::string key_ = "add";
};

// Its workspaces are the contexts of its members.
class AddOneToEach final : public Kernel {
 public:
  using Contexts = std::vector<KernelContext>;
  Progress run(KernelContext& context, int phase, int tile) override {
    for (KernelContext& of : *reinterpret_cast<Contexts*>(context.workspace))
      AddOne().run(of, phase, tile);
    return Progress::done;
  }
  std::deque<Contexts> contexts;  // by parity
};

Result<JoinableKernel::Joined> AddOne::join(std::span<const Member> members) const {
  Joined joined;
  auto kernel = std::make_unique<AddOneToEach>();
  for (size_t parity = 0; parity < members[0].contexts.size(); ++parity) {
    AddOneToEach::Contexts& contexts = kernel->contexts.emplace_back();
    for (const Member& member : members) contexts.push_back(member.contexts[parity]);
    joined.workspaces.push_back(reinterpret_cast<std::byte*>(&contexts));
  }
  joined.kernel = std::move(kernel);
  return joined;
}

constexpr std::array kCounters = {"a", "b", "c"};

// Each step adds one to each of the variables, and fetches the sum of what they were. Its last node
// fails at step 5.
Plan counting_together() {
  static const Catalogue catalogue = [] {
    Catalogue all = standard_catalogue();
    all.add(Op("test.AddOne")
                .input("var", "resource")
                .input("one", "T")
                .optional_output("done", "token")
                .type("T", kFloats)
                .writes(0)
                .infer(infer_done)
                .kernel("cpu", [](const KernelSetup&) -> Result<std::unique_ptr<Kernel>> {
                  return std::unique_ptr<Kernel>(std::make_unique<AddOne>());
                }));
    all.add(Op("test.FailAtFive")
                .stateful()
                .infer([](InferContext&) { return Status(); })
                .kernel("cpu", [](const KernelSetup&) -> Result<std::unique_ptr<Kernel>> {
                  return make_kernel([](KernelContext& context) {
                    if (context.step->step != 5) return Progress::done;
                    context.step->fail(context.instruction, internal_error("step 5"));
                    return Progress::failed;
                  });
                }));
    return all;
  }();
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId one = g.scalar(DType::f32, 1);
  std::vector<NodeId> targets;
  ValueId sum = one;
  for (const char* name : kCounters) {
    const ValueId variable =
        g.op("leat.Variable", {}, {{"name", std::string(name)}, {"shape", std::vector<int64_t>()}});
    sum = g.op("Add", {sum, g.op("Exp", {g.op("leat.Read", {variable})})});
    targets.push_back(g.effect("test.AddOne", {variable, one}));
  }
  targets.push_back(g.effect("test.FailAtFive", {}));
  must(g.status());
  CompileRequest request;
  request.borders = {{}, {sum}, targets};
  request.devices = cpus(1);
  request.recoverable = true;
  return must(compile(graph, request));
}

}  // namespace

TEST_CASE("instructions that are joined are one entry, waiting for what each of them touches") {
  PlanRunner runner(counting_together(), 2);
  const Program& program = runner.program();
  REQUIRE(program.commit() != kNone);
  REQUIRE(program.commit_end() == program.commit() + 2);
  const uint32_t joined = program.commit() + 1;
  // The entries of the step that it follows, by way of others, too.
  std::set<uint32_t> followed = {joined};
  for (uint32_t e = joined + 1; e-- > 0;) {
    if (followed.contains(e))
      followed.insert(program.entries()[e].after.begin(), program.entries()[e].after.end());
  }
  size_t readers = 0;
  for (uint32_t e = 0; e < joined; ++e) {
    const PlanInstruction& of = program.partition().instructions[program.entries()[e].instruction];
    if (!of.op || of.op->name != "Exp") continue;
    ++readers;
    CHECK(followed.contains(e));
  }
  CHECK(readers == kCounters.size());
  CHECK(program.kernels().work_of(program.entries()[joined].instruction).size() == 3);
}

TEST_CASE("a step writes all that is joined, or nothing of it") {
  for (const int threads : {1, 2}) {
    PlanRunner runner(counting_together(), threads);
    CHECK_FALSE(runner.step_to(9).ok());
    for (const char* name : kCounters) {
      const float counted =
          *static_cast<const float*>(runner.resources().find_variable(name)->data());
      CHECK(counted == 5);
    }
  }
}

TEST_CASE("a profile has one line for instructions that are joined, with the bytes of all") {
  PlanRunner runner(counting_together(), 1, RunOptions{.profile = true});
  must(runner.step_to(5));
  const std::string text = profile_text(runner.program());
  INFO(text);
  CHECK(text.find("             3  test.AddOne\n") != std::string::npos);
  size_t timed = 0;
  for (uint32_t i = 0; i < runner.program().partition().instructions.size(); ++i) {
    const PlanInstruction& of = runner.program().partition().instructions[i];
    if (of.op && of.op->name == "AddOne" && runner.program().kernels().timed(i)) ++timed;
  }
  CHECK(timed == 1);
}

TEST_CASE("writes that stand side by side are joined by their keys") {
  Written of({"u", "v", "w", "x", "y"});
  of.write(0, of.gradient, "a");
  of.write(1, of.gradient, "b");
  of.write(2, of.gradient, "a");
  of.write(3, of.gradient, "b");
  of.write(4, of.gradient, "c");
  CHECK(of.groups() == Groups{{0, 2}, {1, 3}});
}

TEST_CASE("a transfer, or a kernel that cannot be joined, ends a stretch") {
  Written of({"u", "v", "w", "x", "y"});
  of.write(0, of.gradient);
  of.write(1, of.gradient);
  SECTION("a transfer") {
    of.partition.instructions.emplace_back().kind = PlanInstruction::Kind::retire;
    of.kernels.push_back(nullptr);
  }
  SECTION("without a key") { of.write(2, of.gradient, ""); }
  SECTION("with a workspace that others may use") {
    of.write(2, of.gradient, "a", kLargeWorkspace);
  }
  SECTION("of a chain") { of.write(2, of.gradient).chain = 0; }
  SECTION("with a value as its result") {
    PlanInstruction& made = of.write(2, of.gradient);
    made.outputs = {of.value(Home::arena, 0)};
  }
  SECTION("to no variable") { of.write(of.gradient, 2); }
  of.write(3, of.gradient);
  of.write(4, of.gradient);
  CHECK(of.groups() == Groups{{0, 1}, {3, 4}});
}

TEST_CASE("no two writes are joined if one touches what the other one writes") {
  Written of({"u", "v", "w", "x", "u"});
  of.write(0, of.gradient);
  of.write(1, of.gradient);
  SECTION("both write one variable") { of.write(1, of.gradient); }
  SECTION("one reads the variable") { of.write(2, 0); }
  SECTION("one reads a view of the variable") {
    const uint32_t view = of.value(Home::resource, 0);
    of.partition.values[view].alias = 0;
    of.write(2, view);
  }
  SECTION("one writes what another one has read, by way of another resource of its name") {
    of.write(4, of.gradient);
  }
  of.write(3, of.gradient);
  CHECK(of.groups() == Groups{{0, 1}, {2, 3}});
}

TEST_CASE("a variable that no write of a stretch changes may be read by all") {
  Written of({"u", "v", "rate"});
  of.write(0, 2);
  of.write(1, 2);
  CHECK(of.groups() == Groups{{0, 1}});
}

}  // namespace leat
