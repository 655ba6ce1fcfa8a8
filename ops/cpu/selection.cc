// CPU kernels of ops/definitions/selection.cc. Their inputs are known when a kernel is made, so
// each computes its outputs once and copies them in every step.
#include "ops/definitions/selection.h"

#include <cstring>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"

namespace leat {
namespace {

Result<std::unique_ptr<Kernel>> make_selection(const KernelSetup& setup, std::string_view name) {
  KnownInputs inputs;
  for (size_t i = 0; i < setup.types.inputs.size(); ++i) {
    const Tensor* known = i < setup.constants.size() ? setup.constants[i] : nullptr;
    if (setup.types.inputs[i].present && known == nullptr)
      return internal_error(cat(setup.subject, ": expected the value of input ", i,
                                " to be known when the kernel is made, it is not"));
    inputs.push_back(known);
  }
  auto outputs = selection_op(name).evaluate(inputs, setup.attrs());
  if (!outputs.ok())
    return Status(outputs.status().code(), cat(setup.subject, ": ", outputs.status().message()));
  const size_t wanted = setup.types.outputs.size();
  return make_kernel([values = std::move(*outputs), wanted](KernelContext& context) {
    for (size_t i = 0; i < values.size() && i < wanted; ++i) {
      if (context.outputs[i] && values[i].bytes() > 0)
        std::memcpy(context.outputs[i], values[i].raw(), values[i].bytes());
    }
    return Progress::done;
  });
}

}  // namespace

void add_selection_kernels(Catalogue& catalogue) {
  for (const char* name : {"NonZero", "Unique", "NonMaxSuppression", "ImageDecoder"}) {
    catalogue.add_kernel(name, "cpu",
                         [name](const KernelSetup& setup) { return make_selection(setup, name); });
  }
}

}  // namespace leat
