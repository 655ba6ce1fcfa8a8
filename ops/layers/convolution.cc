// leat.Conv2D and leat.Conv2DTranspose: NCHW images, kernels in ONNX's layout.
#include <algorithm>
#include <array>
#include <optional>

#include "devices/base/text.h"
#include "ops/layers/layer.h"

namespace leat {
namespace {

using Pair = std::array<int64_t, 2>;

// An attribute with one int for both directions, or one for each.
std::optional<Pair> pair_of(const Attrs& attrs, std::string_view name) {
  const std::vector<int64_t> sizes = attr_ints(attrs, name);
  if (sizes.size() != 1 && sizes.size() != 2) return std::nullopt;
  const Pair pair = {sizes.front(), sizes.back()};
  const bool good =
      std::all_of(pair.begin(), pair.end(), [](int64_t s) { return s >= 1 && s <= (1 << 16); });
  return good ? std::optional(pair) : std::nullopt;
}

struct Window {
  Pair kernel, strides, dilations;
  bool same;
  // The size of the dilated kernel.
  int64_t span(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

// REQUIRES: the layer was inferred.
Window window_of(const Attrs& attrs) {
  return {*pair_of(attrs, "kernel"), *pair_of(attrs, "strides"), *pair_of(attrs, "dilations"),
          attr_string(attrs, "padding") == "same"};
}

// The checks that both layers share: the window, the padding, and the rank of the image.
Status check_window(const InferContext& ctx) {
  for (const char* name : {"kernel", "strides", "dilations"}) {
    if (!pair_of(ctx.attrs(), name)) {
      return ctx.error(cat("attribute '", name, "': expected one or two sizes of 1 to 65536"));
    }
  }
  const std::string padding = attr_string(ctx.attrs(), "padding");
  if (padding != "same" && padding != "valid") {
    return ctx.error(cat("attribute 'padding': expected same or valid, received '", padding, "'"));
  }
  if (ctx.dtype(0) == DType::invalid || ctx.shape(0).rank() != 4) {
    return ctx.error(cat("expected an image [N,C,H,W], received ", ctx.text(ctx.shape(0))));
  }
  return check_names(ctx);
}

// The size of the output along one direction; nothing if the kernel does not fit.
std::optional<Dim> convolved(InferContext& ctx, const Window& w, size_t i) {
  const Dim in = ctx.shape(0)[static_cast<int>(i) + 2];
  if (!in.is_constant()) {
    return w.same && w.strides[i] == 1 ? in : Dim::of_symbol(ctx.fresh_symbol());
  }
  if (w.same) return Dim::of((in.factor + w.strides[i] - 1) / w.strides[i]);
  if (in.factor < w.span(i)) return std::nullopt;
  return Dim::of((in.factor - w.span(i)) / w.strides[i] + 1);
}

Status infer_convolution(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_window(ctx));
  LEAT_ASSIGN_OR_RETURN(const int64_t channels, fixed_size(ctx, 1, "channels"));
  LEAT_ASSIGN_OR_RETURN(const int64_t filters, positive(ctx, "filters"));
  LEAT_ASSIGN_OR_RETURN(const int64_t groups, positive(ctx, "groups"));
  if (channels % groups != 0 || filters % groups != 0) {
    return ctx.error(cat("attribute 'groups': expected a divisor of ", channels, " channels and ",
                         filters, " filters, received ", groups));
  }
  const Window w = window_of(ctx.attrs());
  const auto height = convolved(ctx, w, 0), width = convolved(ctx, w, 1);
  if (!height || !width) {
    return ctx.error(cat("the kernel does not fit into the image ", ctx.text(ctx.shape(0))));
  }
  ctx.set_tensor(0, ctx.dtype(0), {ctx.shape(0)[0], Dim::of(filters), *height, *width});
  return {};
}

// ONNX's pads for padding "same", with the odd pixel at the end, as in Keras. The result is empty
// if they depend on a size that is not known.
std::optional<std::vector<int64_t>> same_pads(const Window& w, const SymbolicShape& image) {
  std::vector<int64_t> pads(4);
  for (size_t i = 0; i < 2; ++i) {
    const Dim in = image[static_cast<int>(i) + 2];
    if (!in.is_constant() && w.strides[i] != 1) return std::nullopt;
    // With a stride of 1 the pads do not depend on the size, so any size will do for a symbol.
    const int64_t size = in.is_constant() ? in.factor : 1;
    const int64_t out = (size + w.strides[i] - 1) / w.strides[i];
    const int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + w.span(i) - size);
    pads[i] = total / 2;
    pads[i + 2] = total - total / 2;
  }
  return pads;
}

// Attributes that have ONNX's default are left out.
Attrs window_attrs(const Window& w, int64_t groups) {
  Attrs attrs = {{"kernel_shape", std::vector<int64_t>(w.kernel.begin(), w.kernel.end())},
                 {"strides", std::vector<int64_t>(w.strides.begin(), w.strides.end())}};
  if (w.dilations != Pair{1, 1}) {
    attrs["dilations"] = std::vector<int64_t>(w.dilations.begin(), w.dilations.end());
  }
  if (groups != 1) attrs["group"] = groups;
  return attrs;
}

ValueId bias(LayerContext& ctx, int64_t size) {
  return ctx.variable({.suffix = "bias",
                       .shape = {size},
                       .initializer = attr_string(ctx.attrs(), "bias_initializer"),
                       .fan_in = size,
                       .fan_out = size,
                       .dtype = ctx.input_type().dtype});
}

// The name of the convolution's own output, which is the layer's if no activation follows.
std::string_view inner_name(const LayerContext& ctx, std::string_view name) {
  return attr_string(ctx.attrs(), "activation") == "linear" ? "" : name;
}

// The kernel is [filters, channels / groups, height, width].
ValueId expand_convolution(LayerContext& ctx) {
  const Window w = window_of(ctx.attrs());
  const SymbolicShape& image = ctx.input_type().shape;
  const int64_t filters = attr_int(ctx.attrs(), "filters");
  const int64_t groups = attr_int(ctx.attrs(), "groups");
  const int64_t depth = image[1].factor / groups, area = w.kernel[0] * w.kernel[1];
  std::vector<ValueId> inputs = {ctx.input()};
  inputs.push_back(ctx.variable({.suffix = "kernel",
                                 .shape = {filters, depth, w.kernel[0], w.kernel[1]},
                                 .initializer = attr_string(ctx.attrs(), "kernel_initializer"),
                                 .fan_in = depth * area,
                                 .fan_out = filters * area,
                                 .dtype = ctx.input_type().dtype}));
  if (attr_int(ctx.attrs(), "use_bias") != 0) inputs.push_back(bias(ctx, filters));
  Attrs attrs = window_attrs(w, groups);
  // The pads are explicit where the sizes tell them; SAME_UPPER leaves them open until the sizes
  // are known.
  if (w.same) {
    if (const auto pads = same_pads(w, image)) {
      attrs["pads"] = *pads;
    } else {
      attrs["auto_pad"] = std::string("SAME_UPPER");
    }
  }
  return ctx.activate(
      ctx.emit("Conv", std::move(inputs), std::move(attrs), inner_name(ctx, "conv")), 1);
}

// A transposed convolution enlarges the image: "same" gives in x stride, and "valid" adds the part
// of the kernel that goes beyond it.
Dim transposed(InferContext& ctx, const Window& w, size_t i) {
  const Dim in = ctx.shape(0)[static_cast<int>(i) + 2];
  const auto grown = multiply(in, Dim::of(w.strides[i]));
  if (w.same && grown) return *grown;
  if (!in.is_constant()) return Dim::of_symbol(ctx.fresh_symbol());
  return Dim::of(in.factor * w.strides[i] + std::max<int64_t>(0, w.span(i) - w.strides[i]));
}

// The bound keeps the product of size and stride within int64.
Status infer_transpose(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_window(ctx));
  LEAT_RETURN_IF_ERROR(fixed_size(ctx, 1, "channels").status());
  LEAT_ASSIGN_OR_RETURN(const int64_t filters, positive(ctx, "filters"));
  for (int axis = 2; axis < 4; ++axis) {
    if (ctx.shape(0)[axis].factor > (int64_t{1} << 32)) return ctx.error("the image is too large");
  }
  const Window w = window_of(ctx.attrs());
  const Dim height = transposed(ctx, w, 0), width = transposed(ctx, w, 1);
  ctx.set_tensor(0, ctx.dtype(0), {ctx.shape(0)[0], Dim::of(filters), height, width});
  return {};
}

// The kernel is [channels, filters, height, width]: the first axis is that of the input.
ValueId expand_transpose(LayerContext& ctx) {
  const Window w = window_of(ctx.attrs());
  const int64_t filters = attr_int(ctx.attrs(), "filters");
  const int64_t depth = ctx.input_type().shape[1].factor, area = w.kernel[0] * w.kernel[1];
  std::vector<ValueId> inputs = {ctx.input()};
  inputs.push_back(ctx.variable({.suffix = "kernel",
                                 .shape = {depth, filters, w.kernel[0], w.kernel[1]},
                                 .initializer = attr_string(ctx.attrs(), "kernel_initializer"),
                                 .fan_in = filters * area,
                                 .fan_out = depth * area,
                                 .dtype = ctx.input_type().dtype}));
  if (attr_int(ctx.attrs(), "use_bias") != 0) inputs.push_back(bias(ctx, filters));
  // The output is strides x (in - 1) + span - pads + output_padding.
  Attrs attrs = window_attrs(w, 1);
  std::vector<int64_t> pads(4), padding(2);
  // With "same", pads cut the part of the kernel beyond the stride; a stride beyond the kernel
  // needs output_padding.
  for (size_t i = 0; i < 2; ++i) {
    const int64_t over = w.span(i) - w.strides[i];
    if (w.same && over > 0) {
      pads[i] = over / 2;
      pads[i + 2] = over - over / 2;
    }
    padding[i] = std::max<int64_t>(0, -over);
  }
  attrs["pads"] = pads;
  if (padding != std::vector<int64_t>{0, 0}) attrs["output_padding"] = padding;
  return ctx.activate(
      ctx.emit("ConvTranspose", std::move(inputs), std::move(attrs), inner_name(ctx, "conv")), 1);
}

Op convolution(std::string_view name) {
  return Op(name)
      .input("x", "T")
      .output("y", "T")
      .type("T", kFloats)
      .attr_required("filters", "int")
      .attr_required("kernel", "ints")
      .attr("strides", std::vector<int64_t>{1})
      .attr("dilations", std::vector<int64_t>{1})
      .attr("padding", std::string("same"))
      .attr("activation", std::string("linear"))
      .attr("use_bias", int64_t{1})
      .attr("kernel_initializer", std::string("glorot_uniform"))
      .attr("bias_initializer", std::string("zeros"))
      .stateful();
}

}  // namespace

std::vector<Layer> convolution_layers() {
  return {
      {convolution("leat.Conv2D").attr("groups", int64_t{1}).infer(infer_convolution),
       expand_convolution},
      {convolution("leat.Conv2DTranspose").infer(infer_transpose), expand_transpose},
  };
}

}  // namespace leat
