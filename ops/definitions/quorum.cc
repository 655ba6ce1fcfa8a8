// Ops of steps that are closed by the first N of M replicas: see ReplicaPool.
//
// A replica's step, in a run of its own: NextTicket gives it a step and a chunk of the rows; on
// each server AwaitStep holds its reads back until the variables are those of that step; Stage
// leaves its gradients there; Arrive, after all of them, says so.
//
// The steps of the job, a run on the servers: AwaitQuorum says which N replicas count; SumStaged
// adds up what these left; AdvanceStep, after all that the step writes, lets the reads of the next
// one begin. So a replica that read some variables before and some after an update is one whose
// step was closed without it.

#include <array>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/cpu/tree_sum.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/state/replica_pool.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Resources

// Which step the variables of a server are of. Threads: any.
class StepClock final : public Resource {
 public:
  std::string_view kind() const override { return "step clock"; }

  // As of ReplicaPool.
  void join(int64_t first) {
    std::lock_guard lock(mutex_);
    if (users_++ == 0) step_ = first;
  }
  void leave() {
    std::lock_guard lock(mutex_);
    --users_;
  }
  bool reached(int64_t step, uint64_t& await) {
    std::lock_guard lock(mutex_);
    await = version_ + 1;
    return step_ >= step;
  }
  void advance(int64_t step) {
    uint64_t version;
    {
      std::lock_guard lock(mutex_);
      step_ = std::max(step_, step);
      version = ++version_;
    }
    events_.signal(version);
  }
  Timeline& events() { return events_; }

 private:
  Timeline events_;
  std::mutex mutex_;
  uint64_t version_ = 0;
  int users_ = 0;
  int64_t step_ = 0;
};

// One value of each replica. Threads: those who write and read a replica's value are ordered by the
// pool and the clock.
class Staging final : public Resource {
 public:
  explicit Staging(Tensor values) : values_(std::move(values)) {}
  std::string_view kind() const override { return "staging"; }
  const Tensor& values() const { return values_; }  // [replicas, ...]

 private:
  const Tensor values_;
};

std::string name_attr(const KernelSetup& setup) { return attr_string(setup.attrs(), "name"); }

Result<Resource*> find_or_make(const KernelSetup& setup, std::string_view kind,
                               const std::function<Result<std::unique_ptr<Resource>>()>& make) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  auto found = setup.resources->find_or_make(kind, name_attr(setup), make);
  if (!found.ok()) return found.status().while_doing(cat("making ", setup.subject));
  return found;
}

Result<Resource*> make_pool(const KernelSetup& setup) {
  const ReplicaPool::Options options{attr_int(setup.attrs(), "replicas"),
                                     attr_int(setup.attrs(), "quorum"),
                                     attr_int(setup.attrs(), "requeue") != 0};
  LEAT_ASSIGN_OR_RETURN(
      Resource * found,
      find_or_make(setup, "replica pool", [&]() -> Result<std::unique_ptr<Resource>> {
        return std::unique_ptr<Resource>(std::make_unique<ReplicaPool>(options));
      }));
  const ReplicaPool::Options& there = static_cast<ReplicaPool*>(found)->options();
  if (there == options) return found;
  return failed_precondition(cat(setup.subject, ": replica pool '", name_attr(setup),
                                 "' exists with another quorum: expected ", there.quorum, " of ",
                                 there.replicas, ", received ", options.quorum, " of ",
                                 options.replicas));
}

Result<Resource*> make_clock(const KernelSetup& setup) {
  return find_or_make(setup, "step clock", []() -> Result<std::unique_ptr<Resource>> {
    return std::unique_ptr<Resource>(std::make_unique<StepClock>());
  });
}

// The type of one replica's value.
struct StagedType {
  DType dtype = DType::invalid;
  Shape shape;
};

Result<StagedType> staged_type(const Attrs& attrs) {
  const std::string name = attr_string(attrs, "dtype");
  const auto dtype = dtype_from_name(name);
  if (dtype != DType::f32 && dtype != DType::f64)
    return invalid_argument(cat("dtype: expected float or double, received '", name, "'"));
  const auto sizes = attr_ints(attrs, "shape");
  const auto shape = Shape::checked(sizes);
  if (!shape || shape->rank() >= kMaxRank) {
    return invalid_argument(cat("shape: expected at most ", kMaxRank - 1, " sizes >= 0, received [",
                                join(sizes, ","), "]"));
  }
  return StagedType{*dtype, *shape};
}

Result<Resource*> make_staging(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const StagedType type, staged_type(setup.attrs()));
  std::vector<int64_t> sizes{attr_int(setup.attrs(), "replicas")};
  sizes.insert(sizes.end(), type.shape.begin(), type.shape.end());
  const auto shape = Shape::checked(sizes);
  if (!shape) return resource_exhausted(cat(setup.subject, ": expected fewer or smaller values"));
  LEAT_ASSIGN_OR_RETURN(
      Resource * found, find_or_make(setup, "staging", [&]() -> Result<std::unique_ptr<Resource>> {
        LEAT_ASSIGN_OR_RETURN(Tensor values, Tensor::create(type.dtype, *shape));
        return std::unique_ptr<Resource>(std::make_unique<Staging>(std::move(values)));
      }));
  const Tensor& values = static_cast<Staging*>(found)->values();
  if (values.dtype() == type.dtype && values.shape() == *shape) return found;
  return failed_precondition(cat(setup.subject, ": staging '", name_attr(setup),
                                 "' exists with another type: expected ", values.dtype(),
                                 values.shape(), ", received ", type.dtype, *shape));
}

// ---------------------------------------------------------------------------------------------
// Signatures

Status infer_resource(InferContext& ctx) {
  if (attr_string(ctx.attrs(), "name").empty()) return ctx.error("name: expected one");
  ctx.set_output(0, ValueType{ValueKind::resource, DType::invalid, {}});
  return {};
}

Status expect_count(const InferContext& ctx, const char* name, int64_t least, int64_t most) {
  const int64_t count = attr_int(ctx.attrs(), name);
  if (count >= least && count <= most) return {};
  return ctx.error(cat(name, ": expected ", least, " to ", most, ", received ", count));
}

constexpr int64_t kMostReplicas = 4096;

Status infer_pool(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "replicas", 1, kMostReplicas));
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "quorum", 1, attr_int(ctx.attrs(), "replicas")));
  return infer_resource(ctx);
}

Status infer_staging(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "replicas", 1, kMostReplicas));
  if (const auto type = staged_type(ctx.attrs()); !type.ok())
    return ctx.error(type.status().message());
  return infer_resource(ctx);
}

Status expect_resource(const InferContext& ctx, std::string_view what) {
  if (ctx.dtype(0) == DType::invalid) return {};
  return ctx.error(cat("input 0: expected a ", what, ", received a variable"));
}

Status infer_quorum_effect(InferContext& ctx) {
  if (ctx.wants_output(0)) ctx.set_output(0, ValueType{ValueKind::token, DType::invalid, {}});
  return {};
}

Status infer_next_ticket(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_resource(ctx, "replica pool"));
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "replica", 0, kMostReplicas - 1));
  ctx.set_tensor(0, DType::i64, {});
  ctx.set_tensor(1, DType::i64, {});
  return {};
}

Status infer_arrive(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_resource(ctx, "replica pool"));
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "replica", 0, kMostReplicas - 1));
  return infer_quorum_effect(ctx);
}

Status infer_await_quorum(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_resource(ctx, "replica pool"));
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "quorum", 1, kMostReplicas));
  ctx.set_tensor(0, DType::i64, Shape{attr_int(ctx.attrs(), "quorum")});
  if (ctx.wants_output(1)) ctx.set_tensor(1, DType::f64, {});
  return {};
}

Status infer_clock_op(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_resource(ctx, "step clock"));
  if (ctx.inputs() > 1 && ctx.shape(1).rank() != 0)
    return ctx.error(cat("step: expected a scalar, received ", ctx.text(ctx.shape(1))));
  return infer_quorum_effect(ctx);
}

Status infer_stage(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_resource(ctx, "staging"));
  LEAT_RETURN_IF_ERROR(expect_count(ctx, "replica", 0, kMostReplicas - 1));
  return infer_quorum_effect(ctx);
}

Status infer_sum_staged(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_resource(ctx, "staging"));
  const auto type = staged_type(ctx.attrs());
  if (!type.ok()) return ctx.error(type.status().message());
  const auto members = ctx.shape(1).concrete();
  if (!members || members->rank() != 1 || members->elements() < 1)
    return ctx.error(cat("members: expected a list, received ", ctx.text(ctx.shape(1))));
  ctx.set_tensor(0, type->dtype, type->shape);
  return {};
}

// ---------------------------------------------------------------------------------------------
// Kernels

// A kernel of a resource that it meets when it first runs.
template <typename R>
class ResourceKernel : public Kernel {
 public:
  ResourceKernel(const KernelSetup& setup, std::string_view expected)
      : subject_(setup.subject), expected_(expected) {}

  Progress run(KernelContext& context, int, int) final {
    if (!resource_) {
      auto* found = dynamic_cast<R*>(static_cast<Resource*>(context.inputs[0]));
      Status status =
          found ? check(*found)
                : invalid_argument(cat("expected a ", expected_, ", received another resource"));
      if (!status.ok()) return fail(context, status);
      resource_ = found;
      met(*found, static_cast<int64_t>(context.step->step));
    }
    return operate(*resource_, context);
  }

 protected:
  virtual Progress operate(R& resource, KernelContext& context) = 0;
  virtual Status check(const R&) const { return {}; }
  virtual void met(R&, int64_t /*step*/) {}
  R* resource() const { return resource_; }

  Progress fail(KernelContext& context, const Status& status) const {
    context.step->fail(context.instruction,
                       Status(status.code(), cat(subject_, ": ", status.message())));
    return Progress::failed;
  }
  static Progress blocked(KernelContext& context, R& resource, uint64_t until) {
    context.await = &resource.events();
    context.await_value = until;
    return Progress::blocked;
  }

 private:
  const std::string subject_, expected_;
  R* resource_ = nullptr;
};

// One that counts as a user of it.
template <typename R>
class JoiningKernel : public ResourceKernel<R> {
 public:
  using ResourceKernel<R>::ResourceKernel;
  ~JoiningKernel() override {
    if (this->resource()) this->resource()->leave();
  }

 protected:
  void met(R& resource, int64_t step) override { resource.join(step); }
};

class PoolKernel : public JoiningKernel<ReplicaPool> {
 public:
  explicit PoolKernel(const KernelSetup& setup)
      : JoiningKernel(setup, "replica pool"),
        replica_(attr_int(setup.attrs(), "replica")),
        quorum_(attr_int(setup.attrs(), "quorum")) {}

 protected:
  Status check(const ReplicaPool& pool) const override {
    if (replica_ >= pool.options().replicas) {
      return invalid_argument(
          cat("replica: expected one of ", pool.options().replicas, ", received ", replica_));
    }
    if (quorum_ == 0 || quorum_ == pool.options().quorum) return {};
    return invalid_argument(
        cat("quorum: expected ", pool.options().quorum, ", received ", quorum_));
  }
  const int64_t replica_, quorum_;
};

// Failpoints, for tests of one replica: replica/draw/R and replica/arrive/R end its run; while
// replica/late/R fails, it arrives when its step is closed, and not before.
class NextTicketKernel final : public PoolKernel {
 public:
  explicit NextTicketKernel(const KernelSetup& setup)
      : PoolKernel(setup), failpoint_(cat("replica/draw/", replica_)) {}

 private:
  Progress operate(ReplicaPool& pool, KernelContext& context) override {
    if (const Status lost = LEAT_FAILPOINT(failpoint_); !lost.ok()) return fail(context, lost);
    ReplicaPool::Ticket ticket;
    uint64_t await = 0;
    if (!pool.draw(replica_, ticket, await)) return blocked(context, pool, await);
    *context.out<int64_t>(0) = ticket.step;
    *context.out<int64_t>(1) = ticket.chunk;
    return Progress::done;
  }
  const std::string failpoint_;
};

class ArriveKernel final : public PoolKernel {
 public:
  explicit ArriveKernel(const KernelSetup& setup)
      : PoolKernel(setup),
        failpoint_(cat("replica/arrive/", replica_)),
        late_(cat("replica/late/", replica_)) {}

 private:
  Progress operate(ReplicaPool& pool, KernelContext& context) override {
    if (const Status lost = LEAT_FAILPOINT(failpoint_); !lost.ok()) return fail(context, lost);
    uint64_t await = 0;
    if (!LEAT_FAILPOINT(late_).ok() && !pool.missed(replica_, await))
      return blocked(context, pool, await);
    pool.arrive(replica_);
    return Progress::done;
  }
  const std::string failpoint_, late_;
};

class AwaitQuorumKernel final : public PoolKernel {
 public:
  explicit AwaitQuorumKernel(const KernelSetup& setup)
      : PoolKernel(setup), reports_(setup.types.has_output(1)) {}

 private:
  Progress operate(ReplicaPool& pool, KernelContext& context) override {
    const auto step = static_cast<int64_t>(context.step->step);
    // Where nobody says, the step alone.
    const auto* limited = dynamic_cast<const LimitedStepContext*>(context.step);
    const int64_t limit = limited ? static_cast<int64_t>(limited->limit) : step + 1;
    ReplicaPool::Closed closed;
    uint64_t await = 0;
    if (!pool.close(step, limit, context.out<int64_t>(0), closed, await))
      return blocked(context, pool, await);
    if (!closed.status.ok()) return fail(context, closed.status);
    if (reports_) *context.out<double>(1) = static_cast<double>(closed.dropped);
    return Progress::done;
  }
  const bool reports_;
};

class ClockKernel : public JoiningKernel<StepClock> {
 public:
  explicit ClockKernel(const KernelSetup& setup) : JoiningKernel(setup, "step clock") {}
};

class AwaitStepKernel final : public ClockKernel {
 public:
  using ClockKernel::ClockKernel;

 private:
  Progress operate(StepClock& clock, KernelContext& context) override {
    uint64_t await = 0;
    if (!clock.reached(*context.in<int64_t>(1), await)) return blocked(context, clock, await);
    return Progress::done;
  }
};

class AdvanceStepKernel final : public ClockKernel {
 public:
  using ClockKernel::ClockKernel;

 private:
  Progress operate(StepClock& clock, KernelContext& context) override {
    clock.advance(static_cast<int64_t>(context.step->step) + 1);
    return Progress::done;
  }
};

class StageKernel final : public ResourceKernel<Staging> {
 public:
  explicit StageKernel(const KernelSetup& setup)
      : ResourceKernel(setup, "staging"),
        replica_(attr_int(setup.attrs(), "replica")),
        type_(setup.input(1)) {}

 private:
  Status check(const Staging& staging) const override {
    const Tensor& values = staging.values();
    const int64_t replicas = values.shape()[0];
    if (replica_ < replicas && values.dtype() == type_.dtype &&
        values.shape().elements() == replicas * type_.shape.elements())
      return {};
    return invalid_argument(cat("expected a value and a replica of ", values.dtype(),
                                values.shape(), ", received ", type_.dtype, type_.shape, " of ",
                                replica_));
  }
  Progress operate(Staging& staging, KernelContext& context) override {
    const size_t bytes = staging.values().bytes() / static_cast<size_t>(replicas(staging));
    if (bytes > 0) {
      std::memcpy(staging.values().data<std::byte>() + static_cast<size_t>(replica_) * bytes,
                  context.inputs[1], bytes);
    }
    return Progress::done;
  }
  static int64_t replicas(const Staging& staging) { return staging.values().shape()[0]; }
  const int64_t replica_;
  const OperandType type_;
};

// to[i] = the sum over `members` of what each staged, in the tree over their order, times `scale`.
template <typename T>
void sum_staged(T* to, const T* values, int64_t width, const int64_t* members, int64_t count,
                T scale) {
  constexpr int64_t kBlock = 256;
  // A tree of kMostReplicas leaves.
  std::array<T, 14 * kBlock> memory;
  for (int64_t begin = 0; begin < width; begin += kBlock) {
    const int64_t n = std::min(kBlock, width - begin);
    TreeStack<SumFold, T> stack(memory.data(), n);
    for (int64_t m = 0; m < count; ++m) {
      std::memcpy(stack.top(), values + members[m] * width + begin,
                  static_cast<size_t>(n) * sizeof(T));
      stack.push();
    }
    const T* sum = stack.finish();
    for (int64_t i = 0; i < n; ++i) to[begin + i] = scale == T(1) ? sum[i] : sum[i] * scale;
  }
}

class SumStagedKernel final : public ResourceKernel<Staging> {
 public:
  explicit SumStagedKernel(const KernelSetup& setup)
      : ResourceKernel(setup, "staging"),
        mean_(attr_int(setup.attrs(), "mean") != 0),
        count_(setup.input(1).shape.elements()),
        type_(setup.output(0)) {}

 private:
  Status check(const Staging& staging) const override {
    const Tensor& values = staging.values();
    if (values.dtype() == type_.dtype &&
        values.shape().elements() == values.shape()[0] * type_.shape.elements())
      return {};
    return invalid_argument(cat("expected ", values.dtype(), values.shape(),
                                " as is staged, received ", type_.dtype, type_.shape));
  }
  Progress operate(Staging& staging, KernelContext& context) override {
    const auto* members = context.in<int64_t>(1);
    const int64_t replicas = staging.values().shape()[0];
    for (int64_t m = 0; m < count_; ++m) {
      if (members[m] >= 0 && members[m] < replicas) continue;
      return fail(context, invalid_argument(cat("members: expected 0 to ", replicas - 1,
                                                ", received ", members[m])));
    }
    if (type_.dtype == DType::f32) {
      sum<float>(staging, context);
    } else {
      sum<double>(staging, context);
    }
    return Progress::done;
  }
  template <typename T>
  void sum(const Staging& staging, KernelContext& context) const {
    const T scale = mean_ ? static_cast<T>(1.0 / static_cast<double>(count_)) : T(1);
    sum_staged<T>(context.out<T>(0), staging.values().data<T>(), type_.shape.elements(),
                  context.in<int64_t>(1), count_, scale);
  }
  const bool mean_;
  const int64_t count_;
  const OperandType type_;
};

template <typename K>
Result<std::unique_ptr<Kernel>> make_quorum_kernel(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup));
}

Op effect(std::string_view name) { return Op(name).optional_output("done", "token").stateful(); }

}  // namespace

void register_quorum_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.ReplicaPool")
                    .output("pool", "resource")
                    .attr_required("name", "string")
                    .attr_required("replicas", "int")
                    .attr_required("quorum", "int")
                    .attr("requeue", int64_t{1})
                    .infer(infer_pool)
                    .resource(make_pool));
  catalogue.add(Op("leat.NextTicket")
                    .input("pool", "resource")
                    .output("step", "int64")
                    .output("chunk", "int64")
                    .attr_required("replica", "int")
                    .stateful()
                    .infer(infer_next_ticket)
                    .kernel("cpu", make_quorum_kernel<NextTicketKernel>));
  catalogue.add(effect("leat.Arrive")
                    .input("pool", "resource")
                    .attr_required("replica", "int")
                    .infer(infer_arrive)
                    .kernel("cpu", make_quorum_kernel<ArriveKernel>));
  catalogue.add(Op("leat.AwaitQuorum")
                    .input("pool", "resource")
                    .output("members", "int64")
                    .optional_output("dropped", "double")
                    .attr_required("quorum", "int")
                    .stateful()
                    .infer(infer_await_quorum)
                    .kernel("cpu", make_quorum_kernel<AwaitQuorumKernel>));
  catalogue.add(Op("leat.StepClock")
                    .output("clock", "resource")
                    .attr_required("name", "string")
                    .infer(infer_resource)
                    .resource(make_clock));
  catalogue.add(effect("leat.AwaitStep")
                    .input("clock", "resource")
                    .input("step", "int64")
                    .infer(infer_clock_op)
                    .kernel("cpu", make_quorum_kernel<AwaitStepKernel>));
  catalogue.add(effect("leat.AdvanceStep")
                    .input("clock", "resource")
                    .infer(infer_clock_op)
                    .kernel("cpu", make_quorum_kernel<AdvanceStepKernel>));
  catalogue.add(Op("leat.Staging")
                    .output("staging", "resource")
                    .attr_required("name", "string")
                    .attr_required("replicas", "int")
                    .attr_required("shape", "ints")
                    .attr_required("dtype", "string")
                    .infer(infer_staging)
                    .resource(make_staging));
  catalogue.add(effect("leat.Stage")
                    .input("staging", "resource")
                    .input("value", "any")
                    .attr_required("replica", "int")
                    .infer(infer_stage)
                    .kernel("cpu", make_quorum_kernel<StageKernel>));
  catalogue.add(Op("leat.SumStaged")
                    .input("staging", "resource")
                    .input("members", "int64")
                    .output("sum", "any")
                    .attr_required("shape", "ints")
                    .attr_required("dtype", "string")
                    .attr("mean", int64_t{0})
                    .stateful()
                    .infer(infer_sum_staged)
                    .kernel("cpu", make_quorum_kernel<SumStagedKernel>));
}

}  // namespace leat
