#include "ops/onnx/export.h"

#include <algorithm>
#include <span>
#include <utility>

#include "devices/base/text.h"
#include "onnx.pb.h"
#include "ops/onnx/export_draft.h"
#include "ops/onnx/import.h"
#include "ops/onnx/narrow_tensors.h"

namespace leat {
namespace {

using namespace onnx_wire;

// Smaller initializers stay in the model: readers need those that are shapes before the others.
constexpr uint64_t kLeastExternal = 1024;
constexpr uint64_t kAlignment = 64;

// The version of the file format that came with an opset; every reader of the opset knows it.
int64_t ir_version(int64_t opset) { return opset <= 18 ? 8 : opset <= 20 ? 9 : 10; }

void set_tensor(const Tensor& value, TensorProto& out) {
  for (const int64_t size : value.shape()) out.add_dims(size);
  out.set_data_type(dtype_onnx_code(value.dtype()));
  // Also for a tensor without elements: a reader takes the field that is there.
  const Tensor stored = packed(value);
  out.set_raw_data(stored.raw(), stored.bytes());
}

void set_attribute(const std::string& name, const Attr& attr, AttributeProto& out) {
  out.set_name(name);
  if (const auto* integer = std::get_if<int64_t>(&attr)) {
    out.set_i(*integer);
    out.set_type(2);
  } else if (const auto* real = std::get_if<double>(&attr)) {
    out.set_f(static_cast<float>(*real));
    out.set_type(1);
  } else if (const auto* text = std::get_if<std::string>(&attr)) {
    out.set_s(*text);
    out.set_type(3);
  } else if (const auto* tensor = std::get_if<Tensor>(&attr)) {
    set_tensor(*tensor, *out.mutable_t());
    out.set_type(4);
  } else if (const auto* reals = std::get_if<std::vector<double>>(&attr)) {
    for (const double each : *reals) out.add_floats(static_cast<float>(each));
    out.set_type(6);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&attr)) {
    for (const int64_t each : *integers) out.add_ints(each);
    out.set_type(7);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
    for (const std::string& each : *texts) out.add_strings(each);
    out.set_type(8);
  }
}

void set_value(const DraftValue& value, ValueInfoProto& out) {
  out.set_name(value.name.name);
  auto& tensor = *out.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(dtype_onnx_code(value.type->dtype));
  auto& shape = *tensor.mutable_shape();
  for (const DraftDim& dim : value.type->dims) {
    auto& size = *shape.add_dim();
    if (dim.size) size.set_dim_value(*dim.size);
    if (!dim.size && !dim.symbol.empty()) size.set_dim_param(dim.symbol);
  }
}

void set_node(const DraftNode& node, NodeProto& out) {
  out.set_op_type(node.op);
  if (!node.name.empty()) out.set_name(node.name);
  for (const DraftName& input : node.inputs) out.add_input(input.name);
  for (const DraftName& output : node.outputs) out.add_output(output.name);
  for (const auto& [name, attr] : node.attrs) {
    if (name != kUnbiasedAttr) {
      set_attribute(name, std::get<Attr>(attr), *out.add_attribute());
      continue;
    }
    auto& property = *out.add_metadata_props();
    property.set_key(std::string(kUnbiasedProperty));
    property.set_value("1");
  }
}

// A line for each initializer, as read_signature() reads them.
std::string signature_of(const std::vector<ExportedVariable>& variables) {
  std::string text;
  for (const ExportedVariable& variable : variables) {
    const bool plain = variable.name.find_first_of("'\n") == std::string::npos;
    if (!plain) continue;
    text +=
        cat("w: ", variable.trained ? "PARAMETER" : "BUFFER", " target='", variable.name, "'\n");
  }
  return text;
}

ModelProto model_of(const ExportDraft& from, int64_t opset, const std::string& version) {
  ModelProto model;
  model.set_ir_version(ir_version(opset));
  model.set_producer_name("leat");
  if (!version.empty()) model.set_producer_version(version);
  auto& imported = *model.add_opset_import();
  imported.set_domain("");
  imported.set_version(opset);
  GraphProto& graph = *model.mutable_graph();
  graph.set_name(from.draft.name);
  for (const DraftNode& node : from.draft.nodes) set_node(node, *graph.add_node());
  for (const DraftValue& input : from.draft.inputs) set_value(input, *graph.add_input());
  for (const DraftValue& output : from.draft.outputs) set_value(output, *graph.add_output());
  auto& signature = *graph.add_metadata_props();
  signature.set_key(std::string(kSignatureProperty));
  signature.set_value(signature_of(from.variables));
  return model;
}

// A draft in the opset that the file will have.
struct Fitted {
  ExportDraft from;
  int64_t opset = 0;
};

Result<Fitted> fitted(const Graph& graph, const OnnxExportOptions& options) {
  if (options.opset && (*options.opset < kOldestExport || *options.opset > kNewestOpset)) {
    return invalid_argument(cat("expected an opset of ONNX from ", kOldestExport, " to ",
                                kNewestOpset, ", received ", *options.opset));
  }
  LEAT_ASSIGN_OR_RETURN(ExportDraft from, export_draft(graph));
  int64_t opset =
      std::clamp(options.opset.value_or(options.source_opset), kOldestExport, kNewestOpset);
  ExportDraft draft = from;
  const std::vector<std::string> lacking = fit_to_opset(draft, opset, opset);
  if (!lacking.empty() && options.opset) {
    constexpr size_t kShown = 20;
    const auto shown = std::span(lacking).first(std::min(lacking.size(), kShown));
    return invalid_argument(cat("graph '", graph.name, "': expected nodes that opset ",
                                *options.opset, " has, received: ", join(shown, "; "),
                                shown.size() < lacking.size() ? " and others" : ""));
  }
  // The nodes that older opsets have stay as they are in the newer one.
  if (!lacking.empty()) {
    draft = std::move(from);
    (void)fit_to_opset(draft, opset, opset);
  }
  return Fitted{std::move(draft), opset};
}

Result<Tensor> value_of(const ExportedVariable& variable,
                        const std::map<std::string, Tensor>& values) {
  const auto found = values.find(variable.variable);
  if (found == values.end())
    return invalid_argument(
        cat("variable '", variable.variable, "': expected a value, none is given"));
  if (found->second.shape() != variable.shape) {
    return invalid_argument(cat("variable '", variable.variable, "': expected the shape ",
                                variable.shape, ", received ", found->second.shape()));
  }
  return found->second.dtype() == variable.dtype ? found->second
                                                 : found->second.cast(variable.dtype);
}

// The initializers whose data are in another file, one after the other.
class ExternalData {
 public:
  explicit ExternalData(const std::string& model)
      : path_(model + ".data"), location_(path_.substr(path_.rfind('/') + 1)) {}

  const std::string& path() const { return path_; }
  void add(Tensor value, TensorProto& out) {
    for (const int64_t size : value.shape()) out.add_dims(size);
    out.set_data_type(dtype_onnx_code(value.dtype()));
    out.set_data_location(1);
    value = packed(value);
    const auto set = [&](const char* key, std::string text) {
      auto& entry = *out.add_external_data();
      entry.set_key(key);
      entry.set_value(std::move(text));
    };
    set("location", location_);
    set("offset", std::to_string(size_));
    set("length", std::to_string(value.bytes()));
    size_ += (value.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    values_.push_back(std::move(value));
  }
  Status write(Files& files) const {
    static constexpr std::byte kZeros[kAlignment] = {};
    std::vector<std::span<const std::byte>> pieces;
    for (const Tensor& value : values_) {
      pieces.emplace_back(static_cast<const std::byte*>(value.raw()), value.bytes());
      const size_t past = value.bytes() % kAlignment;
      if (past > 0) pieces.push_back(std::span(kZeros).first(kAlignment - past));
    }
    return write_file_atomically(files, path_, pieces);
  }

 private:
  const std::string path_, location_;
  uint64_t size_ = 0;
  std::vector<Tensor> values_;
};

// Protobuf counts bytes in an int.
Status write_model(Files& files, const std::string& path, const ModelProto& model) {
  const size_t bytes = model.ByteSizeLong();
  if (bytes > (size_t{1} << 31) - 1) {
    return unimplemented(cat("'", path,
                             "': expected less than 2 GiB of model without its external ",
                             "data, received ", human_bytes(bytes), " of nodes and constants"));
  }
  std::string text;
  if (!model.SerializeToString(&text))
    return internal_error(cat("'", path, "': the model cannot be written"));
  return write_file_atomically(files, path, std::as_bytes(std::span(text)));
}

}  // namespace

Result<int64_t> check_onnx_export(const Graph& graph, const OnnxExportOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const Fitted to, fitted(graph, options));
  return to.opset;
}

Result<OnnxExported> write_onnx(Files& files, const std::string& path, const Graph& graph,
                                const std::map<std::string, Tensor>& variables,
                                const OnnxExportOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const Fitted to, fitted(graph, options));
  std::vector<Tensor> values;
  uint64_t bytes = 0;
  for (const ExportedVariable& variable : to.from.variables) {
    LEAT_ASSIGN_OR_RETURN(Tensor value, value_of(variable, variables));
    bytes += value.bytes();
    values.push_back(std::move(value));
  }
  ModelProto model = model_of(to.from, to.opset, options.version);
  ExternalData external(path);
  const bool splits = bytes > options.most_inline;
  for (size_t i = 0; i < values.size(); ++i) {
    TensorProto& out = *model.mutable_graph()->add_initializer();
    out.set_name(to.from.variables[i].name);
    if (splits && values[i].bytes() >= kLeastExternal) {
      external.add(std::move(values[i]), out);
    } else {
      set_tensor(values[i], out);
    }
  }
  // The data first: a model that is there has its data.
  if (splits) LEAT_RETURN_IF_ERROR(external.write(files));
  LEAT_RETURN_IF_ERROR(write_model(files, path, model));
  return OnnxExported{to.opset, values.size(), splits ? external.path() : ""};
}

}  // namespace leat
