// The CPU kernel of leat.Elementwise, for what a plan for accelerators leaves to a CPU: by one
// thread, element by element.
#include "ops/definitions/element_program.h"

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/elements/any_float.h"

namespace leat {
namespace {

class ElementProgramKernel final : public Kernel {
 public:
  ElementProgramKernel(const KernelSetup& setup, ElementProgram program,
                       std::vector<ProgramOperand> operands)
      : program_(std::move(program)),
        operands_(std::move(operands)),
        elements_(setup.output(0).shape.elements()) {
    for (int i = 0; i < program_.inputs; ++i) dtypes_.push_back(setup.input(i).dtype);
  }

  Progress run(KernelContext& context, int, int) override {
    const auto inputs = static_cast<size_t>(program_.inputs);
    float values[kMostProgramInputs + kMostProgramSteps];
    for (int64_t i = 0; i < elements_; ++i) {
      for (size_t k = 0; k < inputs; ++k) {
        const ProgramOperand& at = operands_[k];
        values[k] =
            static_cast<float>(float_at(context.inputs[k], dtypes_[k], i / at.divisor % at.size));
      }
      for (size_t s = 0; s < program_.steps.size(); ++s) {
        const ElementStep& step = program_.steps[s];
        const float a = values[step.a], b = step.b < 0 ? 0.0F : values[step.b];
        elementwise::with_functor(step.op, [&]<typename Functor>(Functor) {
          values[inputs + s] = elementwise::rounded_to(
              step.dtype, elementwise::apply_functor<Functor>(a, b, step.params));
        });
      }
      for (size_t r = 0; r < program_.results.size(); ++r) {
        const int result = program_.results[r];
        set_float_at(context.outputs[r], program_.steps[static_cast<size_t>(result) - inputs].dtype,
                     i, static_cast<double>(values[result]));
      }
    }
    return Progress::done;
  }

 private:
  const ElementProgram program_;
  const std::vector<ProgramOperand> operands_;
  const int64_t elements_;
  std::vector<DType> dtypes_;
};

Result<std::unique_ptr<Kernel>> make_element_program(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(auto operands, program_operands(setup.types));
  LEAT_ASSIGN_OR_RETURN(auto program,
                        read_program(setup.attrs(), static_cast<int>(setup.types.inputs.size())));
  std::unique_ptr<Kernel> kernel =
      std::make_unique<ElementProgramKernel>(setup, std::move(program), std::move(operands));
  return kernel;
}

}  // namespace

void add_program_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Elementwise", "cpu", make_element_program);
}

}  // namespace leat
