// The factories of Gather and its kin on CUDA.
#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/index_places.h"
#include "ops/cuda/row_sum.h"
#include "ops/cuda/sorting.h"
#include "ops/definitions/row_sum.h"

namespace leat::cuda {
namespace {

Result<std::unique_ptr<Kernel>> make_gather(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const Gathering made, gathering(setup, setup.input(0).shape));
  return make_cuda_kernel(setup, [made, element = dtype_size(setup.output(0).dtype)](
                                     const KernelContext& context, cudaStream_t stream) {
    GatherCall now = made.call;
    now.in = context.inputs[0];
    now.index = context.inputs[1];
    now.out = context.outputs[0];
    return launch_gather(now, element, stream);
  });
}

// (dy, indices, shape)
Result<std::unique_ptr<Kernel>> make_gather_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const Gathering made, gathering(setup, setup.output(0).shape));
  return make_cuda_kernel(
      setup,
      [made, dtype = setup.output(0).dtype](const KernelContext& context, cudaStream_t stream) {
        GatherCall now = made.call;
        now.in = context.inputs[0];
        now.index = context.inputs[1];
        now.out = context.outputs[0];
        now.workspace = context.workspace;
        return launch_gather_grad(now, dtype, stream);
      },
      gather_workspace(made.call.indices));
}

Result<std::unique_ptr<Kernel>> make_gather_elements(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ElementPlaces places, element_places(setup, setup.input(0).shape));
  return make_cuda_kernel(setup, [call = places.call, complaint = places.complaint,
                                  element = dtype_size(setup.output(0).dtype)](
                                     const KernelContext& context, cudaStream_t stream) {
    (void)complaint;  // it lives as long as the kernel
    GatherElementsCall now = call;
    now.gather.in = context.inputs[0];
    now.gather.index = context.inputs[1];
    now.gather.out = context.outputs[0];
    return launch_gather_elements(now, element, stream);
  });
}

// Another diagonal is a value of the graph, which a launch cannot know: the CPU computes that.
Result<std::unique_ptr<Kernel>> make_trilu(const KernelSetup& setup) {
  const Shape& shape = setup.input(0).shape;
  const int rank = shape.rank();
  TriluCall call;
  call.matrices = shape.elements(0, rank - 2);
  call.rows = shape[rank - 2];
  call.columns = shape[rank - 1];
  call.upper = attr_int(setup.attrs(), "upper", 1) != 0;
  return make_cuda_kernel(setup, [call, element = dtype_size(setup.output(0).dtype)](
                                     const KernelContext& context, cudaStream_t stream) {
    TriluCall now = call;
    now.in = context.inputs[0];
    now.out = context.outputs[0];
    return launch_trilu(now, element, stream);
  });
}
bool on_main_diagonal(const OpTypes& types) { return !types.has_input(1); }

// (values, ids)
Result<std::unique_ptr<Kernel>> make_sum_rows(const KernelSetup& setup) {
  const Shape& out = setup.output(0).shape;
  RowSumCall call;
  GatherCall& places = call.places;
  places.size = out[0];
  places.inner = out.elements(1, out.rank());
  places.wide = setup.input(1).dtype == DType::i64;
  const auto lines = row_lines(setup.input(0), setup.input(1), setup.attrs(), places.inner);
  if (!lines.ok()) return invalid_argument(cat(setup.subject, ": ", lines.status().message()));
  places.indices = lines->ids;
  call.shards = lines->shards;
  call.parts = static_cast<int64_t>(lines->part_ends.size());
  LEAT_ASSIGN_OR_RETURN(const auto part_ends, copy_of(setup, lines->part_ends.data(),
                                                      lines->part_ends.size() * sizeof(int64_t)));
  call.part_ends = static_cast<const int64_t*>(part_ends->data());
  LEAT_ASSIGN_OR_RETURN(
      const auto complaint,
      LentComplaint::make(setup, [subject = setup.subject,
                                  rows = places.size](const Complaint& found) {
        return invalid_argument(cat(subject, ": expected an id in [", -rows, ", ", rows - 1,
                                    "], received ", found.received, " as id ", found.place - 1));
      }));
  places.complaint = complaint->get();
  return make_cuda_kernel(
      setup,
      [call, part_ends, complaint, dtype = setup.output(0).dtype](const KernelContext& context,
                                                                  cudaStream_t stream) {
        RowSumCall now = call;
        now.places.in = context.inputs[0];
        now.places.index = context.inputs[1];
        now.places.out = context.outputs[0];
        now.places.workspace = context.workspace;
        return launch_row_sum(now, dtype, stream);
      },
      sorting_bytes(places.indices));
}

}  // namespace

void add_gather_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Gather", kKind, make_gather);
  catalogue.add_kernel("leat.ReadRows", kKind, make_gather);
  catalogue.add_kernel("leat.GatherGrad", kKind, make_gather_grad);
  catalogue.add_kernel("leat.SumRows", kKind, make_sum_rows);
  catalogue.add_kernel("GatherElements", kKind, make_gather_elements);
  catalogue.add_kernel("Trilu", kKind, make_trilu, on_main_diagonal);
}

}  // namespace leat::cuda
