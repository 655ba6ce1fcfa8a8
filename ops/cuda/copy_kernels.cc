// The factories of the ops that move elements on CUDA.
#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/cuda/conv.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/definitions/constant.h"
#include "ops/definitions/pad.h"
#include "ops/definitions/strided_copy.h"

namespace leat::cuda {
namespace {

static_assert(kMostCopyAxes >= kMaxCopyRank);

// One copy of a plan, with the bytes at which it begins in its operands.
struct BoundCopy {
  CopyCall call;
  int input, output;
  int64_t in_bytes, out_bytes;
};

BoundCopy bound(const StridedCopy& plain, size_t element) {
  const StridedCopy copy = collapsed(plain, false);
  BoundCopy out{};
  out.input = copy.input;
  out.output = copy.output;
  out.in_bytes = copy.in_offset * static_cast<int64_t>(element);
  out.out_bytes = copy.out_offset * static_cast<int64_t>(element);
  out.call.rank = copy.rank;
  out.call.elements = 1;
  for (size_t d = 0; d < static_cast<size_t>(copy.rank); ++d) {
    out.call.elements *= copy.sizes[d];
    out.call.sizes[d] = copy.sizes[d];
    out.call.in_steps[d] = copy.in_steps[d];
    out.call.out_steps[d] = copy.out_steps[d];
  }
  return out;
}

std::unique_ptr<Kernel> make_copies(const KernelSetup& setup, const CopyPlan& plan) {
  const size_t element = dtype_size(setup.input(0).dtype);
  std::vector<BoundCopy> copies;
  for (const StridedCopy& copy : plan.copies) copies.push_back(bound(copy, element));
  const int64_t filled = plan.fill_input >= 0 ? setup.output(0).shape.elements() : 0;
  const bool given = plan.fill_input >= 0 && setup.types.has_input(plan.fill_input);
  const int fill = given ? plan.fill_input : -1;
  return make_cuda_kernel(setup, [=](const KernelContext& context, cudaStream_t stream) {
    const void* value = fill >= 0 ? context.inputs[fill] : nullptr;
    if (const auto error = launch_fill(context.outputs[0], value, filled, element, stream))
      return error;
    for (const BoundCopy& copy : copies) {
      if (!context.outputs[copy.output]) continue;  // an output that is not wanted
      CopyCall call = copy.call;
      call.in = context.in<std::byte>(copy.input) + copy.in_bytes;
      call.out = context.out<std::byte>(copy.output) + copy.out_bytes;
      if (const auto error = launch_copy(call, element, stream)) return error;
    }
    return cudaSuccess;
  });
}

template <Result<CopyPlan> (*describe)(const KernelSetup&)>
Result<std::unique_ptr<Kernel>> copies_of(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const CopyPlan plan, describe(setup));
  return make_copies(setup, plan);
}

// Copies the bytes of input 0, from byte `from` on, unless output 0 has their place.
std::unique_ptr<Kernel> make_bytes(const KernelSetup& setup, size_t from = 0) {
  return make_cuda_kernel(setup, [from, bytes = setup.output(0).bytes()](
                                     const KernelContext& context, cudaStream_t stream) {
    const std::byte* source = context.in<std::byte>(0) + from;
    if (bytes == 0 || source == context.outputs[0]) return cudaSuccess;
    return cudaMemcpyAsync(context.outputs[0], source, bytes, cudaMemcpyDeviceToDevice, stream);
  });
}
Result<std::unique_ptr<Kernel>> make_view(const KernelSetup& setup) { return make_bytes(setup); }

Result<std::unique_ptr<Kernel>> make_range(const KernelSetup& setup) {
  const size_t element = dtype_size(setup.output(0).dtype);
  return make_bytes(setup, static_cast<size_t>(attr_int(setup.attrs(), "first")) * element);
}

// leat.Join: the pieces one after the other.
Result<std::unique_ptr<Kernel>> make_join(const KernelSetup& setup) {
  std::vector<size_t> sizes;
  for (const OperandType& piece : setup.types.inputs) sizes.push_back(piece.bytes());
  return make_cuda_kernel(setup, [sizes](const KernelContext& context, cudaStream_t stream) {
    std::byte* to = context.out<std::byte>(0);
    for (size_t i = 0; i < sizes.size(); to += sizes[i++]) {
      if (sizes[i] == 0) continue;
      if (const auto error =
              cudaMemcpyAsync(to, context.inputs[i], sizes[i], cudaMemcpyDeviceToDevice, stream))
        return error;
    }
    return cudaSuccess;
  });
}

// Between the plain layout of images and that with the channels last.
Result<std::unique_ptr<Kernel>> make_reorder(const KernelSetup& setup) {
  const Shape& shape = setup.output(0).shape;
  const bool last = setup.output(0).layout == Layout::channels_last;
  if (shape.rank() != 4 || last == (setup.input(0).layout == Layout::channels_last))
    return make_bytes(setup);
  return make_cuda_kernel(
      setup, [=, images = shape[0], channels = shape[1], area = shape[2] * shape[3],
              element = dtype_size(setup.output(0).dtype)](const KernelContext& context,
                                                           cudaStream_t stream) {
        return (last ? launch_channels_last : launch_channels_first)(
            context.inputs[0], context.outputs[0], images, channels, area, element, stream);
      });
}

uint64_t bits_of(const Tensor& one) {
  uint64_t bits = 0;
  std::memcpy(&bits, one.raw(), dtype_size(one.dtype()));
  return bits;
}

// The kernel keeps the value in a buffer of the device.
Result<std::unique_ptr<Kernel>> make_constant(const KernelSetup& setup) {
  const Tensor value = constant_value(setup.attrs()).value();
  LEAT_ASSIGN_OR_RETURN(auto copy, copy_of(setup, value.raw(), value.bytes()));
  return make_cuda_kernel(setup, [bytes = value.bytes(), copy = std::move(copy)](
                                     const KernelContext& context, cudaStream_t stream) {
    if (bytes == 0) return cudaSuccess;
    return cudaMemcpyAsync(context.outputs[0], copy->data(), bytes, cudaMemcpyDeviceToDevice,
                           stream);
  });
}

Result<std::unique_ptr<Kernel>> make_constant_of_shape(const KernelSetup& setup) {
  const Tensor value = fill_value(setup.attrs());
  return make_cuda_kernel(setup, [bits = bits_of(value), element = dtype_size(value.dtype()),
                                  elements = setup.output(0).shape.elements()](
                                     const KernelContext& context, cudaStream_t stream) {
    return launch_fill_bits(context.outputs[0], bits, elements, element, stream);
  });
}

// The modes edge, wrap and reflect show elements of the input by a table for each axis.
Result<std::unique_ptr<Kernel>> make_pad(const KernelSetup& setup) {
  const std::string mode = attr_string(setup.attrs(), "mode");
  if (mode == "constant") return copies_of<constant_pad_copies>(setup);
  const Shape &in = setup.input(0).shape, &out = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const PadMargins m, kernel_margins(setup, in, out, 1, 3));
  const auto steps = row_major_steps(in);
  TableCall call;
  call.elements = out.elements();
  call.rank = out.rank();
  std::vector<int64_t> tables;
  for (int d = 0; d < out.rank(); ++d) {
    const auto k = static_cast<size_t>(d);
    call.sizes[k] = out[d];
    call.begins[k] = static_cast<int64_t>(tables.size());
    for (int64_t i = 0; i < out[d]; ++i)
      tables.push_back(shown_index(mode, i - m.before[k], in[d]) * steps[k]);
  }
  LEAT_ASSIGN_OR_RETURN(auto copy, copy_of(setup, tables.data(), tables.size() * sizeof(int64_t)));
  return make_cuda_kernel(
      setup, [call, copy = std::move(copy), element = dtype_size(setup.output(0).dtype)](
                 const KernelContext& context, cudaStream_t stream) {
        TableCall now = call;
        now.in = context.inputs[0];
        now.out = context.outputs[0];
        now.tables = static_cast<const int64_t*>(copy->data());
        return launch_table_copy(now, element, stream);
      });
}

}  // namespace

void add_copy_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Transpose", kKind, copies_of<transpose_copies>);
  catalogue.add_kernel("Concat", kKind, copies_of<concat_copies>);
  catalogue.add_kernel("Split", kKind, copies_of<split_copies>);
  catalogue.add_kernel("Tile", kKind, copies_of<tile_copies>);
  catalogue.add_kernel("Slice", kKind, copies_of<slice_copies>);
  catalogue.add_kernel("leat.SliceGrad", kKind, copies_of<slice_grad_copies>);
  catalogue.add_kernel("Pad", kKind, make_pad);
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"})
    catalogue.add_kernel(op, kKind, make_view);
  catalogue.add_kernel("leat.Range", kKind, make_range);
  catalogue.add_kernel("leat.Join", kKind, make_join);
  catalogue.add_kernel("leat.Reorder", kKind, make_reorder);
  catalogue.add_kernel("Constant", kKind, make_constant);
  catalogue.add_kernel("ConstantOfShape", kKind, make_constant_of_shape);
}

}  // namespace leat::cuda
