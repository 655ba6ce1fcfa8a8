#include "daemon/training/predictor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "daemon/hosts/local_hosts.h"
#include "daemon/spec/job.h"
#include "daemon/training/model.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/train_specs.h"
#include "devices/base/text.h"
#include "ops/definitions/row_shape.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

// Rows of a step if the model takes any number, and the time that one step may take.
constexpr int64_t kRowsPerStep = 256;
constexpr auto kDeadline = std::chrono::seconds(120);

// Rows in the shape and type of an input of the model; floats are rescaled.
Result<Tensor> prepare(const Tensor& input, const Graph& model, ValueId to, const Job& job) {
  const ValueType& expected = model.value(to).type;
  const int64_t rows = input.shape().rank() > 0 ? input.shape()[0] : 0;
  const Shape row = rows > 0 ? Shape(input.shape().dims().subspan(1)) : Shape();
  if (rows == 0 || expected.shape.rank() == 0 || !fits_row(row, expected.shape)) {
    return invalid_argument(cat("input: expected rows of the shape of those of ",
                                model.type_text(expected), ", the input '", model.value_name(to),
                                "' of '", job.model.graph, "', received ", input.dtype(),
                                input.shape(), rows > 0 ? layout_hint(row, expected.shape) : ""));
  }
  Shape shape{rows};
  for (const int64_t size : row_shape(row, expected.shape)) shape.push_back(size);
  // The graph is converted to the precision of the job later.
  const DType dtype = expected.dtype == DType::f32 ? job.master_dtype() : expected.dtype;
  Tensor out = input.cast(dtype).reshaped(shape);
  if (job.data.rescale == 1 || !is_float(dtype)) return out;
  for (int64_t i = 0; i < out.elements(); ++i) {
    if (dtype == DType::f32)
      out.data<float>()[i] *= static_cast<float>(job.data.rescale);
    else
      out.set(i, out.at(i) * job.data.rescale);
  }
  return out;
}

// The rows of every input of the model, in its order, all equally many.
Result<std::vector<Tensor>> prepare_all(const PredictInputs& inputs, const Graph& model,
                                        const Job& job) {
  std::vector<std::string> names;
  for (const ValueId input : model.inputs()) names.push_back(model.value_name(input));
  for (const auto& [name, rows] : inputs) {
    const bool only = name.empty() && names.size() == 1;
    if (only || std::find(names.begin(), names.end(), name) != names.end()) continue;
    return invalid_argument(cat("input '", name, "': expected NAME=FILE for the inputs of '",
                                job.model.graph, "', which are ", join(names, ", "),
                                did_you_mean(name, names)));
  }
  std::vector<Tensor> out;
  for (const ValueId input : model.inputs()) {
    auto found = inputs.find(model.value_name(input));
    if (found == inputs.end()) found = inputs.find("");
    if (found == inputs.end()) {
      return invalid_argument(cat("input '", model.value_name(input), "' of '", job.model.graph,
                                  "': expected rows for it, received none"));
    }
    LEAT_ASSIGN_OR_RETURN(Tensor rows, prepare(found->second, model, input, job));
    if (!out.empty() && rows.shape()[0] != out[0].shape()[0]) {
      return invalid_argument(cat("input '", model.value_name(input), "': expected ",
                                  out[0].shape()[0], " rows, as the first input has, received ",
                                  rows.shape()[0]));
    }
    out.push_back(std::move(rows));
  }
  return out;
}

// Sizes of a row that the graph leaves open become those of the rows.
void fix_sizes(Graph& model, const std::vector<Tensor>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    ValueType& type = model.value(model.inputs()[i]).type;
    for (int d = 1; d < type.shape.rank(); ++d) type.shape.set(d, Dim::of(rows[i].shape()[d]));
  }
}

// The part [from, from + n) of a tensor's rows, zeros past its end.
Tensor rows_of(const Tensor& tensor, int64_t from, int64_t n) {
  Shape shape = tensor.shape();
  // The tensor begins with zeros, so the rows past the end need no write.
  const int64_t available = std::min(n, shape[0] - from);
  const size_t row = tensor.bytes() / static_cast<size_t>(shape[0]);
  shape.set(0, n);
  Tensor out(tensor.dtype(), shape);
  std::memcpy(out.raw(),
              static_cast<const std::byte*>(tensor.raw()) + static_cast<size_t>(from) * row,
              static_cast<size_t>(available) * row);
  return out;
}

}  // namespace

Result<Tensor> predict(const Catalogue& catalogue, Files& files, const std::string& run,
                       const PredictInputs& inputs) {
  LEAT_ASSIGN_OR_RETURN(const Job job, load_run_job(files, run));
  const std::string weights_file = run + "/weights.safetensors";
  LEAT_ASSIGN_OR_RETURN(const SafeTensors weights, read_safetensors(files, weights_file));
  const bool every_float = !weights.metadata.contains(kTrainsKey);
  LEAT_ASSIGN_OR_RETURN(Model loaded,
                        load_model(files, catalogue, job.model, every_float, !job.program));
  Graph& model = loaded.inference;
  if (model.inputs().empty())
    return invalid_argument(cat(job.model.graph, ": expected a model with an input"));
  LEAT_ASSIGN_OR_RETURN(const std::vector<Tensor> rows, prepare_all(inputs, model, job));
  fix_sizes(model, rows);
  const auto hosts = make_local_hosts(1, cpu::usable_cores());
  const int64_t rows_per_step = loaded.batch.fixed.value_or(kRowsPerStep);
  LEAT_ASSIGN_OR_RETURN(JobGraph graph, make_predict_graph(model, rows_per_step, job.master_dtype(),
                                                           autocast_spec(job)));
  // All of it here, wherever it was trained.
  for (NodeId id = 0; id < graph.graph.nodes(); ++id) graph.graph.node(id).device.clear();
  PlanOptions options;
  options.name = "predict";
  LEAT_ASSIGN_OR_RETURN(auto plan, hosts->compile(graph, options));
  LEAT_ASSIGN_OR_RETURN(auto stepping, hosts->run(plan, job.name, {"predict", job.seed, 0}));
  LEAT_RETURN_IF_ERROR(hosts->hosts()[0]
                           ->write_variables(job.name, weights.tensors, Restore::superset, {})
                           .while_doing(cat("loading ", weights_file)));
  const int64_t total = rows[0].shape()[0];
  Shape shape = plan->fetches[0].shape;
  if (shape.rank() == 0 || shape[0] != rows_per_step)
    return invalid_argument(
        cat(job.model.graph, ": expected an output with a row for each input row"));
  shape.set(0, total);
  Tensor output(plan->fetches[0].dtype, shape);
  const size_t row = output.bytes() / static_cast<size_t>(total);
  for (int64_t from = 0; from < total; from += rows_per_step) {
    const auto step = static_cast<uint64_t>(from / rows_per_step);
    // One step at a time: feed() requires that the step before is finished.
    for (size_t i = 0; i < rows.size(); ++i) {
      LEAT_RETURN_IF_ERROR(
          stepping->feed(static_cast<uint32_t>(i), rows_of(rows[i], from, rows_per_step)));
    }
    stepping->extend(step + 1);
    LEAT_RETURN_IF_ERROR(stepping->wait(step, std::chrono::steady_clock::now() + kDeadline, true));
    // The rows of zeros at the end are left out.
    const auto n = static_cast<size_t>(std::min(rows_per_step, total - from));
    std::memcpy(static_cast<std::byte*>(output.raw()) + static_cast<size_t>(from) * row,
                stepping->fetched(0, step).raw(), n * row);
  }
  return output;
}

}  // namespace leat
