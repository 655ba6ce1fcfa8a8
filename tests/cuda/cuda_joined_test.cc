// Updates of several variables by one launch, on the GPU under test: they have the bits of single
// launches.
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include "devices/base/text.h"
#include "ops/graph/joinable_kernel.h"
#include "ops/graph/validate.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;
using testing::kMlp;
using testing::kNormedCnn;
using testing::kTransformer;
using testing::PlainWay;

constexpr auto kJoinedDeadline = std::chrono::seconds(60);
constexpr size_t kApart = 256;  // bytes between two operands of one buffer

// The update of a variable: its size, and by how many elements its operands are out of place.
struct Updated {
  int64_t elements;
  int64_t shift = 0;
  double weight_decay = 0;
};
struct UpdateOp {
  const char* name;
  int slots;
  Attrs attrs;
};

// The scalars of a turn, 8 bytes each: rates of two groups, the step, and a guard that forbids the
// update, or not.
struct Scalars {
  std::byte rates[2][8];
  int64_t step;
  float guard;
};

// One kernel with its operands, variable, slots and gradient, in one buffer of the device.
struct OneUpdate {
  std::unique_ptr<Kernel> kernel;
  std::unique_ptr<Buffer> memory, workspace;
  std::array<std::vector<void*>, 2> inputs;  // by parity
  std::array<KernelContext, 2> contexts;
};

class Updates {
 public:
  Updates(Device& device, const UpdateOp& op, DType variable, DType gradient)
      : device_(device), op_(op), variable_(variable), gradient_(gradient) {
    staging_ = must(device.allocate_host(1 << 20));
    for (const int parity : {0, 1}) {
      Scalars scalars{{}, parity, parity == 1 ? 0.0f : -1.0f};
      for (const int group : {0, 1}) {
        Tensor rate(variable, Shape{1});
        rate.set(0, 0.125 * (1 + parity + 2 * group));
        std::memcpy(scalars.rates[group], rate.raw(), rate.bytes());
      }
      scalars_[static_cast<size_t>(parity)] = given(&scalars, sizeof scalars);
    }
    Scalars forbidding{{}, 0, std::numeric_limits<float>::quiet_NaN()};
    forbidding_ = given(&forbidding, sizeof forbidding);
  }

  OneUpdate make(const Updated& of, size_t index, bool forbidden) const {
    const bool assigns = std::string(op_.name) == "leat.Assign";
    const OpDef* op = testing::gpu_catalogue().find(op_.name);
    REQUIRE(op);
    Attrs attrs = op_.attrs;
    if (!assigns) attrs["weight_decay"] = of.weight_decay;
    attrs = with_defaults(*op, attrs);
    Node node;
    node.op = op;
    KernelSetup setup;
    const auto type = [&](DType dtype, Shape shape) {
      return OperandType{dtype, shape, Layout::plain, ValueKind::tensor, true};
    };
    OneUpdate made;
    std::vector<size_t> at;  // in `memory`
    std::vector<Tensor> tensors;
    size_t bytes = 0;
    for (int i = 0; i < 2 + op_.slots; ++i) {
      const DType dtype = i == 1 + op_.slots ? gradient_ : variable_;
      tensors.push_back(numbers(dtype, of.elements, index + static_cast<size_t>(i), i == 2));
      at.push_back(bytes + (assigns ? 0 : static_cast<size_t>(of.shift) * dtype_size(dtype)));
      bytes = (at.back() + tensors.back().bytes() + kApart) / kApart * kApart;
      setup.types.inputs.push_back(type(dtype, Shape{of.elements}));
    }
    std::vector<std::byte> all(bytes, std::byte{0x5a});
    for (size_t i = 0; i < at.size(); ++i) {
      if (tensors[i].bytes() > 0)
        std::memcpy(all.data() + at[i], tensors[i].raw(), tensors[i].bytes());
    }
    made.memory = given(all.data(), all.size());
    const bool adam = op_.slots == 2;
    if (!assigns) setup.types.inputs.push_back(type(variable_, Shape()));
    if (adam) setup.types.inputs.push_back(type(DType::i64, Shape()));
    if (!assigns) setup.types.inputs.push_back({});  // ids
    setup.types.inputs.push_back(type(DType::f32, Shape()));
    setup.types.attrs = &attrs;
    setup.node = &node;
    setup.device = &device_;
    setup.subject = op_.name;
    made.kernel = must(op->kernels.at("cuda")(setup));
    made.workspace = must(device_.allocate(made.kernel->workspace_bytes()));
    for (const size_t parity : {size_t{0}, size_t{1}}) {
      auto* scalars = static_cast<std::byte*>(scalars_[parity]->data());
      auto* guards = forbidden ? static_cast<std::byte*>(forbidding_->data()) : scalars;
      std::vector<void*>& inputs = made.inputs[parity];
      for (const size_t offset : at)
        inputs.push_back(static_cast<std::byte*>(made.memory->data()) + offset);
      if (!assigns) inputs.push_back(scalars + offsetof(Scalars, rates) + 8 * (index % 2));
      if (adam) inputs.push_back(scalars + offsetof(Scalars, step));
      if (!assigns) inputs.push_back(nullptr);
      inputs.push_back(guards + offsetof(Scalars, guard));
      made.contexts[parity].inputs = inputs.data();
      made.contexts[parity].workspace = static_cast<std::byte*>(made.workspace->data());
      made.contexts[parity].queue = &device_.queue();
    }
    return made;
  }

  void settle(QueueFor use) const {
    must(device_.queue(use).settle(std::chrono::steady_clock::now() + kJoinedDeadline));
  }
  std::vector<std::byte> bytes_of(const Buffer& buffer) const {
    device_.copy_to_host(staging_->data(), buffer.data(), buffer.size());
    settle(QueueFor::copies_out);
    const auto* begin = static_cast<const std::byte*>(staging_->data());
    return {begin, begin + buffer.size()};
  }

 private:
  std::unique_ptr<Buffer> given(const void* bytes, size_t size) const {
    REQUIRE(size <= staging_->size());
    auto buffer = must(device_.allocate(size));
    if (size > 0) std::memcpy(staging_->data(), bytes, size);
    device_.copy_to_device(buffer->data(), staging_->data(), size);
    settle(QueueFor::copies_in);
    return buffer;
  }
  // Adam's second slot has no numbers below 0, and integers may have no sign.
  static Tensor numbers(DType dtype, int64_t elements, size_t seed, bool positive) {
    Tensor made(dtype, Shape{elements});
    for (int64_t i = 0; i < elements; ++i) {
      const double x = std::sin(static_cast<double>(i) * 0.37 + static_cast<double>(seed));
      made.set(i, !is_float(dtype) ? std::round(100 * std::abs(x)) : positive ? std::abs(x) : x);
    }
    return made;
  }

  Device& device_;
  const UpdateOp& op_;
  const DType variable_, gradient_;
  std::unique_ptr<Buffer> staging_, forbidding_;
  std::array<std::unique_ptr<Buffer>, 2> scalars_;  // by parity
};

// Neighbours of the ends of chunks, sizes and places that do not fit vectors, variables without
// elements, and one of several chunks. The last but one is forbidden to change.
const std::vector<Updated> kUpdated = {{4096, 0, 0.25}, {0},         {1},    {4097}, {4095, 0, 0.5},
                                       {1024, 1},       {7, 3, 0.1}, {9000}, {8},    {0, 0, 1}};
constexpr size_t kForbidden = 8;

void check_joined(const UpdateOp& op, DType variable, DType gradient) {
  INFO(op.name << " of " << dtype_name(variable) << " by " << dtype_name(gradient));
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  const Updates updates(*device, op, variable, gradient);
  std::vector<OneUpdate> single, joined;
  std::vector<JoinableKernel::Member> members;
  for (size_t i = 0; i < kUpdated.size(); ++i) {
    single.push_back(updates.make(kUpdated[i], i, i == kForbidden));
    joined.push_back(updates.make(kUpdated[i], i, i == kForbidden));
  }
  for (const OneUpdate& one : joined)
    members.push_back({dynamic_cast<const JoinableKernel&>(*one.kernel), one.contexts});
  for (const JoinableKernel::Member& member : members) {
    CHECK(!member.kernel.join_key().empty());
    CHECK(member.kernel.join_key() == members[0].kernel.join_key());
  }
  const JoinableKernel::Joined all = must(members[0].kernel.join(members));
  CHECK(all.kernel->repeats());
  for (const size_t turn : {0, 1, 2}) {
    for (OneUpdate& one : single)
      REQUIRE(one.kernel->run(one.contexts[turn % 2], 0, 0) == Progress::pending);
    KernelContext context = joined[0].contexts[turn % 2];
    context.workspace = all.workspaces[turn % 2];
    REQUIRE(all.kernel->run(context, 0, 0) == Progress::pending);
  }
  updates.settle(QueueFor::compute);
  const Updates untouched(*device, op, variable, gradient);
  for (size_t i = 0; i < kUpdated.size(); ++i) {
    INFO("variable " << i << " of " << kUpdated[i].elements << " elements");
    const auto bytes = updates.bytes_of(*joined[i].memory);
    CHECK(bytes == updates.bytes_of(*single[i].memory));
    const auto before = untouched.bytes_of(*untouched.make(kUpdated[i], i, false).memory);
    const bool changes = kUpdated[i].elements > 0 && i != kForbidden;
    CHECK((bytes != before) == changes);
  }
}

}  // namespace

TEST_CASE("updates of variables that are joined have the bits of single ones") {
  const std::vector<UpdateOp> ops = {
      {"leat.ApplySgd", 0, {}},
      {"leat.ApplyMomentum", 1, {{"momentum", 0.9}}},
      {"leat.ApplyMomentum", 1, {{"momentum", 0.5}, {"nesterov", int64_t{1}}}},
      {"leat.ApplyAdam", 2, {}},
      {"leat.ApplyAdamW", 2, {}}};
  for (const UpdateOp& op : ops) {
    check_joined(op, DType::f32, DType::f32);
    check_joined(op, DType::f32, DType::bf16);
  }
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16})
    check_joined(ops[4], dtype, dtype);
  check_joined(ops[1], DType::f32, DType::f16);
  const UpdateOp assign{"leat.Assign", 0, {}};
  for (const DType dtype : {DType::f32, DType::u8, DType::bf16}) check_joined(assign, dtype, dtype);
}

TEST_CASE("an update that is to be a launch of its own cannot be joined") {
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  const UpdateOp op{"leat.ApplySgd", 0, {}};
  const Updates updates(*device, op, DType::f32, DType::f32);
  const PlainWay way("joined");
  const OneUpdate one = updates.make({16}, 0, false);
  CHECK(dynamic_cast<const JoinableKernel&>(*one.kernel).join_key().empty());
}

TEST_CASE("weights are the same whether updates are joined or not") {
  struct Case {
    const char* graph;
    std::vector<std::string> set;
  };
  const Case of = GENERATE(
      Case{kMlp, {"optimizer={name: sgd, learning_rate: 0.05}", "num_workers=2"}},
      Case{kTransformer, {"optimizer={name: adam, learning_rate: 0.01, clip_norm: 0.5}"}},
      Case{kNormedCnn,
           {"optimizer={name: adamw, learning_rate: 0.01, weight_decay: 0.1, groups: [{match: "
            "'*/bias', weight_decay: 0, lr_scale: 3}]}",
            "num_workers=2"}},
      Case{kMlp,
           {"optimizer={name: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: true, ema: 0.9}",
            "precision=bfloat16", "on_nan=skip"}},
      Case{kMlp, {"optimizer={name: rmsprop, learning_rate: 0.01}"}});
  GpuJob gpu(of.graph);
  std::vector<std::string> set = of.set;
  INFO(set[0]);
  set.push_back("steps=7");
  const Job job = gpu.small.job(set);
  const auto hash = [&](const char* folder) {
    return must(gpu.train(job, folder)).outcome.weights_sha256;
  };
  const std::string joined = hash("default");
  for (const char* words : {"joined", "joined,graphs", "graphs"}) {
    const PlainWay way(words);
    CHECK(hash(words) == joined);
  }
}

}  // namespace leat
