// Queues of tuples of tensors, between steps. None of these ops is ordered by the queue alone: two
// enqueues of one step need a control edge if their order matters.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/state/queue_resource.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Signatures

Result<std::vector<QueueComponent>> components_of(const Attrs& attrs) {
  const auto it = attrs.find("components");
  const auto* texts =
      it == attrs.end() ? nullptr : std::get_if<std::vector<std::string>>(&it->second);
  return parse_components(texts ? *texts : std::vector<std::string>());
}

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
  const auto components = components_of(ctx.attrs());
  if (!components.ok()) return ctx.error(components.status().message());
  ctx.set_output(0, ValueType{ValueKind::resource, DType::invalid, {}});
  return {};
}

Status expect_queue(const InferContext& ctx) {
  if (ctx.dtype(0) == DType::invalid) return {};
  return ctx.error("input 0: expected a queue, received a variable");
}

Status infer_queue_done(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_queue(ctx));
  if (ctx.wants_output(0)) ctx.set_output(0, ValueType{ValueKind::token, DType::invalid, {}});
  return {};
}

Status infer_dequeue(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_queue(ctx));
  const auto components = components_of(ctx.attrs());
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

Result<Resource*> make_queue(const KernelSetup& setup) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  const std::string name = attr_string(setup.attrs(), "name");
  const int64_t capacity = attr_int(setup.attrs(), "capacity");
  LEAT_ASSIGN_OR_RETURN(auto components, components_of(setup.attrs()));
  const auto make = [&]() -> Result<std::unique_ptr<Resource>> {
    auto made =
        QueueResource::create(name, components, capacity, setup.resources->device().memory_bytes());
    if (!made.ok()) return made.status();
    return std::unique_ptr<Resource>(std::move(*made));
  };
  auto found = setup.resources->find_or_make("queue", name, make);
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

// ---------------------------------------------------------------------------------------------
// Kernels. They meet their queue when they first run, and look again only if it is another one.

class QueueKernel : public Kernel {
 public:
  explicit QueueKernel(std::string subject) : subject_(std::move(subject)) {}
  Progress run(KernelContext& context, int, int) final {
    if (context.inputs[0] != address_) {
      if (const Status status = meet(context.inputs[0]); !status.ok()) {
        context.step->fail(context.instruction, status);
        return Progress::failed;
      }
    }
    const auto attempt = operate(*queue_, context);
    if (attempt.progress == Progress::blocked) {
      context.await = &queue_->events();
      context.await_value = attempt.await;
    } else if (attempt.progress == Progress::failed) {
      context.step->fail(context.instruction,
                         attempt.status.while_doing(cat("running ", subject_)));
    }
    return attempt.progress;
  }

 protected:
  virtual QueueResource::Attempt operate(QueueResource& queue, KernelContext& context) = 0;
  // The components that the operands have; compared with the queue's first ones, or with all.
  std::vector<QueueComponent> expected_;
  bool all_ = false;

 private:
  Status meet(void* address) {
    auto* queue = dynamic_cast<QueueResource*>(static_cast<Resource*>(address));
    if (!queue)
      return invalid_argument(cat(subject_, ": expected a queue, received another resource"));
    const auto& components = queue->components();
    bool fits =
        expected_.size() <= components.size() && (!all_ || expected_.size() == components.size());
    for (size_t i = 0; fits && i < expected_.size(); ++i) fits = expected_[i] == components[i];
    if (!fits) {
      return invalid_argument(cat(subject_, ": expected (", text(components), ") as queue '",
                                  queue->name(), "' holds, received (", text(expected_), ")"));
    }
    queue_ = queue;
    address_ = address;
    return {};
  }
  static std::string text(const std::vector<QueueComponent>& components) {
    std::vector<std::string> texts;
    for (const QueueComponent& component : components) texts.push_back(component.to_string());
    return join(texts, ", ");
  }

  const std::string subject_;
  QueueResource* queue_ = nullptr;
  void* address_ = nullptr;
};

class EnqueueKernel final : public QueueKernel {
 public:
  explicit EnqueueKernel(const KernelSetup& setup) : QueueKernel(setup.subject) {
    all_ = true;
    for (size_t i = 1; i < setup.types.inputs.size(); ++i) {
      expected_.push_back({setup.types.inputs[i].dtype, setup.types.inputs[i].shape});
    }
  }

 private:
  QueueResource::Attempt operate(QueueResource& queue, KernelContext& context) override {
    // A step that was given up while it was blocked here has left its claim behind.
    if (step_ != context.step || step_number_ != context.step->step) pending_.reset();
    step_ = context.step;
    step_number_ = context.step->step;
    return queue.enqueue({context.inputs + 1, expected_.size()}, pending_);
  }
  QueueResource::Pending pending_;
  const StepContext* step_ = nullptr;
  uint64_t step_number_ = 0;
};

class DequeueKernel final : public QueueKernel {
 public:
  DequeueKernel(const KernelSetup& setup, std::vector<QueueComponent> components)
      : QueueKernel(setup.subject), outputs_(setup.types.outputs.size()) {
    all_ = true;
    expected_ = std::move(components);
  }

 private:
  QueueResource::Attempt operate(QueueResource& queue, KernelContext& context) override {
    return queue.dequeue({context.outputs, outputs_});
  }
  const size_t outputs_;
};

class CloseKernel final : public QueueKernel {
 public:
  explicit CloseKernel(const KernelSetup& setup)
      : QueueKernel(setup.subject), cancel_(attr_int(setup.attrs(), "cancel_pending") != 0) {}

 private:
  QueueResource::Attempt operate(QueueResource& queue, KernelContext&) override {
    queue.close(cancel_);
    return {};
  }
  const bool cancel_;
};

class QueueSizeKernel final : public QueueKernel {
 public:
  explicit QueueSizeKernel(const KernelSetup& setup) : QueueKernel(setup.subject) {}

 private:
  QueueResource::Attempt operate(QueueResource& queue, KernelContext& context) override {
    *context.out<int64_t>(0) = queue.size();
    return {};
  }
};

template <typename K>
Result<std::unique_ptr<Kernel>> make(const KernelSetup& setup) {
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup));
}

Result<std::unique_ptr<Kernel>> make_dequeue(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(auto components, components_of(setup.attrs()));
  return std::unique_ptr<Kernel>(std::make_unique<DequeueKernel>(setup, std::move(components)));
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
                    .infer(infer_queue_done)
                    .kernel("cpu", make<EnqueueKernel>));
  catalogue.add(Op("leat.Dequeue")
                    .input("q", "resource")
                    .variadic_output("x", "T", true)
                    .type("T", kAllTypes)
                    .attr_required("components", "strings")
                    .stateful()
                    .infer(infer_dequeue)
                    .kernel("cpu", make_dequeue));
  catalogue.add(Op("leat.Close")
                    .input("q", "resource")
                    .optional_output("done", "token")
                    .attr("cancel_pending", int64_t{0})
                    .stateful()
                    .infer(infer_queue_done)
                    .kernel("cpu", make<CloseKernel>));
  catalogue.add(Op("leat.QueueSize")
                    .input("q", "resource")
                    .output("size", "int64")
                    .stateful()
                    .infer(infer_queue_size)
                    .kernel("cpu", make<QueueSizeKernel>));
}

}  // namespace leat
