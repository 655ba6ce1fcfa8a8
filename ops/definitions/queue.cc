// Queues of tuples of tensors, which exist between steps. The queue alone does not order these ops:
// two enqueues of one step need a control edge if their order matters.
#include "ops/definitions/queue.h"

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/state/queue_resource.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// A queue is a resource without an element type: the dtype `invalid` distinguishes it from a
// variable.
Status infer_queue(InferContext& ctx) {
  const std::string name = attr_string(ctx.attrs(), "name");
  if (name.empty() || name.size() > limits::kNameLength) {
    return ctx.error(
        cat("name: expected 1 to ", limits::kNameLength, " bytes, received ", name.size()));
  }
  const int64_t capacity = attr_int(ctx.attrs(), "capacity");
  if (capacity < 1 || capacity > static_cast<int64_t>(limits::kListLength)) {
    return ctx.error(cat("capacity: expected 1 to ", limits::kListLength, ", received ", capacity));
  }
  const auto components = queue_components(ctx.attrs());
  if (!components.ok()) return ctx.error(components.status().message());
  ctx.set_output(0, ValueType{ValueKind::resource, DType::invalid, {}});
  return {};
}

// The signature accepts any resource, and only a variable has a dtype. Kernels find out about the
// other kinds of resources when they first run.
Status expect_queue(const InferContext& ctx) {
  if (ctx.dtype(0) == DType::invalid) return {};
  return ctx.error("input 0: expected a queue, received a variable");
}

Status infer_queue_done(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_queue(ctx));
  if (ctx.wants_output(0)) ctx.set_output(0, ValueType{ValueKind::token, DType::invalid, {}});
  return {};
}

// The types come from the node's own attribute, because inference does not see the queue's node.
// The kernel compares them with the queue's when it first runs.
Status infer_dequeue(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_queue(ctx));
  const auto components = queue_components(ctx.attrs());
  if (!components.ok()) return ctx.error(components.status().message());
  const int count = static_cast<int>(components->size());
  if (ctx.outputs() > count) {
    return ctx.error(cat("expected at most ", count, " outputs, one for each component, received ",
                         ctx.outputs()));
  }
  for (int i = 0; i < ctx.outputs(); ++i) {
    const QueueComponent& component = (*components)[static_cast<size_t>(i)];
    if (ctx.wants_output(i)) ctx.set_tensor(i, component.dtype, component.shape);
  }
  return {};
}

Status infer_queue_size(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_queue(ctx));
  ctx.set_tensor(0, DType::i64, Shape());
  return {};
}

// Nodes of the same name share one queue, in all runs that have this table of resources. They must
// agree about its type, since the memory of all elements is allocated by the first.
Result<Resource*> make_queue(const KernelSetup& setup) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  const std::string name = attr_string(setup.attrs(), "name");
  const int64_t capacity = attr_int(setup.attrs(), "capacity");
  LEAT_ASSIGN_OR_RETURN(auto components, queue_components(setup.attrs()));
  const auto make_queue_kernel = [&]() -> Result<std::unique_ptr<Resource>> {
    auto made =
        QueueResource::create(name, components, capacity, setup.resources->device().memory_bytes());
    if (!made.ok()) return made.status();
    return std::unique_ptr<Resource>(std::move(*made));
  };
  auto found = setup.resources->find_or_make("queue", name, make_queue_kernel);
  if (!found.ok()) return found.status().while_doing(cat("making ", setup.subject));
  const auto* queue = static_cast<QueueResource*>(*found);
  if (queue->capacity() != capacity || queue->components() != components) {
    return failed_precondition(cat(setup.subject, ": queue '", name,
                                   "' exists with another capacity or "
                                   "other components: expected ",
                                   queue->capacity(), " elements, received ", capacity));
  }
  return *found;
}

}  // namespace

void register_queue_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Queue")
                    .output("q", "resource")
                    .attr_required("name", "string")
                    .attr_required("capacity", "int")
                    .attr_required("components", "strings")
                    .infer(infer_queue)
                    .resource(make_queue));
  catalogue.add(Op("leat.Enqueue")
                    .input("q", "resource")
                    .variadic_input("x", "T", true)
                    .optional_output("done", "token")
                    .type("T", kAllTypes)
                    .stateful()
                    .infer(infer_queue_done));
  catalogue.add(Op("leat.Dequeue")
                    .input("q", "resource")
                    .variadic_output("x", "T", true)
                    .type("T", kAllTypes)
                    .attr_required("components", "strings")
                    .stateful()
                    .infer(infer_dequeue));
  catalogue.add(Op("leat.Close")
                    .input("q", "resource")
                    .optional_output("done", "token")
                    .attr("cancel_pending", int64_t{0})
                    .stateful()
                    .infer(infer_queue_done));
  catalogue.add(Op("leat.QueueSize")
                    .input("q", "resource")
                    .output("size", "int64")
                    .stateful()
                    .infer(infer_queue_size));
}

}  // namespace leat
