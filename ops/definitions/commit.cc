// leat.Commit: see Commits.
#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

double value_of(const void* data, DType dtype) {
  return dtype == DType::f64 ? *static_cast<const double*>(data) : *static_cast<const float*>(data);
}

class CommitKernel final : public Kernel {
 public:
  CommitKernel(Commits& commits, std::vector<DType> dtypes)
      : commits_(commits), dtypes_(std::move(dtypes)), row_(dtypes_.size()) {
    commits_.reserve(row_.size());
  }
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
  if (!setup.resources)
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  std::vector<DType> dtypes;
  for (const OperandType& input : setup.types.inputs) dtypes.push_back(input.dtype);
  return std::unique_ptr<Kernel>(
      std::make_unique<CommitKernel>(setup.resources->commits(), std::move(dtypes)));
}

Status infer_commit(InferContext& ctx) {
  if (ctx.inputs() > Commits::kMostValues) {
    return ctx.error(
        cat("expected at most ", Commits::kMostValues, " values, received ", ctx.inputs()));
  }
  for (int i = 0; i < ctx.inputs(); ++i) {
    const auto shape = ctx.shape(i).concrete();
    if (!shape || shape->elements() != 1)
      return ctx.error(
          cat("input ", i, ": expected one element, received ", ctx.text(ctx.shape(i))));
  }
  return {};
}

}  // namespace

void register_commit_ops(Catalogue& catalogue) {
  // Remembers what a step fetched, and that all it writes to variables follows.
  catalogue.add(Op("leat.Commit")
                    .variadic_input("fetched", "T", true)
                    .type("T", DTypeSet::of(DType::f32, DType::f64))
                    .stateful()
                    .infer(infer_commit)
                    .kernel("cpu", make_commit));
}

}  // namespace leat
