#include "daemon/training/training_input.h"

#include <utility>

#include "daemon/hosts/local_host.h"
#include "daemon/spec/load_graph.h"
#include "daemon/training/training_rules.h"
#include "devices/base/counted.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/definitions/row_shape.h"

namespace leat {
namespace {

DatasetFiles dataset_files(const Job& job, const Job::Files& files) {
  return {std::string(name_of(files.format)), files.features, files.labels, job.data.root};
}

// Reads the headers of a data set on every host. All hosts must see the same files.
Result<DatasetReport> inspect(const HostGroup& group, const DatasetFiles& files) {
  const std::vector<HostHandle*>& hosts = group.hosts();
  LEAT_ASSIGN_OR_RETURN(DatasetReport first, hosts[0]->inspect(files, 0));
  for (size_t h = 1; h < hosts.size(); ++h) {
    // Hosts of one process see the same files.
    if (are_local(*hosts[0], *hosts[h])) continue;
    LEAT_ASSIGN_OR_RETURN(const DatasetReport other, hosts[h]->inspect(files, 0));
    // A fingerprint stands for the content, so no host sends its data.
    const auto same = [&](const std::string& name, const std::string& a, const std::string& b) {
      if (a == b) return Status();
      return failed_precondition(cat("'", name, "': expected the same data on all workers, ",
                                     hosts[0]->name(), " has ", a, ", ", hosts[h]->name(), " has ",
                                     b));
    };
    LEAT_RETURN_IF_ERROR(same(files.features, first.features_print, other.features_print));
    LEAT_RETURN_IF_ERROR(same(files.labels, first.labels_print, other.labels_print));
  }
  return first;
}

// Several hosts share one replica only where the graph says which of its nodes each computes.
Status check_constraints(const Job& job, const Graph& model) {
  if (!training_rules(job, job.num_workers).one_replica || job.num_workers == 1) return {};
  for (NodeId id = 0; id < model.nodes(); ++id) {
    if (!model.node(id).device.empty()) return {};
  }
  return invalid_argument(cat("num_workers: expected 1 with strategy single and a graph without ",
                              "device constraints, received ", job.num_workers,
                              "; change num_workers, or write strategy: mirrored"));
}

// Checks that a step has as many rows as the model takes, if the model fixes their number.
Status check_batch(const Job& job, const ModelBatch& batch) {
  const int64_t rows = job.global_batch_size / job.shards;
  if (!batch.fixed || *batch.fixed == rows) return {};
  const std::string& graph = job.model.graph;
  const bool divides = job.global_batch_size % *batch.fixed == 0;
  return invalid_argument(
      cat("'", graph, "': its batch is fixed at ", counted(*batch.fixed, "row"), " (", batch.why,
          "): expected global_batch_size / shards to be ", *batch.fixed, ", received ",
          job.global_batch_size, " / ", job.shards,
          divides ? cat("; write shards: ", job.global_batch_size / *batch.fixed, ", or") : ";",
          graph.ends_with(".onnx")
              ? " export it for any batch, in PyTorch with torch.onnx.export(model, args, path, "
                "dynamic_shapes=({0: 'batch'},))"
              : " give its input a batch of any size, such as [N, ...]"));
}

// Checks that the labels fit the model's output. The step that reads them would find it, too, but
// perhaps hours later.
Status check_labels(const Job& job, const Graph& model, const Job::Files& files,
                    const DatasetInfo& info, HostHandle& host) {
  if (model.outputs().empty()) return {};
  const ValueType& output = model.value(model.outputs()[0]).type;
  const bool classes = job.loss == Job::Loss::cross_entropy;
  const int first = classes ? 2 : 1;  // dimension of a row's label, after the classes
  if (output.shape.rank() < first) return {};
  if (!fits_row(info.label_shape, output.shape, first)) {
    return invalid_argument(cat(
        "'", files.labels, "': expected ",
        classes ? "a class for each row of " : "labels of the shape of a row of ",
        model.type_text(output), ", the output of '", job.model.graph, "', received ",
        info.label_dtype, info.label_shape, layout_hint(info.label_shape, output.shape, first)));
  }
  // Classes beyond the number of outputs are found by a look at all labels, which the host makes.
  if (!classes || !output.shape[1].is_constant()) return {};
  return host.inspect(dataset_files(job, files), output.shape[1].factor).status();
}

// Checks that the model and the loss can take the records of the files.
Status check_records(const Job& job, const Graph& model, const Job::Files& files,
                     const DatasetInfo& info, HostHandle& host) {
  if (job.loss == Job::Loss::cross_entropy && !is_int(info.label_dtype)) {
    return invalid_argument(
        cat("'", files.labels,
            "': expected classes as integers, as the loss cross_entropy needs, received ",
            info.label_dtype));
  }
  if (model.inputs().empty()) return {};  // refused when the training graph is made
  const ValueType& input = model.value(model.inputs()[0]).type;
  if (fits_row(info.record_shape, input.shape)) return check_labels(job, model, files, info, host);
  return invalid_argument(cat("'", files.features, "': expected records of the shape of a row of ",
                              model.type_text(input), ", the input of '", job.model.graph,
                              "', received ", info.record_dtype, info.record_shape,
                              layout_hint(info.record_shape, input.shape)));
}

}  // namespace

Result<std::unique_ptr<TrainingInput>> read_input(const Catalogue& catalogue, Files& files,
                                                  const Job& job, const HostGroup& hosts,
                                                  bool every_float) {
  // Relative names of data sets are below this root on every host, so it comes first.
  for (HostHandle* host : hosts.hosts()) host->set_data_root(job.name, job.data.root);
  LEAT_ASSIGN_OR_RETURN(const DatasetReport train,
                        inspect(hosts, dataset_files(job, job.data.train)));
  DatasetInfo validation;
  if (job.data.validation) {
    LEAT_ASSIGN_OR_RETURN(const DatasetReport report,
                          inspect(hosts, dataset_files(job, *job.data.validation)));
    validation = report.info;
  }
  LEAT_ASSIGN_OR_RETURN(Model model, load_model(files, catalogue, job.model.graph, every_float));
  // The hash goes into the manifests, where a later run sees whether the graph has changed.
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(job.model.graph));
  LEAT_ASSIGN_OR_RETURN(std::string sha256, sha256_of(*file));
  const Graph& graph = model.training;
  // These checks come before anything is compiled or sent.
  LEAT_RETURN_IF_ERROR(check_size(job.model.graph, graph, job.shards));
  LEAT_RETURN_IF_ERROR(check_constraints(job, graph));
  LEAT_RETURN_IF_ERROR(check_batch(job, model.batch));
  HostHandle& host = *hosts.hosts()[0];
  LEAT_RETURN_IF_ERROR(check_records(job, graph, job.data.train, train.info, host));
  if (job.data.validation)
    LEAT_RETURN_IF_ERROR(check_records(job, graph, *job.data.validation, validation, host));
  const DataOrder order{job.global_batch_size, job.data.shuffle, train.info.count,
                        train.features_print, train.labels_print};
  return std::make_unique<TrainingInput>(TrainingInput{std::move(model), std::move(sha256),
                                                       every_float, train.info, validation, order});
}

}  // namespace leat
