#include "ops/layers/layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "devices/base/text.h"
#include "ops/graph/validate.h"

namespace leat {
namespace {

// The names that activate() and initial_value() know.
const std::vector<std::string> kActivations = {"linear", "relu",    "sigmoid",   "tanh",
                                               "gelu",   "softmax", "leaky_relu"};
const std::vector<std::string> kInitializers = {"glorot_uniform", "glorot_normal", "he_uniform",
                                                "he_normal",      "uniform",       "normal",
                                                "zeros",          "ones"};

// A layer without the attribute passes: not all of them have an activation or an initializer.
Status check_name(const InferContext& ctx, std::string_view attr,
                  const std::vector<std::string>& known) {
  if (!has_attr(ctx.attrs(), attr)) return {};
  const std::string name = attr_string(ctx.attrs(), attr);
  if (std::find(known.begin(), known.end(), name) != known.end()) return {};
  return ctx.error(cat("attribute '", attr, "': expected one of ", join(known, ", "),
                       ", received '", name, "'", did_you_mean(name, known)));
}

// Keras' scale of an initializer: half the width of a uniform one, the deviation of a normal one.
double initializer_scale(const LayerContext::Weights& w) {
  const double in = static_cast<double>(w.fan_in), out = static_cast<double>(w.fan_out);
  if (w.initializer == "glorot_uniform") return std::sqrt(6.0 / (in + out));
  if (w.initializer == "glorot_normal") return std::sqrt(2.0 / (in + out));
  if (w.initializer == "he_uniform") return std::sqrt(6.0 / in);
  if (w.initializer == "he_normal") return std::sqrt(2.0 / in);
  return 0.05;
}

}  // namespace

std::vector<Layer> all_layers() {
  std::vector<Layer> all;
  std::array parts = {convolution_layers(), dense_layers(), normalization_layers()};
  for (std::vector<Layer>& some : parts) {
    all.insert(all.end(), std::make_move_iterator(some.begin()),
               std::make_move_iterator(some.end()));
  }
  return all;
}

Status check_names(const InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_name(ctx, "activation", kActivations));
  LEAT_RETURN_IF_ERROR(check_name(ctx, "kernel_initializer", kInitializers));
  return check_name(ctx, "bias_initializer", kInitializers);
}

// The caller has checked the rank. A size of 0 would make variables without elements.
Result<int64_t> fixed_size(const InferContext& ctx, int axis, std::string_view what) {
  const auto size = constant_of(ctx.shape(0)[axis]);
  if (size && *size > 0) return *size;
  return ctx.error(cat("expected a known number of ", what, " (axis ", axis, "), received ",
                       ctx.text(ctx.shape(0))));
}

Result<int64_t> positive(const InferContext& ctx, std::string_view name, int64_t least) {
  constexpr int64_t kMost = 1 << 24;
  const int64_t value = attr_int(ctx.attrs(), name);
  if (value >= least && value <= kMost) return value;
  return ctx.error(
      cat("attribute '", name, "': expected ", least, " to ", kMost, ", received ", value));
}

LayerContext::LayerContext(GraphCopy& copy, NodeId layer, std::string name, ValueId& training)
    : copy_(copy), layer_(layer), name_(std::move(name)), training_(training) {
  const Node& node = copy.from().node(layer);
  attrs_ = with_defaults(*node.op, node.attrs);
}

const ValueType& LayerContext::input_type() const {
  return copy_.from().value(copy_.from().node(layer_).inputs[0]).type;
}

NodeId LayerContext::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  if (!status_.ok()) return kNone;
  // An op of the layer's expansion is of ONNX unless its name begins with the domain.
  const bool own = op.starts_with("leat.");
  const Result<NodeId> id = copy_.to().add_node(own ? "leat" : "", own ? op.substr(5) : op,
                                                std::move(inputs), std::move(attrs), 0);
  if (!id.ok()) {
    status_ = id.status();
    return kNone;
  }
  const Node& layer = copy_.from().node(layer_);
  Node& node = copy_.to().node(*id);
  node.device = layer.device;
  // A layer with several random nodes gives them sources beyond every index of the text form.
  if (node.op->random) node.source = layer.source + (randoms_++ << 20);
  // The nodes of the init program do not wait for the step's nodes.
  if (!initial_) node.after = copy_.nodes_at(layer.after);
  return *id;
}

ValueId LayerContext::emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                           std::string_view suffix) {
  const NodeId id = add(op, std::move(inputs), std::move(attrs));
  if (id == kNone) return kNone;
  const ValueId value = copy_.to().ensure_output(id, 0);
  if (!suffix.empty()) copy_.to().set_value_name(value, cat(name_, "/", suffix));
  return value;
}

ValueId LayerContext::emit_constant(Tensor value, std::string_view suffix) {
  return emit("Constant", {}, {{"value", std::move(value)}}, suffix);
}

// The value before the first step: a constant, or random numbers keyed by the layer's source.
ValueId LayerContext::initial_value(const Weights& w) {
  const std::string name = cat(w.suffix, "/initial");
  if (w.initializer == "zeros" || w.initializer == "ones") {
    const Shape rank{static_cast<int64_t>(w.shape.size())};
    const ValueId shape =
        emit_constant(Tensor::of<int64_t>(rank, w.shape), cat(w.suffix, "/shape"));
    Tensor value(w.dtype, Shape{1});
    value.set(0, w.initializer == "ones" ? 1 : 0);
    return emit("ConstantOfShape", {shape}, {{"value", value}}, name);
  }
  const double scale = initializer_scale(w);
  Attrs attrs = {{"shape", w.shape}, {"dtype", int64_t{dtype_onnx_code(w.dtype)}}};
  if (w.initializer.ends_with("uniform")) {
    attrs["low"] = -scale;
    attrs["high"] = scale;
    return emit("RandomUniform", {}, std::move(attrs), name);
  }
  attrs["mean"] = 0.0;
  attrs["scale"] = scale;
  return emit("RandomNormal", {}, std::move(attrs), name);
}

ValueId LayerContext::variable(const Weights& w) {
  const ValueId resource = emit("leat.Variable", {},
                                {{"name", cat(name_, "/", w.suffix)},
                                 {"shape", w.shape},
                                 {"dtype", std::string(dtype_name(w.dtype))},
                                 {"trainable", int64_t{w.trainable}}},
                                cat(w.suffix, "/variable"));
  initialize(resource, w);
  resources_[std::string(w.suffix)] = resource;
  return emit("leat.Read", {resource}, {}, w.suffix);
}

// leat.Initialize and all nodes of the value belong to the init program.
void LayerContext::initialize(ValueId resource, const Weights& w) {
  initial_ = true;
  add("leat.Initialize", {resource, initial_value(w)}, {});
  initial_ = false;
}

ValueId LayerContext::training() {
  if (training_ != kNone) return training_;
  initial_ = true;  // layers share it, so it must not wait for one of them
  training_ = emit_constant(Tensor::scalar<bool>(true));
  initial_ = false;
  if (training_ == kNone) return kNone;
  // The flag has the name of no layer and no device, because it belongs to all of them.
  copy_.to().set_value_name(training_, "training");
  copy_.to().node(copy_.to().value(training_).producer).device.clear();
  return training_;
}

ValueId LayerContext::extra_output(ValueId value, int index, std::string_view suffix) {
  if (value == kNone) return kNone;
  Graph& graph = copy_.to();
  const ValueId extra = graph.ensure_output(graph.value(value).producer, index);
  graph.set_value_name(extra, cat(name_, "/", suffix));
  return extra;
}

// A suffix that names no variable of this layer is ignored.
void LayerContext::assign(std::string_view suffix, ValueId value) {
  const auto resource = resources_.find(suffix);
  if (resource != resources_.end()) add("leat.Assign", {resource->second, value}, {});
}

ValueId LayerContext::activate(ValueId x, int64_t channel_axis) {
  const std::string name = attr_string(attrs_, "activation", "linear");
  if (name == "relu") return emit("Relu", {x});
  if (name == "sigmoid") return emit("Sigmoid", {x});
  if (name == "tanh") return emit("Tanh", {x});
  if (name == "gelu") return emit("Gelu", {x});
  if (name == "softmax") return emit("Softmax", {x}, {{"axis", channel_axis}});
  if (name == "leaky_relu") return emit("LeakyRelu", {x}, {{"alpha", 0.2}});
  return x;
}

}  // namespace leat
