#include "ops/onnx/import.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "onnx.pb.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/onnx/inline_functions.h"
#include "ops/onnx/left_out.h"
#include "ops/onnx/parameters.h"
#include "ops/onnx/regions.h"
#include "ops/onnx/sequences.h"
#include "ops/onnx/tensorflow_biases.h"
#include "ops/onnx/tensors.h"
#include "ops/onnx/torch_calls.h"
#include "ops/onnx/upgrade.h"
#include "ops/text/composites.h"
#include "ops/text/draft.h"
#include "ops/text/lexer.h"
#include "ops/text/refused_ops.h"

namespace leat {
namespace {

using namespace onnx_wire;

// The double with the same shortest decimal: 0.9f is 0.9.
double widen(float value) {
  const std::string text = shortest(value);
  double wide = value;  // the result for inf and nan
  std::from_chars(text.data(), text.data() + text.size(), wide);
  return wide;
}

// The key in a node's metadata of the constraint on its device.
constexpr std::string_view kDeviceProperty = "leat.device";
// ONNX's code of strings as elements.
constexpr int kStrings = 8;
// The key of a Loop's attribute `bound`, which ONNX does not have.
constexpr std::string_view kBoundProperty = "leat.bound";

// PyTorch's exporter writes the signature as a text into the graph's metadata, and so does ours.
OnnxOrigin origin_of(const ModelProto& model) {
  constexpr std::string_view kSignature = "pkg.torch.export.ExportedProgram.graph_signature";
  OnnxOrigin origin{model.producer_name(), {}, {}, {}, {}};
  for (const auto& property : model.graph().metadata_props()) {
    if (property.key() != kSignature && property.key() != kSignatureProperty) continue;
    origin.members = read_signature(property.value());
    origin.names = read_torch_names(property.value());
  }
  return origin;
}

// Protobuf counts bytes in an int.
Status parse_model(std::span<const std::byte> bytes, std::string_view name, ModelProto& model) {
  const bool fits = bytes.size() <= static_cast<size_t>(std::numeric_limits<int>::max());
  if (fits && model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return {};
  return invalid_argument(cat(name, ": expected an ONNX model (a protobuf of at most 2 GiB), the ",
                              bytes.size(), " bytes are none"));
}

// Converts one model to a draft.
class Importer {
 public:
  Importer(std::string_view file, const Catalogue& catalogue, const OnnxOptions& options,
           OnnxExternal external)
      : file_(file), catalogue_(catalogue), options_(options), external_(std::move(external)) {
    places_.push_back(cat(file_, ": the graph"));
  }

  Result<OnnxModel> run(ModelProto& model) {
    LEAT_RETURN_IF_ERROR(read_opsets(model));
    if (!model.has_graph()) return error(0, "expected a graph in the model, there is none");
    const Status inlined = inline_functions(model);
    if (!inlined.ok()) return error(0, inlined.message());
    LEAT_ASSIGN_OR_RETURN(DraftGraph draft, graph(model.graph(), 0));
    // Missing ops are reported before any other use of the draft, which lacks their nodes.
    std::vector<std::string> notes;
    LEAT_RETURN_IF_ERROR(leave_out_unused(draft, notes));
    LEAT_RETURN_IF_ERROR(fix_inputs(draft, options_.fixed, file_));
    const Locate locate = [this](size_t offset) { return places_[offset]; };
    LEAT_RETURN_IF_ERROR(fold_sequences(draft, locate));
    if (options_.trainable) {
      hoist_region_constants(draft);
      const bool tensorflow = !options_.every_float && model.producer_name() == "tf2onnx";
      if (tensorflow) {
        const Status separated = separate_biases(draft, constant_bytes_);
        if (!separated.ok()) return error(0, separated.message());
        pad_biases(draft);
      }
      OnnxOrigin origin = options_.every_float ? OnnxOrigin() : origin_of(model);
      if (!options_.every_float) {
        origin.calls = std::move(calls_);
        origin.ranks = declared_ranks(model.graph());
      }
      OnnxParameters parameters(std::move(origin), draft);
      options_.every_float ? parameters.take_all() : parameters.separate();
      if (!options_.every_float && model.producer_name() == "pytorch") divide_by_less(draft);
      for (const std::string& note : parameters.notes()) notes.push_back(cat(file_, ": ", note));
      if (tensorflow) {
        notes.push_back(
            cat(file_,
                ": tf2onnx leaves out biases that are all 0 and factors that are all 1, "
                "and this model trains without them: export it with other values, as a "
                "training leaves them"));
      }
      make_variables(draft, parameters);
    }
    LEAT_ASSIGN_OR_RETURN(Graph graph, assemble(draft, catalogue_, locate));
    return OnnxModel{std::move(graph), std::move(notes), opset_};
  }

 private:
  // The running variance of ONNX divides by n; PyTorch's, which the file's module has, by n - 1.
  static void divide_by_less(DraftGraph& graph) {
    for (DraftNode& node : graph.nodes) {
      if (node.domain.empty() && node.op == "BatchNormalization")
        node.attrs.insert_or_assign(std::string(kUnbiasedAttr), Attr(int64_t{1}));
    }
  }

  Status error(size_t place, std::string_view message) const {
    return invalid_argument(cat(places_[place], ": ", message));
  }

  // A file that names no opset is of version 1.
  Status read_opsets(const ModelProto& model) {
    for (const auto& opset : model.opset_import()) {
      if (opset.domain().empty() || opset.domain() == "ai.onnx") opset_ = opset.version();
      if (opset.domain() == "leat" && opset.version() != 1) {
        return error(0, cat("expected version 1 of the opset leat, received ", opset.version()));
      }
    }
    if (opset_ >= 1 && opset_ <= kNewestOpset) return {};
    return error(0,
                 cat("expected an opset of ONNX from 1 to ", kNewestOpset, ", received ", opset_));
  }

  Result<std::string> name(const std::string& name, size_t place) const {
    if (name.size() <= limits::kNameLength) return name;
    return error(place, cat("expected names of at most ", limits::kNameLength, " bytes, received ",
                            name.size()));
  }

  Result<DraftGraph> graph(const GraphProto& in, int nesting) {
    if (nesting > limits::kNesting) {
      return error(0, cat("expected at most ", limits::kNesting, " nested graphs"));
    }
    DraftGraph out;
    LEAT_ASSIGN_OR_RETURN(out.name, name(in.name(), 0));
    if (out.name.empty()) out.name = "graph";
    std::set<std::string> given;  // an initialized input is not an input
    // All sizes are counted before the first tensor is read, so that a model beyond the limit costs
    // no memory.
    for (const TensorProto& tensor : in.initializer()) LEAT_RETURN_IF_ERROR(count(tensor, 0));
    for (const TensorProto& tensor : in.initializer()) {
      LEAT_ASSIGN_OR_RETURN(const std::string n, name(tensor.name(), 0));
      given.insert(n);
      Result<Tensor> value = tensor_of(tensor, external_);
      if (!value.ok()) {
        const Status failed(value.status().code(), cat(file_, ": ", value.status().message()));
        if (tensor.data_type() != kStrings || nesting > 0) return failed;
        if (strings_.ok()) strings_ = failed;
        missing_.insert(n);
        continue;
      }
      DraftConstant& constant = out.constants.emplace_back();
      constant.name.name = n;
      constant.value = std::move(value).value();
    }
    for (const ValueInfoProto& input : in.input()) {
      if (given.contains(input.name())) continue;
      LEAT_ASSIGN_OR_RETURN(DraftValue value, this->value(input, nesting));
      out.inputs.push_back(std::move(value));
    }
    // Outputs of a region have no declared type: only those of the model are compared.
    for (const ValueInfoProto& output : in.output()) {
      LEAT_ASSIGN_OR_RETURN(const std::string n, name(output.name(), 0));
      DraftValue& value = out.outputs.emplace_back(DraftValue{{n, 0}, std::nullopt});
      if (nesting > 0) continue;
      LEAT_ASSIGN_OR_RETURN(value.type, declared_type(output));
    }
    LEAT_RETURN_IF_ERROR(nodes(in, nesting, out));
    return out;
  }

  // Counts a tensor's bytes before they are read: all tensors together may be at most as large as a
  // graph's constants.
  Status count(const TensorProto& tensor, size_t place) {
    constant_bytes_ += claimed_bytes(tensor);
    if (constant_bytes_ <= limits::kConstantBytes) return {};
    return error(
        place, cat("tensor '", tensor.name().substr(0, limits::kNameLength), "': expected at most ",
                   human_bytes(limits::kConstantBytes), " of constants in all, with it there are ",
                   human_bytes(constant_bytes_)));
  }

  // A region's input may have no type, or an incomplete one: its nodes are inferred again.
  Result<DraftValue> value(const ValueInfoProto& in, int nesting) const {
    DraftValue out;
    LEAT_ASSIGN_OR_RETURN(out.name.name, name(in.name(), 0));
    const auto& tensor = in.type().tensor_type();
    const bool complete =
        dtype_from_onnx_code(tensor.elem_type()) != DType::invalid && tensor.has_shape();
    if (!in.has_type() || (nesting > 0 && !complete)) return out;
    out.type = DraftType();
    out.type->dtype = dtype_from_onnx_code(tensor.elem_type());
    if (out.type->dtype == DType::invalid || !tensor.has_shape()) {
      return error(
          0, cat("input '", in.name(), "': expected a tensor of numbers with a shape, received ",
                 tensor.has_shape() ? cat("element type ", tensor.elem_type()) : "no shape"));
    }
    LEAT_ASSIGN_OR_RETURN(out.type->dims, dims(tensor.shape()));
    return out;
  }

  Result<std::vector<DraftDim>> dims(const TensorShapeProto& shape) const {
    std::vector<DraftDim> out;
    for (const auto& dim : shape.dim()) {
      DraftDim size;
      // A product such as "2*N" is no name: the size stays unknown.
      if (dim.has_dim_value()) {
        size.size = dim.dim_value();
      } else if (dim.dim_param().find('*') == std::string::npos) {
        LEAT_ASSIGN_OR_RETURN(size.symbol, name(dim.dim_param(), 0));
      }
      out.push_back(std::move(size));
    }
    return out;
  }

  // The type that the model declares for an output, to check against the inferred one; none if the
  // shape is left open. Some exporters write -1 for an unknown size.
  Result<std::optional<DraftType>> declared_type(const ValueInfoProto& output) const {
    const auto& tensor = output.type().tensor_type();
    const DType dtype = dtype_from_onnx_code(tensor.elem_type());
    if (dtype == DType::invalid || !tensor.has_shape()) return std::optional<DraftType>();
    DraftType type;
    type.dtype = dtype;
    LEAT_ASSIGN_OR_RETURN(type.dims, dims(tensor.shape()));
    for (DraftDim& dim : type.dims) {
      if (dim.size && *dim.size < 0) dim.size.reset();
    }
    return std::optional(std::move(type));
  }

  // The ranks that the upgrade needs. Inference comes later, on the upgraded nodes.
  static std::map<std::string, int> declared_ranks(const GraphProto& in) {
    std::map<std::string, int> ranks;
    for (const TensorProto& tensor : in.initializer()) ranks[tensor.name()] = tensor.dims_size();
    for (const auto* list : {&in.input(), &in.value_info(), &in.output()}) {
      for (const ValueInfoProto& info : *list) {
        if (!info.type().tensor_type().has_shape()) continue;
        ranks[info.name()] = info.type().tensor_type().shape().dim_size();
      }
    }
    return ranks;
  }

  Status nodes(const GraphProto& in, int nesting, DraftGraph& out) {
    OnnxUpgrade upgrade(opset_, declared_ranks(in));
    for (const NodeProto& proto : in.node()) {
      const size_t place = places_.size();
      const std::string domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
      const std::string full = domain.empty() ? proto.op_type() : cat(domain, ".", proto.op_type());
      // A draft's offset is an index into places_, so that errors of any later pass name the node.
      places_.push_back(cat(file_, ": ", full, " '", described(proto), "'"));
      if (places_.size() > limits::kNodes) {
        return error(0, cat("expected at most ", limits::kNodes, " nodes"));
      }
      if (catalogue_.find(domain, proto.op_type()) == nullptr &&
          !is_composite(domain, proto.op_type()) && !is_sequence_op(domain, proto.op_type()) &&
          !is_renamed_op(domain, proto.op_type())) {
        lacking_[full].push_back(described(proto));
        if (nesting > 0) lacking_inside_ = true;
        missing_.insert(proto.output().begin(), proto.output().end());
        continue;  // continue to find all of them
      }
      LEAT_ASSIGN_OR_RETURN(DraftNode node, this->node(proto, place, nesting));
      node.domain = domain;
      const Status upgraded = upgrade.add(std::move(node), out.nodes);
      if (!upgraded.ok())
        return Status(upgraded.code(), cat(places_[place], ": ", upgraded.message()));
    }
    return {};
  }

  // A node's name, or else the name of its output.
  static std::string described(const NodeProto& proto) {
    if (!proto.name().empty()) return proto.name().substr(0, limits::kNameLength);
    return proto.output_size() > 0 ? proto.output(0).substr(0, limits::kNameLength) : "";
  }

  Result<DraftNode> node(const NodeProto& in, size_t place, int nesting) {
    DraftNode out;
    out.offset = place;
    out.op = in.op_type();
    LEAT_ASSIGN_OR_RETURN(out.name, name(in.name(), place));
    if (static_cast<size_t>(std::max(in.input_size(), in.output_size())) > limits::kOperands ||
        static_cast<size_t>(in.attribute_size()) > limits::kAttributes) {
      return error(place, cat("expected at most ", limits::kOperands, " operands and ",
                              limits::kAttributes, " attributes"));
    }
    for (const std::string& input : in.input()) {
      LEAT_ASSIGN_OR_RETURN(std::string n, name(input, place));
      out.inputs.push_back({std::move(n), place});
    }
    for (const std::string& output : in.output()) {
      LEAT_ASSIGN_OR_RETURN(std::string n, name(output, place));
      out.outputs.push_back({std::move(n), place});
    }
    // Absent inputs at the end have no meaning.
    while (!out.inputs.empty() && out.inputs.back().name.empty()) out.inputs.pop_back();
    while (!out.outputs.empty() && out.outputs.back().name.empty()) out.outputs.pop_back();
    // Names of attributes go into the text form, so they must be identifiers.
    for (const AttributeProto& attribute : in.attribute()) {
      LEAT_ASSIGN_OR_RETURN(const std::string n, name(attribute.name(), place));
      if (!is_identifier(n) || is_reserved_attribute(n)) {
        return error(place, cat("expected an attribute's name, received '", n, "'"));
      }
      LEAT_ASSIGN_OR_RETURN(DraftAttr attr, this->attr(attribute, place, nesting));
      if (!out.attrs.emplace(n, std::move(attr)).second) {
        return error(place, cat("the attribute '", n, "' is given twice"));
      }
    }
    std::string_view call, scopes;
    for (const auto& property : in.metadata_props()) {
      if (property.key() == kTorchCallProperty) call = property.value();
      if (property.key() == kTorchScopesProperty) scopes = property.value();
      if (property.key() == kUnbiasedProperty && out.op == "BatchNormalization")
        out.attrs.insert_or_assign(std::string(kUnbiasedAttr), Attr(int64_t{1}));
      if (property.key() == kBoundProperty && out.op == "Loop") {
        LEAT_ASSIGN_OR_RETURN(const int64_t bound, bound_of(property.value(), place));
        out.attrs.insert_or_assign("bound", Attr(bound));
      }
      if (property.key() != kDeviceProperty) continue;
      LEAT_ASSIGN_OR_RETURN(std::string device, name(property.value(), place));
      out.attrs.insert_or_assign("device", Attr(std::move(device)));
    }
    if (auto torch = read_torch_call(call, scopes)) calls_.emplace(place, *std::move(torch));
    return out;
  }

  Result<int64_t> bound_of(std::string_view text, size_t place) const {
    int64_t bound = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), bound);
    if (failure == std::errc() && end == text.data() + text.size()) return bound;
    return error(place, cat(kBoundProperty, ": expected a number of iterations, received '",
                            text.substr(0, 100), "'"));
  }

  // Files before IR version 2 may omit the type of an attribute.
  static int type_of(const AttributeProto& in) {
    if (in.type() != 0) return in.type();
    if (in.has_f()) return 1;
    if (in.has_i()) return 2;
    if (in.has_s()) return 3;
    if (in.has_t()) return 4;
    if (in.has_g()) return 5;
    if (in.floats_size() > 0) return 6;
    if (in.ints_size() > 0) return 7;
    return in.strings_size() > 0 ? 8 : 0;
  }

  // The numbers are ONNX's AttributeType: 1 float, 2 int, 3 string, 4 tensor, 5 graph, 6 to 8
  // lists.
  Result<DraftAttr> attr(const AttributeProto& in, size_t place, int nesting) {
    const size_t length = std::max({in.floats_size(), in.ints_size(), in.strings_size()});
    const auto long_string = [](const std::string& s) { return s.size() > limits::kStringLength; };
    if (length > limits::kListLength || long_string(in.s()) ||
        std::any_of(in.strings().begin(), in.strings().end(), long_string)) {
      return error(place, cat("the attribute '", in.name(), "' is too long"));
    }
    switch (type_of(in)) {
      case 1:
        return DraftAttr(Attr(widen(in.f())));
      case 2:
        return DraftAttr(Attr(int64_t{in.i()}));
      case 3:
        return DraftAttr(Attr(in.s()));
      case 4: {
        LEAT_RETURN_IF_ERROR(count(in.t(), place));
        Result<Tensor> value = tensor_of(in.t(), external_);
        if (value.ok()) return DraftAttr(Attr(std::move(value).value()));
        return Status(value.status().code(), cat(places_[place], ": ", value.status().message()));
      }
      case 5: {
        LEAT_ASSIGN_OR_RETURN(DraftGraph region, graph(in.g(), nesting + 1));
        return DraftAttr(std::make_shared<DraftGraph>(std::move(region)));
      }
      case 6: {
        std::vector<double> floats;
        for (const float f : in.floats()) floats.push_back(widen(f));
        return DraftAttr(Attr(std::move(floats)));
      }
      case 7:
        return DraftAttr(Attr(std::vector<int64_t>(in.ints().begin(), in.ints().end())));
      case 8:
        return DraftAttr(Attr(std::vector<std::string>(in.strings().begin(), in.strings().end())));
      default:
        return error(place, cat("the attribute '", in.name(),
                                "': expected a number, a string, a "
                                "tensor, a graph or a list, received AttributeType ",
                                in.type()));
    }
  }

  // "'a', 'b' and 3 more".
  static std::string some_of(const std::vector<std::string>& names) {
    constexpr size_t kShown = 20;
    const size_t shown = std::min(names.size(), kShown);
    std::string text = cat("'", join(std::span(names).first(shown), "', '"), "'");
    if (names.size() > shown) text += cat(" and ", names.size() - shown, " more");
    return text;
  }

  // Takes the outputs that are not used and need what is missing from the graph. The error names
  // what is missing, if a used output needs it.
  Status leave_out_unused(DraftGraph& graph, std::vector<std::string>& notes) {
    missing_.erase("");
    if (missing_.empty()) return report_lacking();
    const LeftOut left = leave_out(graph, missing_);
    const auto& used = options_.outputs;
    const bool needed =
        used.empty() || std::ranges::any_of(left.outputs, [&](const std::string& output) {
          return std::ranges::find(used, output) != used.end();
        });
    if (needed || lacking_inside_ || graph.outputs.empty()) {
      LEAT_RETURN_IF_ERROR(report_lacking(graph));
      return strings_;
    }
    std::vector<std::string> lack;
    for (const auto& [op, nodes] : lacking_) lack.push_back(op);
    if (!strings_.ok()) lack.push_back("tensors of strings");
    const std::string what = left.outputs.empty() ? "nodes that no output needs"
                                                  : cat("outputs that the job does not use (",
                                                        some_of(left.outputs), ")");
    notes.push_back(cat(file_, ": left out ", what, ", for lack of ", join(lack, ", ")));
    return {};
  }

  // Reports all of them at once, because a user who must replace one op needs to know of the
  // others.
  Status report_lacking(const DraftGraph& rest = {}) const {
    if (lacking_.empty()) return {};
    std::vector<std::string> lines;
    for (const auto& [op, nodes] : lacking_) {
      std::string line = cat(op, " (", some_of(nodes));
      if (const std::string_view reason = refusal_of(op); !reason.empty())
        line += cat("; ", reason);
      lines.push_back(line + ")");
    }
    std::vector<std::string> others;
    for (const DraftValue& output : rest.outputs) others.push_back(output.name.name);
    const std::string way_out =
        others.empty() || lacking_inside_
            ? ""
            : cat("; a job does without them if model.outputs has other outputs alone: ",
                  some_of(others));
    return unimplemented(cat(file_, ": this build lacks ", lines.size(),
                             lines.size() == 1 ? " op of the model: " : " ops of the model: ",
                             join(lines, ", "), way_out));
  }

  // A node of the domain leat, without attributes and outputs.
  static DraftNode own(std::string op, std::vector<DraftName> inputs) {
    DraftNode node;
    node.domain = "leat";
    node.op = std::move(op);
    node.inputs = std::move(inputs);
    return node;
  }

  // The device constraint of a node also applies to its weights: by name, the constraint of the
  // first reader.
  static std::map<std::string, DraftAttr> devices_of_inputs(const DraftGraph& graph) {
    std::map<std::string, DraftAttr> devices;
    for (const DraftNode& node : graph.nodes) {
      const auto device = node.attrs.find("device");
      if (device == node.attrs.end()) continue;
      for (const DraftName& input : node.inputs) devices.try_emplace(input.name, device->second);
    }
    return devices;
  }

  // Replaces w with r = Variable; Initialize(r, constant); w = Read(r).
  void make_variables(DraftGraph& graph, const OnnxParameters& parameters) const {
    const auto devices = devices_of_inputs(graph);
    std::vector<DraftNode> nodes;
    for (DraftConstant& constant : graph.constants) {
      const Tensor& value = constant.value;
      if (!is_float(value.dtype()) || value.shape().rank() == 0) continue;
      if (parameters.stays_constant(constant.name.name)) continue;
      // The Read takes the constant's name, so that no reader has to change.
      const std::string w = constant.name.name;
      constant.name.name = cat("%initial ", w);
      const DraftName resource{cat("%variable ", w), 0};
      DraftNode variable = own("Variable", {});
      variable.outputs = {resource};
      variable.attrs["name"] = Attr(w);
      variable.attrs["shape"] =
          Attr(std::vector<int64_t>(value.shape().begin(), value.shape().end()));
      variable.attrs["dtype"] = Attr(std::string(dtype_name(value.dtype())));
      variable.attrs["trainable"] = Attr(int64_t{parameters.trains(w)});
      nodes.push_back(std::move(variable));
      nodes.push_back(own("Initialize", {resource, constant.name}));
      DraftNode read = own("Read", {resource});
      read.outputs = {{w, 0}};
      nodes.push_back(std::move(read));
      const auto device = devices.find(w);
      for (auto it = nodes.end() - 3; it != nodes.end() && device != devices.end(); ++it)
        it->attrs.insert_or_assign("device", device->second);
    }
    // In front of all other nodes, so that readers follow the Reads.
    graph.nodes.insert(graph.nodes.begin(), std::make_move_iterator(nodes.begin()),
                       std::make_move_iterator(nodes.end()));
  }

  const std::string file_;
  const Catalogue& catalogue_;
  const OnnxOptions& options_;
  const OnnxExternal external_;
  int64_t opset_ = 1;
  uint64_t constant_bytes_ = 0;      // the sum that tensors declare so far
  std::vector<std::string> places_;  // by draft offset
  std::map<std::string, std::vector<std::string>> lacking_;
  bool lacking_inside_ = false;        // a region lacks an op
  std::set<std::string> missing_;      // values that no node makes
  Status strings_;                     // the error for the first initializer of strings
  std::map<size_t, TorchCall> calls_;  // of PyTorch, by draft offset
};

Result<OnnxModel> import_model(std::span<const std::byte> bytes, const Catalogue& catalogue,
                               std::string_view name, const OnnxOptions& options,
                               OnnxExternal external) {
  ModelProto model;
  LEAT_RETURN_IF_ERROR(parse_model(bytes, name, model));
  return Importer(name, catalogue, options, std::move(external)).run(model);
}

}  // namespace

Result<OnnxModel> import_onnx(std::span<const std::byte> bytes, const Catalogue& catalogue,
                              std::string_view name, const OnnxOptions& options) {
  return import_model(bytes, catalogue, name, options, {});
}

Result<OnnxModel> import_onnx_file(Files& files, const std::string& path,
                                   const Catalogue& catalogue, const OnnxOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes,
                        read_file(files, path, std::numeric_limits<int32_t>::max()));
  return import_model(bytes, catalogue, path, options, {&files, directory_of(path)});
}

Result<std::map<std::string, Tensor>> read_onnx_weights(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes,
                        read_file(files, path, std::numeric_limits<int32_t>::max()));
  ModelProto model;
  LEAT_RETURN_IF_ERROR(parse_model(bytes, path, model));
  const OnnxOrigin origin = origin_of(model);
  const OnnxExternal external{&files, directory_of(path)};
  std::map<std::string, Tensor> weights;
  uint64_t claimed = 0;
  for (const TensorProto& tensor : model.graph().initializer()) {
    const DType dtype = dtype_from_onnx_code(tensor.data_type());
    if (dtype == DType::invalid || !is_float(dtype) || tensor.dims_size() == 0) continue;
    if (origin.knows() && !origin.members.contains(tensor.name())) continue;
    claimed += claimed_bytes(tensor);
    if (claimed > limits::kConstantBytes || tensor.name().size() > limits::kNameLength) {
      return invalid_argument(cat(path, ": expected at most ", human_bytes(limits::kConstantBytes),
                                  " of initializers, and names of at most ", limits::kNameLength,
                                  " bytes"));
    }
    auto value = tensor_of(tensor, external);
    if (!value.ok())
      return Status(value.status().code(), cat(path, ": ", value.status().message()));
    weights.insert_or_assign(tensor.name(), std::move(value).value());
  }
  return weights;
}

}  // namespace leat
