// The factories of the ops that read and write variables on CUDA.
#include <algorithm>
#include <span>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/joined_updates.h"
#include "ops/cuda/variable.h"
#include "ops/definitions/variable.h"
#include "ops/state/commits.h"
#include "ops/state/resources.h"

namespace leat::cuda {
namespace {

Result<std::unique_ptr<Kernel>> make_read(const KernelSetup& setup) {
  return make_cuda_kernel(
      setup, [bytes = setup.output(0).bytes()](const KernelContext& context, cudaStream_t stream) {
        // The value may be the variable itself, read without a copy.
        if (bytes == 0 || context.inputs[0] == context.outputs[0]) return cudaSuccess;
        return cudaMemcpyAsync(context.outputs[0], context.inputs[0], bytes,
                               cudaMemcpyDeviceToDevice, stream);
      });
}

Result<std::unique_ptr<Kernel>> make_assign(const KernelSetup& setup, const char* key) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 1));
  return make_update<AssignCall>(
      setup, {.call =
                  [bytes = static_cast<int64_t>(setup.input(1).bytes()),
                   guarded = setup.types.has_input(kWriteGuard)](const KernelContext& context) {
                    const float* guard = guarded ? context.in<float>(kWriteGuard) : nullptr;
                    return AssignCall{context.inputs[0], context.inputs[1], bytes, guard};
                  },
              .launch = launch_assign,
              .launch_all = launch_assign_all,
              .key = key});
}

Result<std::unique_ptr<Kernel>> make_assign_add(const KernelSetup& setup) {
  LEAT_RETURN_IF_ERROR(check_fits(setup, 1));
  return make_cuda_kernel(setup, [elements = setup.input(1).shape.elements(),
                                  dtype = setup.input(1).dtype,
                                  guarded = setup.types.has_input(kWriteGuard)](
                                     const KernelContext& context, cudaStream_t stream) {
    const float* guard = guarded ? context.in<float>(kWriteGuard) : nullptr;
    return launch_assign_add(context.inputs[0], context.inputs[1], elements, dtype, guard, stream);
  });
}

// The rows of the last steps, in memory of the host.
class CommitRows {
 public:
  CommitRows(std::unique_ptr<Buffer> buffer, size_t width)
      : buffer_(std::move(buffer)), row_bytes_(bytes_of(width)), rows_(Commits::rows_of(width)) {}
  static size_t bytes_of(size_t width) { return sizeof(CommitRow) + width * sizeof(double); }

  CommitRow* of(uint64_t step) const {
    auto* begin = static_cast<std::byte*>(buffer_->data()) + step % rows_ * row_bytes_;
    return reinterpret_cast<CommitRow*>(begin);
  }
  // As Commits::ReadRow.
  bool read(uint64_t step, std::span<double> values) const {
    CommitRow* row = of(step);
    if (row->step_and_one != step + 1) return false;
    std::copy_n(row->values(), values.size(), values.begin());
    return true;
  }

 private:
  const std::unique_ptr<Buffer> buffer_;
  const size_t row_bytes_, rows_;
};

// leat.Commit: the device writes the row of a step by itself, and the job's Commits read it if they
// are asked.
Result<std::unique_ptr<Kernel>> make_commit(const KernelSetup& setup) {
  if (!setup.resources)
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  CommitCall call;
  call.count = static_cast<int>(setup.types.inputs.size());
  for (int i = 0; i < call.count; ++i) call.dtypes[i] = setup.input(i).dtype;
  const auto width = static_cast<size_t>(call.count);
  LEAT_ASSIGN_OR_RETURN(auto buffer, setup.device->allocate_host(Commits::rows_of(width) *
                                                                 CommitRows::bytes_of(width)));
  const auto rows = std::make_shared<const CommitRows>(std::move(buffer), width);
  Commits& commits = setup.resources->commits();
  commits.reserve(width);
  commits.read_rows_by(
      [rows](uint64_t step, std::span<double> values) { return rows->read(step, values); });
  return make_cuda_kernel(setup, [call, rows](const KernelContext& context, cudaStream_t stream) {
    CommitCall now = call;
    for (int i = 0; i < call.count; ++i) now.values[i] = context.inputs[i];
    now.step = context.step->step;
    now.row = rows->of(now.step);
    return launch_commit(now, stream);
  });
}

// An optimizer, and its operands: the variable and its slots, the gradient, the learning rate, for
// Adam the step, the ids of a gradient of rows, the guard.
struct Operands {
  OptimizerKind kind;
  int slots;
  bool decoupled = false;
  int gradient() const { return 1 + slots; }
  int rate() const { return 2 + slots; }
  int step() const { return 3 + slots; }
  int ids() const { return kind == OptimizerKind::adam ? 4 + slots : 3 + slots; }
  int guard() const { return ids() + 1; }
};
constexpr Operands kSgd{OptimizerKind::sgd, 0}, kMomentum{OptimizerKind::momentum, 1},
    kAdam{OptimizerKind::adam, 2}, kAdamW{OptimizerKind::adam, 2, true};

// A gradient of rows, and an update that skips rows without a gradient, are the CPU's.
KernelSupport dense_only(const Operands& at) {
  return [at](const OpTypes& types) {
    return !types.has_input(at.ids()) && attr_int(*types.attrs, "lazy") == 0;
  };
}

Result<std::unique_ptr<Kernel>> make_apply(const KernelSetup& setup, const Operands& at,
                                           const char* op) {
  const OperandType& gradient = setup.input(at.gradient());
  const bool narrow = setup.input(0).dtype == DType::f32 && is_16bit_float(gradient.dtype) &&
                      gradient.shape == setup.input(0).shape;
  if (!narrow) LEAT_RETURN_IF_ERROR(check_fits(setup, at.gradient()));
  const Attrs& attrs = setup.attrs();
  ApplyCall call;
  call.kind = at.kind;
  call.elements = setup.input(0).shape.elements();
  call.weight_decay = attr_float(attrs, "weight_decay");
  call.momentum = attr_float(attrs, "momentum");
  call.nesterov = attr_int(attrs, "nesterov") != 0;
  call.adam = {call.weight_decay, attr_float(attrs, "beta_1"), attr_float(attrs, "beta_2"),
               attr_float(attrs, "epsilon"), at.decoupled};
  std::shared_ptr<LentComplaint> complaint;
  if (at.kind == OptimizerKind::adam) {
    LEAT_ASSIGN_OR_RETURN(
        complaint, LentComplaint::make(setup, [subject = setup.subject](const Complaint& found) {
          return invalid_argument(cat(subject, ": step: expected >= 0, received ", found.received));
        }));
    call.complaint = complaint->get();
  }
  Update<ApplyCall> update;
  update.call = [=, guarded = setup.types.has_input(at.guard())](const KernelContext& context) {
    (void)complaint;  // it lives as long as the kernel
    ApplyCall now = call;
    now.variable = context.inputs[0];
    now.first_slot = at.slots > 0 ? context.inputs[1] : nullptr;
    now.second_slot = at.slots > 1 ? context.inputs[2] : nullptr;
    now.gradient = context.inputs[at.gradient()];
    now.rate = context.inputs[at.rate()];
    if (at.kind == OptimizerKind::adam) now.step = context.in<int64_t>(at.step());
    now.guard = guarded ? context.in<float>(at.guard()) : nullptr;
    now.workspace = context.workspace;
    return now;
  };
  const DType of_variable = setup.input(0).dtype, of_gradient = gradient.dtype;
  update.launch = [=](const ApplyCall& now, cudaStream_t stream) {
    return launch_apply(now, of_variable, of_gradient, stream);
  };
  update.launch_all = [=, kind = at.kind](const CallTable<ApplyCall>& table, cudaStream_t stream) {
    return launch_apply_all(table, kind, of_variable, of_gradient, stream);
  };
  // All else, the attributes among it, is in the calls.
  update.key = cat(op, " ", of_variable, " ", of_gradient);
  update.workspace = kApplyWorkspace;
  return make_update(setup, std::move(update));
}

}  // namespace

void add_variable_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Read", kKind, make_read);
  catalogue.add_kernel("leat.Snapshot", kKind, make_read);
  // A variable gets its first value once: to join these would cost more than it saves.
  catalogue.add_kernel("leat.Initialize", kKind,
                       [](const KernelSetup& setup) { return make_assign(setup, ""); });
  catalogue.add_kernel("leat.Assign", kKind,
                       [](const KernelSetup& setup) { return make_assign(setup, "leat.Assign"); });
  catalogue.add_kernel("leat.AssignAdd", kKind, make_assign_add);
  catalogue.add_kernel("leat.Commit", kKind, make_commit);
  const auto add = [&](const char* op, const Operands& at) {
    catalogue.add_kernel(
        op, kKind, [at, op](const KernelSetup& setup) { return make_apply(setup, at, op); },
        dense_only(at));
  };
  add("leat.ApplySgd", kSgd);
  add("leat.ApplyMomentum", kMomentum);
  add("leat.ApplyAdam", kAdam);
  add("leat.ApplyAdamW", kAdamW);
}

}  // namespace leat::cuda
