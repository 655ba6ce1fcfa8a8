#include "scheduler/runtime/joins.h"

#include "devices/base/text.h"
#include "ops/graph/joinable_kernel.h"
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

}  // namespace

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
