#include "daemon/training/training_input.h"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/hosts/local_host.h"
#include "daemon/spec/load_graph.h"
#include "daemon/training/export_model.h"
#include "daemon/training/job_transforms.h"
#include "daemon/training/train_specs.h"
#include "daemon/training/training_rules.h"
#include "devices/base/counted.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/definitions/row_shape.h"
#include "scheduler/graph/data_binding.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

// The path of a file of a data set, without the name of its column.
std::string name_of_file(const std::string& file) { return file.substr(file.find('=') + 1); }

// Reads the headers of a data set on every host. All hosts must see the same files.
Result<DatasetReport> inspect(const HostGroup& group, const DatasetFiles& files) {
  const std::vector<HostHandle*>& hosts = group.hosts();
  LEAT_ASSIGN_OR_RETURN(DatasetReport first, hosts[0]->inspect(files, {}));
  for (size_t h = 1; h < hosts.size(); ++h) {
    // Hosts of one process see the same files.
    if (are_local(*hosts[0], *hosts[h])) continue;
    LEAT_ASSIGN_OR_RETURN(const DatasetReport other, hosts[h]->inspect(files, {}));
    // A fingerprint stands for the content, so no host sends its data.
    const auto same = [&](const std::string& name, const std::string& a, const std::string& b) {
      if (a == b) return Status();
      return failed_precondition(cat("'", name, "': expected the same data on all workers, ",
                                     hosts[0]->name(), " has ", a, ", ", hosts[h]->name(), " has ",
                                     b));
    };
    // A pattern may match other files on each host.
    LEAT_RETURN_IF_ERROR(same("files", join(first.files, ", "), join(other.files, ", ")));
    for (size_t f = 0; f < first.files.size(); ++f)
      LEAT_RETURN_IF_ERROR(same(name_of_file(first.files[f]), first.prints[f], other.prints[f]));
  }
  return first;
}

// Data that numbers classes by their names has to have the same names for the training and for the
// validation: otherwise a number would mean another class there.
Status check_class_names(const std::vector<std::string>& train,
                         const std::vector<std::string>& validation) {
  if (train.empty() || validation.empty() || train == validation) return {};
  const auto [mine, other] =
      std::mismatch(train.begin(), train.end(), validation.begin(), validation.end());
  const auto name = [](const std::vector<std::string>& all, auto at) {
    return at == all.end() ? std::string("none") : cat("'", *at, "'");
  };
  return invalid_argument(cat("data.validation: expected the classes of data.train, class ",
                              mine - train.begin(), " is ", name(train, mine), " there and ",
                              name(validation, other), " here"));
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

// The file of each column that the job reads, if every file is one column.
std::map<std::string, std::string> files_of_columns(const DatasetFiles& names) {
  std::map<std::string, std::string> files, out;
  for (const std::string& each : names.files) {
    const auto named = parse_named_file(each);
    if (named.ok()) files.insert(*named);
  }
  if (names.columns.empty()) return files;
  for (const std::string& each : names.columns) {
    const auto view = parse_column_view(each);
    const auto found = view.ok() ? files.find(view->column) : files.end();
    if (found != files.end()) out[view->name] = found->second;
  }
  return out;
}

// Checks that the labels fit the output that the loss compares them with. The step that reads them
// would find it, too, but perhaps hours later.
Status check_labels(const Job& job, const LossSpec& loss, const Graph& model, ValueId output,
                    const DatasetFiles& files, const ColumnInfo& labels, HostHandle& host) {
  const std::string subject = subject_of(labels, files_of_columns(files));
  const ValueType& type = model.value(output).type;
  const bool classes = loss.has_class_labels();
  const auto wrong = [&](const std::string& expected, int first) {
    return invalid_argument(cat(subject, ": expected ", expected, model.type_text(type),
                                ", the output of '", job.model.graph, "', received ", labels.dtype,
                                labels.shape, layout_hint(labels.shape, type.shape, first)));
  };
  if (!classes) {
    if (type.shape.rank() < 1 || fits_row(labels.shape, type.shape)) return {};
    return wrong("labels of the shape of a row of ", 1);
  }
  if (!is_int(labels.dtype)) {
    return invalid_argument(cat(subject, ": expected classes as integers, as the loss ", loss.name,
                                " needs, received ", labels.dtype));
  }
  const auto layout = class_layout(labels, type.shape);
  if (!layout.ok()) return wrong("a class for each row of ", 2);
  // Classes beyond the number of outputs are found by a look at all labels, which the host makes.
  const int rank = type.shape.rank();
  const Dim count = rank < 2 ? Dim() : type.shape[layout->last ? rank - 1 : 1];
  if (rank < 2 || !count.is_constant()) return {};
  const ClassCheck check{labels.name, count.factor, loss.ignore_index};
  return host.inspect(files, check).status();
}

// The same for labels that are a list of classes for each row, as the loss ctc has them.
Status check_sequence_labels(const LossSpec& loss, const Graph& model, ValueId output,
                             const DatasetFiles& files, const ColumnInfo& labels,
                             HostHandle& host) {
  const std::string subject = subject_of(labels, files_of_columns(files));
  const ValueType& type = model.value(output).type;
  if (type.shape.rank() != 3) {
    return invalid_argument(
        cat("loss: ", loss.name, ": expected an output [N,T,C], received ", model.type_text(type)));
  }
  if (!is_int(labels.dtype) || labels.shape.rank() != 1) {
    return invalid_argument(cat(subject, ": expected rows of classes, integers [S] padded to the ",
                                "same length, received ", labels.dtype, labels.shape));
  }
  // With a column of lengths any number may stand behind the labels.
  const Dim count = type.shape[2];
  if (!count.is_constant() || !loss.label_lengths.empty()) return {};
  return host.inspect(files, ClassCheck{labels.name, count.factor, loss.ignore_index}).status();
}

Status check_lengths(const std::optional<size_t>& column, const std::vector<ColumnInfo>& columns) {
  if (!column) return {};
  const ColumnInfo& lengths = columns[*column];
  if (is_int(lengths.dtype) && lengths.shape.elements() == 1) return {};
  return invalid_argument(cat("column '", lengths.name, "': expected an integer for each row, the ",
                              "length of a sequence, received ", lengths.dtype, lengths.shape));
}

// Checks that the model and the loss can take the rows of the data.
Status check_data(const Job& job, const Graph& model, const Job::Files& files,
                  const DatasetInfo& info, bool in_training, HostHandle& host) {
  LEAT_ASSIGN_OR_RETURN(const std::vector<ColumnInfo> columns,
                        columns_behind_transforms(job, model, info.columns, in_training));
  LEAT_ASSIGN_OR_RETURN(
      const DataBinding binding,
      bind_columns(model, columns, job.model.inputs, files_of_columns(dataset_files(job, files))));
  if (job.program) return {};
  const std::vector<LossSpec> losses = loss_specs(job);
  std::vector<const LossSpec*> all;
  for (const LossSpec& loss : losses) all.push_back(&loss);
  LEAT_ASSIGN_OR_RETURN(const std::vector<LabelColumns> bound, bind_labels(columns, all));
  for (size_t i = 0; i < losses.size(); ++i) {
    const LossSpec& loss = losses[i];
    LEAT_ASSIGN_OR_RETURN(const ValueId output, find_output(model, loss.output));
    if (!bound[i].labels) continue;
    // Classes are checked as the files have them, before a transform changes them.
    const size_t labels = *bound[i].labels;
    if (loss.labels() == Labels::sequence) {
      LEAT_RETURN_IF_ERROR(check_lengths(bound[i].input_lengths, columns));
      LEAT_RETURN_IF_ERROR(check_lengths(bound[i].label_lengths, columns));
      LEAT_RETURN_IF_ERROR(check_sequence_labels(loss, model, output, dataset_files(job, files),
                                                 columns[labels], host));
      continue;
    }
    const bool classes = loss.has_class_labels() && is_int(info.columns[labels].dtype);
    LEAT_RETURN_IF_ERROR(check_labels(job, loss, model, output, dataset_files(job, files),
                                      classes ? info.columns[labels] : columns[labels], host));
  }
  return {};
}

// Tells that the loss takes a softmax of probabilities, which is a frequent mistake.
void note_probabilities(const Job& job, Model& model) {
  if (job.program) return;
  for (const LossSpec& loss : loss_specs(job)) {
    if (loss.name != "cross_entropy" || !loss.from_logits()) continue;
    const auto output = find_output(model.inference, loss.output);
    const NodeId producer = output.ok() ? model.inference.value(*output).producer : kNone;
    if (producer == kNone || !is_op(model.inference.node(producer), "Softmax")) continue;
    model.notes.push_back(cat(job.model.graph, ": cross_entropy takes logits, and the output '",
                              model.inference.describe(*output),
                              "' is the result of a Softmax: loss: {name: cross_entropy, "
                              "from_logits: false} takes probabilities"));
  }
}

Status lacks_data(const Job& job, const Graph& model) {
  return invalid_argument(cat("'", job.model.graph, "': its input '",
                              model.describe(model.inputs()[0]),
                              "' reads a column: expected data in the job file, received none"));
}

// The fingerprints of the data, by the names that manifests give the files: the column's for a file
// of one column, else the file's own.
std::map<std::string, std::string> prints_of(const DatasetReport& report, const Job::Files& files) {
  const SourceFormat* format = find_source_format(files.format);
  const bool named = format && format->files_form() == FilesForm::columns;
  std::map<std::string, std::string> out;
  for (size_t f = 0; f < report.files.size(); ++f) {
    const std::string& file = report.files[f];
    out[named ? file.substr(0, file.find('=')) : file] = report.prints[f];
  }
  return out;
}

// Returns the sets of validation data, in the order of the job; none if it has none.
Result<std::vector<FoundDataset>> find_validation(const Job& job, const HostGroup& hosts) {
  std::vector<FoundDataset> found;
  for (const Job::Files* files : validation_files(job)) {
    LEAT_ASSIGN_OR_RETURN(const DatasetReport report, inspect(hosts, dataset_files(job, *files)));
    found.push_back({report.info, report.files, report.classes});
  }
  return found;
}

Status check_validation(const Job& job, const Graph& graph, const std::vector<FoundDataset>& found,
                        HostHandle& host) {
  size_t next = 0;
  for (const Job::Files* files : validation_files(job))
    LEAT_RETURN_IF_ERROR(check_data(job, graph, *files, found[next++].info, false, host));
  return {};
}

FoundDataset first_of(const std::vector<FoundDataset>& found) {
  return found.empty() ? FoundDataset() : found[0];
}

std::vector<FoundDataset> others_of(const std::vector<FoundDataset>& found) {
  return {found.begin() + (found.empty() ? 0 : 1), found.end()};
}

}  // namespace

Result<std::unique_ptr<TrainingInput>> read_input(const Catalogue& catalogue, Files& files,
                                                  const Job& job, const HostGroup& hosts,
                                                  bool every_float) {
  // Relative names of data sets are below this root on every host, so it comes first.
  for (HostHandle* host : hosts.hosts()) host->set_data_root(job.name, job.data.root);
  DatasetReport train;
  if (job.has_data()) {
    LEAT_ASSIGN_OR_RETURN(train, inspect(hosts, dataset_files(job, job.data.train)));
  }
  LEAT_ASSIGN_OR_RETURN(const std::vector<FoundDataset> validation, find_validation(job, hosts));
  for (const FoundDataset& set : validation)
    LEAT_RETURN_IF_ERROR(check_class_names(train.classes, set.classes));
  LEAT_ASSIGN_OR_RETURN(Model model,
                        load_model(files, catalogue, job.model, every_float, !job.program));
  // The hash goes into the manifests, where a later run sees whether the graph has changed.
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(job.model.graph));
  LEAT_ASSIGN_OR_RETURN(std::string sha256, sha256_of(*file));
  const Graph& graph = model.training;
  // These checks come before anything is compiled or sent.
  LEAT_RETURN_IF_ERROR(check_size(job.model.graph, graph, job.shards));
  LEAT_RETURN_IF_ERROR(check_constraints(job, graph));
  LEAT_RETURN_IF_ERROR(check_batch(job, model.batch));
  LEAT_RETURN_IF_ERROR(check_exports(job, model));
  HostHandle& host = *hosts.hosts()[0];
  if (job.has_data()) {
    LEAT_RETURN_IF_ERROR(check_sharding(train.info, job.data.sharding, job.shards));
    LEAT_RETURN_IF_ERROR(check_data(job, graph, job.data.train, train.info, true, host));
  } else if (!graph.inputs().empty()) {
    return lacks_data(job, graph);
  }
  LEAT_RETURN_IF_ERROR(check_validation(job, graph, validation, host));
  note_probabilities(job, model);
  for (const std::string& note : train.notes) model.notes.push_back(note);
  const DataOrder order{job.global_batch_size, job.data.shuffle, epoch_rows(job, train.info),
                        prints_of(train, job.data.train),
                        std::string(sharding_name(job.data.sharding))};
  return std::make_unique<TrainingInput>(
      TrainingInput{std::move(model), std::move(sha256), every_float,
                    FoundDataset{train.info, train.files, train.classes}, first_of(validation),
                    order, others_of(validation)});
}

Result<std::unique_ptr<TrainingInput>> read_evaluation_input(const Catalogue& catalogue,
                                                             Files& files, const Job& job,
                                                             const HostGroup& hosts,
                                                             bool every_float) {
  for (HostHandle* host : hosts.hosts()) host->set_data_root(job.name, job.data.root);
  LEAT_ASSIGN_OR_RETURN(const std::vector<FoundDataset> validation, find_validation(job, hosts));
  LEAT_ASSIGN_OR_RETURN(Model model,
                        load_model(files, catalogue, job.model, every_float, !job.program));
  LEAT_RETURN_IF_ERROR(check_validation(job, model.training, validation, *hosts.hosts()[0]));
  return std::make_unique<TrainingInput>(TrainingInput{
      std::move(model), "", every_float, {}, first_of(validation), {}, others_of(validation)});
}

}  // namespace leat
