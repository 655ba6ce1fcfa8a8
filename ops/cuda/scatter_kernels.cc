// The factories of Scatter, and of the gradients of GatherElements and GatherND, on CUDA.
#include <string>

#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/index_places.h"
#include "ops/cuda/scatter.h"

namespace leat::cuda {
namespace {

ScatterKind kind_of(const Attrs& attrs) {
  const std::string name = attr_string(attrs, "reduction", "none");
  return name == "add"   ? ScatterKind::add
         : name == "mul" ? ScatterKind::mul
         : name == "min" ? ScatterKind::min
         : name == "max" ? ScatterKind::max
                         : ScatterKind::none;
}

// Of (data, indices, updates); or, `is_grad`, of (dy, indices, shape), where dy is added to zeros.
template <bool is_grad>
ScatterCall scatter_call(const KernelSetup& setup, int64_t updates, int64_t line) {
  ScatterCall call;
  call.kind = is_grad ? ScatterKind::add : kind_of(setup.attrs());
  call.updates = updates;
  call.line = line;
  call.elements = setup.output(0).shape.elements();
  return call;
}
template <bool is_grad>
ScatterCall bound(const ScatterCall& call, const KernelContext& context) {
  ScatterCall now = call;
  now.data = is_grad ? nullptr : context.inputs[0];
  now.update = context.inputs[is_grad ? 0 : 2];
  now.y = context.outputs[0];
  now.workspace = context.workspace;
  return now;
}

template <bool is_grad>
Result<std::unique_ptr<Kernel>> make_scatter_elements(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ElementPlaces places, element_places(setup, setup.output(0).shape));
  const int64_t updates = places.call.gather.indices;
  return make_cuda_kernel(
      setup,
      [call = scatter_call<is_grad>(setup, updates, 1), places, dtype = setup.output(0).dtype](
          const KernelContext& context, cudaStream_t stream) {
        GatherElementsCall indices = places.call;
        indices.gather.index = context.inputs[1];
        return launch_scatter_elements(bound<is_grad>(call, context), indices, dtype, stream);
      },
      sorting_bytes(updates));
}

template <bool is_grad>
Result<std::unique_ptr<Kernel>> make_scatter_nd(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const LinePlaces places, line_places(setup, setup.output(0).shape));
  const int64_t updates = places.call.tuples;
  return make_cuda_kernel(
      setup,
      [call = scatter_call<is_grad>(setup, updates, places.call.line), places,
       dtype = setup.output(0).dtype](const KernelContext& context, cudaStream_t stream) {
        GatherNdCall indices = places.call;
        indices.indices = context.in<int64_t>(1);
        return launch_scatter_nd(bound<is_grad>(call, context), indices, dtype, stream);
      },
      sorting_bytes(updates));
}

}  // namespace

void add_scatter_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("ScatterElements", kKind, make_scatter_elements<false>);
  catalogue.add_kernel("leat.GatherElementsGrad", kKind, make_scatter_elements<true>);
  catalogue.add_kernel("ScatterND", kKind, make_scatter_nd<false>);
  catalogue.add_kernel("leat.GatherNDGrad", kKind, make_scatter_nd<true>);
}

}  // namespace leat::cuda
