#include "ops/definitions/window.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// An attribute of `count` values; an absent or empty one means `fallback` everywhere. Values
// outside [least, kMostWindow] are refused, so that no product of two of them overflows.
Result<std::vector<int64_t>> read_list(const Attrs& attrs, std::string_view name, size_t count,
                                       int64_t fallback, int64_t least) {
  std::vector<int64_t> values = attr_ints(attrs, name);
  if (values.empty()) values.assign(count, fallback);
  if (values.size() != count) {
    return invalid_argument(cat(name, ": expected ", count, " values, received ", values.size()));
  }
  for (int64_t value : values) {
    if (value < least || value > kMostWindow) {
      return invalid_argument(
          cat(name, ": expected values in [", least, ", ", kMostWindow, "], received ", value));
    }
  }
  return values;
}

}  // namespace

// The span of the kernel on the input, with the gaps that dilation makes.
int64_t WindowAttrs::extent(int axis) const {
  const auto i = static_cast<size_t>(axis);
  return (kernel[i] - 1) * dilations[i] + 1;
}

Result<WindowAttrs> read_window(const Attrs& attrs, std::vector<int64_t> kernel) {
  WindowAttrs window;
  const size_t rank = kernel.size();
  if (rank < 1 || rank > 3) {
    return invalid_argument(cat("expected one to three spatial axes, received ", rank));
  }
  for (int64_t size : kernel) {
    if (size < 1 || size > kMostWindow) {
      return invalid_argument(
          cat("kernel_shape: expected sizes in [1, ", kMostWindow, "], received ", size));
    }
  }
  window.kernel = std::move(kernel);
  LEAT_ASSIGN_OR_RETURN(window.strides, read_list(attrs, "strides", rank, 1, 1));
  LEAT_ASSIGN_OR_RETURN(window.dilations, read_list(attrs, "dilations", rank, 1, 1));
  // ONNX lists all pads at the beginning of the axes first, then all pads at their end.
  LEAT_ASSIGN_OR_RETURN(const auto pads, read_list(attrs, "pads", 2 * rank, 0, 0));
  window.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank));
  window.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  window.auto_pad = attr_string(attrs, "auto_pad", "NOTSET");
  // Explicit pads contradict auto_pad, so only zeros are accepted beside it.
  const std::string& mode = window.auto_pad;
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID") {
    return invalid_argument(
        cat("auto_pad: expected NOTSET, SAME_UPPER, SAME_LOWER or VALID, received '", mode, "'"));
  }
  if (mode != "NOTSET" &&
      std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; })) {
    return invalid_argument(cat("pads: expected none beside auto_pad ", mode));
  }
  window.ceil_mode = attr_int(attrs, "ceil_mode") != 0;
  return window;
}

// SAME makes ceil(input / stride) outputs; the pads are what the last window lacks. An odd element
// goes to the end with SAME_UPPER, to the beginning with SAME_LOWER.
Pads pads_of(const WindowAttrs& window, int axis, int64_t input) {
  const auto i = static_cast<size_t>(axis);
  if (window.auto_pad == "NOTSET") return {window.begin[i], window.end[i]};
  if (window.auto_pad == "VALID") return {};
  const int64_t output = (input + window.strides[i] - 1) / window.strides[i];
  const int64_t total =
      std::max<int64_t>(0, (output - 1) * window.strides[i] + window.extent(axis) - input);
  const int64_t less = total / 2, more = total - less;
  return window.auto_pad == "SAME_UPPER" ? Pads{less, more} : Pads{more, less};
}

// `room` is the number of positions that the window can move to from the first one.
Result<int64_t> output_size(const WindowAttrs& window, int axis, int64_t input) {
  const int64_t stride = window.strides[static_cast<size_t>(axis)];
  if (window.auto_pad.starts_with("SAME")) return (input + stride - 1) / stride;
  const Pads pads = pads_of(window, axis, input);
  const int64_t room = input + pads.begin + pads.end - window.extent(axis);
  if (room < 0) {
    return invalid_argument(cat("axis ", axis, ": expected a window of at most the padded size ",
                                input + pads.begin + pads.end, ", it spans ", window.extent(axis)));
  }
  if (!window.ceil_mode) return room / stride + 1;
  const int64_t size = (room + stride - 1) / stride + 1;
  // A window that would begin in the padding after the input does not count.
  return (size - 1) * stride >= input + pads.begin ? size - 1 : size;
}

// A stride of 1 with pads that make up for the window keeps the size, so the symbol stays the same.
// Any other size is in general no multiple of the symbol, and becomes a new one.
Result<Dim> output_dim(InferContext& ctx, const WindowAttrs& window, int axis, Dim input) {
  if (input.is_constant()) {
    LEAT_ASSIGN_OR_RETURN(const int64_t size, output_size(window, axis, input.factor));
    return Dim::of(size);
  }
  const auto i = static_cast<size_t>(axis);
  const bool same_pads =
      window.auto_pad.starts_with("SAME") ||
      (window.auto_pad == "NOTSET" && window.begin[i] + window.end[i] == window.extent(axis) - 1);
  if (window.strides[i] == 1 && same_pads) return input;
  return Dim::of_symbol(ctx.fresh_symbol());
}

// The axes are aligned at the end, so that kernels have three loops for any rank.
Window concrete_window(const WindowAttrs& attrs, const Shape& input, const Shape& output) {
  Window window;
  window.rank = attrs.rank();
  for (int axis = 0; axis < window.rank; ++axis) {
    const auto from = static_cast<size_t>(axis), to = static_cast<size_t>(axis + 3 - window.rank);
    window.input[to] = input[axis + 2];
    window.output[to] = output[axis + 2];
    window.kernel[to] = attrs.kernel[from];
    window.stride[to] = attrs.strides[from];
    window.dilation[to] = attrs.dilations[from];
    const Pads pads = pads_of(attrs, axis, input[axis + 2]);
    window.begin[to] = pads.begin;
    window.end[to] = pads.end;
  }
  return window;
}

// The gradient ops have no auto_pad, so the pads are resolved here, from the size of the forward
// op's input.
std::optional<Attrs> explicit_window(const WindowAttrs& window, const SymbolicShape& input) {
  // VALID needs no case of its own: read_window() has checked that its pads are zero.
  std::vector<int64_t> begin = window.begin, end = window.end;
  for (int axis = 0; axis < window.rank() && window.auto_pad.starts_with("SAME"); ++axis) {
    const auto size = constant_of(input[axis + 2]);
    if (!size) return std::nullopt;
    const Pads pads = pads_of(window, axis, *size);
    begin[static_cast<size_t>(axis)] = pads.begin;
    end[static_cast<size_t>(axis)] = pads.end;
  }
  begin.insert(begin.end(), end.begin(), end.end());
  return Attrs{{"strides", window.strides}, {"dilations", window.dilations}, {"pads", begin}};
}

std::optional<std::vector<int64_t>> spatial_sizes(const SymbolicShape& shape) {
  std::vector<int64_t> sizes;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    const auto size = constant_of(shape[axis]);
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace leat
