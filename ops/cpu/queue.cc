// CPU kernels of ops/definitions/queue.cc.
#include "ops/definitions/queue.h"

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/graph/limits.h"
#include "ops/state/queue_resource.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// ---------------------------------------------------------------------------------------------
// Kernels. Each looks up its queue when it first runs, and again only if its address changes.

class QueueKernel : public Kernel {
 public:
  explicit QueueKernel(std::string subject) : subject_(std::move(subject)) {}
  Progress run(KernelContext& context, int, int) final {
    // The check of the resource and of its components is done once, and not in every step.
    if (context.inputs[0] != address_) {
      if (const Status status = meet(context.inputs[0]); !status.ok()) {
        context.step->fail(context.instruction, status);
        return Progress::failed;
      }
    }
    const auto attempt = operate(*queue_, context);
    // A blocked attempt did nothing. The executor runs this tile again when the queue has changed.
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
  // The components of the operands; compared with the queue's first ones, or with all of them.
  std::vector<QueueComponent> expected_;
  bool all_ = false;

 private:
  Status meet(void* address) {
    auto* queue = dynamic_cast<QueueResource*>(static_cast<Resource*>(address));
    if (!queue)
      return invalid_argument(cat(subject_, ": expected a queue, received another resource"));
    const auto& components = queue->components();
    // `all_`: the operands are the whole element. Close and QueueSize expect no components.
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

// Input 0 is the queue; the other inputs are the components of the element.
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
    // A step that was cancelled while it was blocked here left its claim behind.
    if (step_ != context.step || step_number_ != context.step->step) pending_.reset();
    step_ = context.step;
    step_number_ = context.step->step;
    return queue.enqueue({context.inputs + 1, expected_.size()}, pending_);
  }
  QueueResource::Pending pending_;
  const StepContext* step_ = nullptr;
  uint64_t step_number_ = 0;
};

// The attribute `components` says what the queue holds. Outputs that no node reads are skipped.
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

Result<std::unique_ptr<Kernel>> make_dequeue(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(auto components, queue_components(setup.attrs()));
  return std::unique_ptr<Kernel>(std::make_unique<DequeueKernel>(setup, std::move(components)));
}

}  // namespace

void add_queue_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Enqueue", "cpu", make_queue_kernel<EnqueueKernel>);
  catalogue.add_kernel("leat.Dequeue", "cpu", make_dequeue);
  catalogue.add_kernel("leat.Close", "cpu", make_queue_kernel<CloseKernel>);
  catalogue.add_kernel("leat.QueueSize", "cpu", make_queue_kernel<QueueSizeKernel>);
}

}  // namespace leat
