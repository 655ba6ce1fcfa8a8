// CPU kernels of ops/definitions/quorum.cc.
#include "ops/definitions/quorum.h"

#include <array>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/elements/tree_sum.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/state/replica_pool.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Kernels

// A kernel of a resource, which it looks up when it first runs.
template <typename R>
class ResourceKernel : public Kernel {
 public:
  ResourceKernel(const KernelSetup& setup, std::string_view expected)
      : subject_(setup.subject), expected_(expected) {}

  Progress run(KernelContext& context, int, int) final {
    // Only a kernel whose resource fits keeps it, so the next step checks again after a failure.
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
  // For each kernel: check() says if the resource fits the node, and met() is called once, when it
  // does.
  virtual Status check(const R&) const { return {}; }
  virtual void met(R&, int64_t /*step*/) {}
  R* resource() const { return resource_; }

  Progress fail(KernelContext& context, const Status& status) const {
    context.step->fail(context.instruction,
                       Status(status.code(), cat(subject_, ": ", status.message())));
    return Progress::failed;
  }
  // The executor runs the tile again when the resource's events reach `until`.
  static Progress blocked(KernelContext& context, R& resource, uint64_t until) {
    context.await = &resource.events();
    context.await_value = until;
    return Progress::blocked;
  }

 private:
  const std::string subject_, expected_;
  R* resource_ = nullptr;
};

// A kernel that registers as a user of the resource.
template <typename R>
class JoiningKernel : public ResourceKernel<R> {
 public:
  using ResourceKernel<R>::ResourceKernel;
  // The kernel is destroyed with its run. When all users have left, the next one restarts the
  // resource.
  ~JoiningKernel() override {
    if (this->resource()) this->resource()->leave();
  }

 protected:
  void met(R& resource, int64_t step) override { resource.join(step); }
};

// The base of the kernels of a replica pool: the replica and the quorum must be those of the pool.
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
    // Nodes without the attribute accept any quorum.
    if (quorum_ == 0 || quorum_ == pool.options().quorum) return {};
    return invalid_argument(
        cat("quorum: expected ", pool.options().quorum, ", received ", quorum_));
  }
  const int64_t replica_, quorum_;
};

// Failpoints, for tests of one replica: replica/draw/R and replica/arrive/R end its run; while
// replica/late/R fails, the replica arrives only after its step is closed.
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

// leat.Arrive: reports that the replica's gradients are staged.
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
    // In a test the replica waits here until its step is closed without it.
    if (!LEAT_FAILPOINT(late_).ok() && !pool.missed(replica_, await))
      return blocked(context, pool, await);
    pool.arrive(replica_);
    return Progress::done;
  }
  const std::string failpoint_, late_;
};

// leat.AwaitQuorum: waits until the quorum has arrived and closes the step. Output 0 has the
// replicas that count, and output 1 the number of chunks that do not.
class AwaitQuorumKernel final : public PoolKernel {
 public:
  explicit AwaitQuorumKernel(const KernelSetup& setup)
      : PoolKernel(setup), reports_(setup.types.has_output(1)) {}

 private:
  Progress operate(ReplicaPool& pool, KernelContext& context) override {
    const auto step = static_cast<int64_t>(context.step->step);
    // Without a limit from the context, only this step is allowed.
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

// leat.AwaitStep: waits until the variables have the updates of all steps before input 1.
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

// leat.AdvanceStep: the variables now hold the results of this step, so the reads of the next one
// may begin.
class AdvanceStepKernel final : public ClockKernel {
 public:
  using ClockKernel::ClockKernel;

 private:
  Progress operate(StepClock& clock, KernelContext& context) override {
    clock.advance(static_cast<int64_t>(context.step->step) + 1);
    return Progress::done;
  }
};

// leat.Stage: copies a replica's gradient to its place in the staging, [replicas, ...]. Replicas
// write different places, so they need no lock.
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

// to[i] = the sum over `members` of their staged values, in the tree over their order, times
// `scale`.
template <typename T>
void sum_staged(T* to, const T* values, int64_t width, const int64_t* members, int64_t count,
                T scale) {
  constexpr int64_t kBlock = 256;
  // Enough for a tree of kMostReplicas leaves.
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

// leat.SumStaged: sums the staged gradients of the members. AwaitQuorum orders them by chunk, so
// the order of arrival does not change a bit.
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
    // The members are a value of the graph, and a bad one would read outside of the staging.
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
    // The mean multiplies once by 1 / N, after the sum.
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

}  // namespace

void add_quorum_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.NextTicket", "cpu", make_quorum_kernel<NextTicketKernel>);
  catalogue.add_kernel("leat.Arrive", "cpu", make_quorum_kernel<ArriveKernel>);
  catalogue.add_kernel("leat.AwaitQuorum", "cpu", make_quorum_kernel<AwaitQuorumKernel>);
  catalogue.add_kernel("leat.AwaitStep", "cpu", make_quorum_kernel<AwaitStepKernel>);
  catalogue.add_kernel("leat.AdvanceStep", "cpu", make_quorum_kernel<AdvanceStepKernel>);
  catalogue.add_kernel("leat.Stage", "cpu", make_quorum_kernel<StageKernel>);
  catalogue.add_kernel("leat.SumStaged", "cpu", make_quorum_kernel<SumStagedKernel>);
}

}  // namespace leat
