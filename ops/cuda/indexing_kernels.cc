// The factories of OneHot, CumSum, CumProd, TopK, GatherND, TensorScatter and the gradients of
// CumProd, TensorScatter and Pad on CUDA.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/index_places.h"
#include "ops/cuda/indexing.h"
#include "ops/definitions/cache_update.h"
#include "ops/definitions/pad.h"
#include "ops/definitions/strided_copy.h"
#include "ops/graph/limits.h"

namespace leat::cuda {
namespace {

static_assert(kMostIndexAxes >= kMaxRank);

Result<std::unique_ptr<Kernel>> make_one_hot(const KernelSetup& setup) {
  const Shape &indices = setup.input(0).shape, &y = setup.output(0).shape;
  const int64_t given = attr_int(setup.attrs(), "axis", -1);
  const auto axis = static_cast<int>(given < 0 ? given + indices.rank() + 1 : given);
  OneHotCall call;
  call.outer = indices.elements(0, axis);
  call.depth = y[axis];
  call.inner = indices.elements(axis, indices.rank());
  call.index_dtype = setup.input(0).dtype;
  return make_cuda_kernel(setup, [call, element = dtype_size(setup.output(0).dtype)](
                                     const KernelContext& context, cudaStream_t stream) {
    OneHotCall now = call;
    now.index = context.inputs[0];
    now.values = context.inputs[2];
    now.y = context.outputs[0];
    return launch_one_hot(now, element, stream);
  });
}

// A call for the node, with a complaint of its own, which lives as long as the kernel.
struct Cumulating {
  CumSumCall call;
  std::shared_ptr<LentComplaint> complaint;
};
Result<Cumulating> cumulating(const KernelSetup& setup) {
  const Shape& shape = setup.output(0).shape;
  CumSumCall call;
  call.rank = shape.rank();
  for (int d = 0; d < call.rank; ++d) call.sizes[d] = shape[d];
  call.elements = shape.elements();
  call.wide_axis = setup.input(1).dtype == DType::i64;
  call.exclusive = attr_int(setup.attrs(), "exclusive") != 0;
  call.reverse = attr_int(setup.attrs(), "reverse") != 0;
  LEAT_ASSIGN_OR_RETURN(const auto complaint,
                        LentComplaint::make(setup, [subject = setup.subject,
                                                    rank = call.rank](const Complaint& found) {
                          return invalid_argument(cat(subject, ": axis: expected in [", -rank, ", ",
                                                      rank - 1, "], received ", found.received));
                        }));
  call.complaint = complaint->get();
  return Cumulating{call, complaint};
}

CumSumCall with_operands(const Cumulating& node, const KernelContext& context) {
  CumSumCall now = node.call;
  now.x = context.inputs[0];
  now.axis = context.inputs[1];
  now.y = context.outputs[0];
  return now;
}

template <cudaError_t (*launch)(const CumSumCall&, DType, cudaStream_t)>
Result<std::unique_ptr<Kernel>> make_cumulative(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const Cumulating node, cumulating(setup));
  return make_cuda_kernel(setup, [node, dtype = setup.output(0).dtype](const KernelContext& context,
                                                                       cudaStream_t stream) {
    return launch(with_operands(node, context), dtype, stream);
  });
}

Result<std::unique_ptr<Kernel>> make_cum_prod_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const Cumulating node, cumulating(setup));
  const DType dtype = setup.output(0).dtype;
  // In 16 bits, the sums would be rounded on their way.
  const bool narrow = is_16bit_float(dtype);
  const size_t workspace =
      narrow ? static_cast<size_t>(node.call.elements) * sizeof(float) : size_t{0};
  return make_cuda_kernel(
      setup,
      [=](const KernelContext& context, cudaStream_t stream) {
        void* const sums = narrow ? context.workspace : context.outputs[0];
        return launch_cum_prod_grad(with_operands(node, context), context.inputs[2], sums, dtype,
                                    stream);
      },
      workspace);
}

// TensorScatter, or its gradient, whose inputs are that of the output, anything of the update's
// shape, and the indices.
template <bool is_gradient>
Result<std::unique_ptr<Kernel>> make_cache_update(const KernelSetup& setup) {
  const Shape& of_update = is_gradient ? setup.output(1).shape : setup.input(1).shape;
  LEAT_ASSIGN_OR_RETURN(const CacheUpdate update,
                        CacheUpdate::of(setup, setup.input(0).shape, of_update));
  LEAT_ASSIGN_OR_RETURN(
      const auto complaint,
      LentComplaint::make(setup, [subject = setup.subject, update](const Complaint& found) {
        return update.refused(subject, found.received);
      }));
  CacheCall call;
  call.sequences = update.sequences;
  call.in_batch = update.in_batch;
  call.size = update.size;
  call.news = update.news;
  call.line = update.line;
  call.circular = update.circular;
  call.complaint = complaint->get();
  return make_cuda_kernel(setup, [=, element = dtype_size(setup.output(0).dtype)](
                                     const KernelContext& context, cudaStream_t stream) {
    (void)complaint;  // it lives as long as the kernel
    CacheCall now = call;
    now.cache = context.inputs[0];
    now.indices = update.indexed ? context.in<int64_t>(2) : nullptr;
    now.y = context.outputs[0];
    if (is_gradient) {
      now.update_grad = context.outputs[1];
      return launch_cache_update_grad(now, element, stream);
    }
    now.update = context.inputs[1];
    return launch_cache_update(now, element, stream);
  });
}

Result<std::unique_ptr<Kernel>> make_top_k(const KernelSetup& setup) {
  const Shape& x = setup.input(0).shape;
  const bool has_values = setup.types.has_output(0), has_places = setup.types.has_output(1);
  const Shape& y = setup.output(has_values ? 0 : 1).shape;
  const int64_t given = attr_int(setup.attrs(), "axis", -1);
  const auto axis = static_cast<int>(given < 0 ? given + x.rank() : given);
  TopKCall call;
  call.outer = x.elements(0, axis);
  call.size = x[axis];
  call.inner = x.elements(axis + 1, x.rank());
  call.k = y[axis];
  call.largest = attr_int(setup.attrs(), "largest", 1) != 0;
  return make_cuda_kernel(
      setup, [=, dtype = setup.input(0).dtype](const KernelContext& context, cudaStream_t stream) {
        TopKCall now = call;
        now.x = context.inputs[0];
        now.values = has_values ? context.outputs[0] : nullptr;
        now.places = has_places ? context.out<int64_t>(1) : nullptr;
        return launch_top_k(now, dtype, stream);
      });
}

Result<std::unique_ptr<Kernel>> make_gather_nd(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const LinePlaces places, line_places(setup, setup.input(0).shape));
  return make_cuda_kernel(setup, [call = places.call, complaint = places.complaint,
                                  element = dtype_size(setup.output(0).dtype)](
                                     const KernelContext& context, cudaStream_t stream) {
    (void)complaint;  // it lives as long as the kernel
    GatherNdCall now = call;
    now.x = context.inputs[0];
    now.indices = context.in<int64_t>(1);
    now.y = context.outputs[0];
    return launch_gather_nd(now, element, stream);
  });
}

// (dy, shape, pads, axes)
Result<std::unique_ptr<Kernel>> make_pad_grad(const KernelSetup& setup) {
  const Shape &outer = setup.input(0).shape, &inner = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const PadMargins m, kernel_margins(setup, inner, outer, 2, 3));
  const std::string mode = attr_string(setup.attrs(), "mode");
  const auto steps = row_major_steps(outer);
  PadGradCall call;
  call.rank = inner.rank();
  call.elements = inner.elements();
  std::vector<int64_t> starts, offsets;
  for (int d = 0; d < call.rank; ++d) {
    const auto k = static_cast<size_t>(d);
    call.sizes[d] = inner[d];
    call.begins[d] = static_cast<int64_t>(starts.size());
    std::vector<std::vector<int64_t>> shown_by(static_cast<size_t>(inner[d]));
    for (int64_t o = 0; o < outer[d]; ++o) {
      const int64_t shown = shown_index(mode, o - m.before[k], inner[d]);
      shown_by[static_cast<size_t>(shown)].push_back(o * steps[k]);
    }
    starts.push_back(static_cast<int64_t>(offsets.size()));
    for (const auto& places : shown_by) {
      offsets.insert(offsets.end(), places.begin(), places.end());
      starts.push_back(static_cast<int64_t>(offsets.size()));
    }
  }
  LEAT_ASSIGN_OR_RETURN(const auto starts_there,
                        copy_of(setup, starts.data(), starts.size() * sizeof(int64_t)));
  LEAT_ASSIGN_OR_RETURN(const auto offsets_there,
                        copy_of(setup, offsets.data(), offsets.size() * sizeof(int64_t)));
  return make_cuda_kernel(
      setup, [=, dtype = setup.output(0).dtype](const KernelContext& context, cudaStream_t stream) {
        PadGradCall now = call;
        now.starts = static_cast<const int64_t*>(starts_there->data());
        now.offsets = static_cast<const int64_t*>(offsets_there->data());
        now.dy = context.inputs[0];
        now.dx = context.outputs[0];
        return launch_pad_grad(now, dtype, stream);
      });
}

}  // namespace

void add_indexing_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("OneHot", kKind, make_one_hot);
  catalogue.add_kernel("CumSum", kKind, make_cumulative<launch_cum_sum>);
  catalogue.add_kernel("CumProd", kKind, make_cumulative<launch_cum_prod>);
  catalogue.add_kernel("leat.CumProdGrad", kKind, make_cum_prod_grad);
  catalogue.add_kernel("TensorScatter", kKind, make_cache_update<false>);
  catalogue.add_kernel("leat.TensorScatterGrad", kKind, make_cache_update<true>);
  catalogue.add_kernel("TopK", kKind, make_top_k);
  catalogue.add_kernel("GatherND", kKind, make_gather_nd);
  catalogue.add_kernel("leat.PadGrad", kKind, make_pad_grad);
}

}  // namespace leat::cuda
