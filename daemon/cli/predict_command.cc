#include "daemon/cli/predict_command.h"

#include <cstdio>
#include <fstream>
#include <iostream>

#include "daemon/base/exit_code.h"
#include "daemon/cli/data_option.h"
#include "daemon/cli/missing_files.h"
#include "daemon/cli/prediction_output.h"
#include "daemon/cli/run_files.h"
#include "daemon/cli/run_place.h"
#include "daemon/training/class_names.h"
#include "daemon/training/job_transforms.h"
#include "daemon/training/predict_data.h"
#include "daemon/training/run_folder.h"
#include "daemon/training/train_specs.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

// The data of the command, and the columns that inputs of the model read.
struct PredictInput {
  int code = kExitOk;  // else the error was reported
  DatasetFiles data;
  std::map<std::string, std::string> columns;  // as Job::Model::inputs
};

PredictInput failed(const Status& status, const PredictCommand& command) {
  return {report(status, command.cluster.color), {}, {}};
}

// Each file of --input becomes a column of the name of its input. A file without a name is for a
// model with one input, which reads the only column.
PredictInput input_of_files(const PredictCommand& command) {
  PredictInput input;
  for (const std::string& each : command.inputs) {
    // A path may have '=', too: only what could be a name of an input is one.
    const size_t equals = each.find('=');
    const bool named = equals != std::string::npos && equals < each.find('/');
    const std::string path = named ? each.substr(equals + 1) : each;
    if (!is_store_path(path) && report_missing("input file", path, command.cluster.color))
      return {kExitNoSuch, {}, {}};
    const std::string format = array_format(path);
    if (!input.data.format.empty() && input.data.format != format) {
      return failed(invalid_argument(cat("--input: expected files of one format, received ",
                                         input.data.format, " and ", format, " ('", path, "')")),
                    command);
    }
    input.data.format = format;
    // The names of inputs are any text, and those of columns are not.
    const std::string column = cat("input_", input.data.files.size());
    input.data.files.push_back(cat(column, "=", path));
    if (named) input.columns[each.substr(0, equals)] = column;
  }
  return input;
}

// The classes of the file, one on each line.
Result<std::vector<std::string>> read_classes(const std::string& path) {
  constexpr uint64_t kMost = 16 << 20;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(real_files(), path, kMost));
  std::vector<std::string> names;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    names.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (names.empty()) return invalid_argument(cat("'", path, "': expected names of classes"));
  return names;
}

Result<PredictionFormat> format_of(const PredictCommand& command) {
  const std::string& path = command.output;
  if (path.empty() && command.top > 0) return PredictionFormat::jsonl;
  if (path.empty())
    return command.cluster.json ? PredictionFormat::class_lines : PredictionFormat::classes;
  if (path.ends_with(".csv")) return PredictionFormat::csv;
  if (path.ends_with(".jsonl")) return PredictionFormat::jsonl;
  if (path.ends_with(".npy")) {
    if (command.top == 0) return PredictionFormat::npy;
    return invalid_argument("--top: expected a file .csv or .jsonl, received '" + path + "'");
  }
  return invalid_argument(cat("-o: expected a file .npy, .csv or .jsonl, received '", path, "'"));
}

// A pipe whose reader has gone ends the command like a signal would.
Status print_bytes(std::span<const std::byte> bytes) {
  std::cout.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
  return std::cout.good() ? Status() : unavailable("stdout: it takes no more bytes");
}

// A sink that counts the rows for the message at the end.
class CountedRows final : public PredictionSink {
 public:
  explicit CountedRows(std::unique_ptr<PredictionSink> sink) : sink_(std::move(sink)) {}
  Status begin(DType dtype, const Shape& shape) override {
    text_ = cat(dtype, shape);
    return sink_->begin(dtype, shape);
  }
  Status take(const Tensor& batch, int64_t rows) override { return sink_->take(batch, rows); }
  const std::string& text() const { return text_; }

 private:
  const std::unique_ptr<PredictionSink> sink_;
  std::string text_;
};

// Predicts into the file or to stdout, and returns the exit code.
int predict_into(const PredictCommand& command, const RunPlace& place, const Job& job,
                 const RunWeights& weights, const DatasetFiles& data, PredictionFormat format,
                 const PredictionForm& form) {
  const Catalogue catalogue = standard_catalogue();
  std::string shape;
  const auto fill = [&](const TakeBytes& take) -> Status {
    CountedRows sink(make_prediction_sink(format, form, take));
    LEAT_RETURN_IF_ERROR(predict_data(catalogue, real_files(), job, weights, data, sink,
                                      [&] { return place.is_interrupted(); }));
    shape = sink.text();
    return {};
  };
  const Status done = command.output.empty()
                          ? fill(print_bytes)
                          : write_file_atomically(real_files(), command.output, fill);
  if (place.is_interrupted()) return place.exit_code_of_interrupt();
  if (!done.ok()) return report(done, command.cluster.color);
  std::cout << std::flush;
  if (!command.output.empty())
    std::cerr << "Wrote " << shape << " to " << printable(command.output) << "\n";
  return kExitOk;
}

// Finds the file of weights: that of the command, or else that of the run. Returns kExitOk, or
// reports the error and returns the exit code.
int find_weights(const PredictCommand& command, RunPlace& place, std::string& path) {
  path = command.weights.empty() ? weights_path(place.folder()) : command.weights;
  if (command.weights.empty() && !place.job().empty()) {
    // The job's file is copied here.
    const auto copied = place.file("weights.safetensors");
    if (!copied.ok()) return place.report(copied.status());
    if (!*copied)
      return place.report(failed_precondition(
          cat("job '", place.job(), "': expected one that has ended with weights")));
  }
  return report_missing("weights file", path, command.cluster.color) ? kExitNoSuch : kExitOk;
}

// Reads the names of classes: those of the command, or those that the run knows.
Result<PredictionForm> form_of(const PredictCommand& command, RunPlace& place) {
  PredictionForm form{command.softmax, command.top};
  if (!command.classes.empty()) {
    LEAT_ASSIGN_OR_RETURN(form.classes, read_classes(command.classes));
    return form;
  }
  if (!place.job().empty()) LEAT_RETURN_IF_ERROR(place.file("classes.txt").status());
  LEAT_ASSIGN_OR_RETURN(form.known_classes, read_class_names(real_files(), place.folder()));
  return form;
}

}  // namespace

int run_predict(const PredictCommand& command) {
  if (const Status keys = use_checkpoint_keys(command.cluster.checkpoint_keys); !keys.ok())
    return report(keys, command.cluster.color);
  RunPlace place(command.cluster);
  if (const int code = place.open(command.run); code != kExitOk) return code;
  std::string weights_file;
  if (const int code = find_weights(command, place, weights_file); code != kExitOk) return code;
  JobOverrides overrides;
  auto data = data_overrides(command.data);
  if (!data.ok()) return report(data.status(), command.cluster.color);
  overrides.set = *std::move(data);
  overrides.set.insert(overrides.set.end(), command.set.begin(), command.set.end());
  auto job = load_run_job(real_files(), place.folder(), overrides);
  if (!job.ok()) return report(job.status(), command.cluster.color);
  PredictInput input;
  if (command.data.empty()) {
    input = input_of_files(command);
    if (input.code != kExitOk) return input.code;
    job->data.transforms = transforms_of_columns(*job, input.columns);
    job->model.inputs = input.columns;
    job->data.columns.clear();
  } else {
    input.data = dataset_files(*job, *job->data.validation);
  }
  if (!command.classes.empty() &&
      report_missing("file of classes", command.classes, command.cluster.color))
    return kExitNoSuch;
  const auto form = form_of(command, place);
  if (!form.ok()) return report(form.status(), command.cluster.color);
  const auto format = format_of(command);
  if (!format.ok()) return report(format.status(), command.cluster.color);
  const auto weights = read_weights_of_file(run_files(), weights_file);
  if (!weights.ok()) return report(weights.status(), command.cluster.color);
  return predict_into(command, place, *job, *weights, input.data, *format, *form);
}

}  // namespace leat
