// CPU kernels of ops/definitions/commit.cc.
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// A fetched scalar as a double, which holds every f32 exactly. The signature allows f32 and f64
// alone.
double value_of(const void* data, DType dtype) {
  return dtype == DType::f64 ? *static_cast<const double*>(data) : *static_cast<const float*>(data);
}

// Stores the values that a step fetched. It only stages them, because the step may still fail: the
// executor calls Commits::commit() when all writes are done.
class CommitKernel final : public Kernel {
 public:
  CommitKernel(Commits& commits, std::vector<DType> dtypes)
      : commits_(commits), dtypes_(std::move(dtypes)), row_(dtypes_.size()) {
    commits_.reserve(row_.size());
  }
  // The row was allocated when the kernel was made, since run() must not allocate.
  Progress run(KernelContext& context, int, int) override {
    for (size_t i = 0; i < row_.size(); ++i) row_[i] = value_of(context.inputs[i], dtypes_[i]);
    commits_.stage(context.step->step, row_);
    return Progress::done;
  }

 private:
  Commits& commits_;
  const std::vector<DType> dtypes_;
  std::vector<double> row_;
};

Result<std::unique_ptr<Kernel>> make_commit(const KernelSetup& setup) {
  // A program without a job (some tests) has no table in which steps could be recorded.
  if (!setup.resources)
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  std::vector<DType> dtypes;
  for (const OperandType& input : setup.types.inputs) dtypes.push_back(input.dtype);
  return std::unique_ptr<Kernel>(
      std::make_unique<CommitKernel>(setup.resources->commits(), std::move(dtypes)));
}

}  // namespace

void add_commit_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Commit", "cpu", make_commit);
}

}  // namespace leat
