// Ops of steps that are closed by the first N of M replicas: see ReplicaPool.
//
// The step of a replica, in a run of its own: NextTicket assigns it a step and a chunk of the rows.
// On each server, AwaitStep delays its reads until the variables are those of that step, and Stage
// stores its gradients. Arrive runs after all Stage nodes and reports the replica.
//
// The steps of the job, a run on the servers: AwaitQuorum returns the N replicas that count, and
// SumStaged adds their staged gradients. AdvanceStep runs after all writes of the step and starts
// the reads of the next one. If a replica reads some variables before an update and some after it,
// its step was therefore closed without it.

#include "ops/definitions/quorum.h"

#include <array>
#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/state/replica_pool.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

std::string name_attr(const KernelSetup& setup) { return attr_string(setup.attrs(), "name"); }

// Finds the resource of the node's name in the job's table, or makes it. All runs of the job find
// the same one.
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
  // The pool may be older than this plan. With another quorum, its counts would be those of another
  // plan.
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

// The type of the value of one replica.
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
  // The values of all replicas are one tensor [replicas, ...], allocated before the first step.
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

// Resources that are no variables have no dtype; expect_resource() relies on it.
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
                    .infer(infer_next_ticket));
  catalogue.add(effect("leat.Arrive")
                    .input("pool", "resource")
                    .attr_required("replica", "int")
                    .infer(infer_arrive));
  catalogue.add(Op("leat.AwaitQuorum")
                    .input("pool", "resource")
                    .output("members", "int64")
                    .optional_output("dropped", "double")
                    .attr_required("quorum", "int")
                    .stateful()
                    .infer(infer_await_quorum));
  catalogue.add(Op("leat.StepClock")
                    .output("clock", "resource")
                    .attr_required("name", "string")
                    .infer(infer_resource)
                    .resource(make_clock));
  catalogue.add(effect("leat.AwaitStep")
                    .input("clock", "resource")
                    .input("step", "int64")
                    .infer(infer_clock_op));
  catalogue.add(effect("leat.AdvanceStep").input("clock", "resource").infer(infer_clock_op));
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
                    .infer(infer_stage));
  catalogue.add(Op("leat.SumStaged")
                    .input("staging", "resource")
                    .input("members", "int64")
                    .output("sum", "any")
                    .attr_required("shape", "ints")
                    .attr_required("dtype", "string")
                    .attr("mean", int64_t{0})
                    .stateful()
                    .infer(infer_sum_staged));
}

}  // namespace leat
