#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/cli/commands.h"
#include "daemon/training/predictor.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/idx.h"
#include "ops/formats/npy.h"

namespace leat {
namespace {

// The extension decides the format of the input. All names but .npy are IDX, also with .gz.
bool ends_with_npy(const std::string& path) { return path.ends_with(".npy"); }

Result<Tensor> read_input(const std::string& path) {
  return ends_with_npy(path) ? read_npy(real_files(), path) : read_idx(real_files(), path);
}

// The class with the highest score in this row of a tensor [rows, classes]. Of equal ones it is the
// first.
int64_t best_class(const Tensor& scores, int64_t row, int64_t classes) {
  int64_t best = 0;
  for (int64_t c = 1; c < classes; ++c) {
    if (scores.at(row * classes + c) > scores.at(row * classes + best)) best = c;
  }
  return best;
}

// Prints the best class of each row of the output. The elements of a row count as its scores,
// whatever their shape is.
void print_classes(const Tensor& output, bool json) {
  const int64_t rows = output.shape().rank() > 0 ? output.shape()[0] : 1;
  const int64_t classes = rows == 0 ? 0 : output.elements() / rows;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t best = best_class(output, row, classes);
    if (!json) {
      std::cout << best << "\n";
      continue;
    }
    JsonLine line;
    std::cout << line.add("row", row)
                     .add("class", best)
                     .add("score", output.at(row * classes + best))
                     .text();
  }
}

}  // namespace

int run_predict(const PredictCommand& command) {
  if (report_missing("run", command.run + "/job.yaml", command.color)) return kExitNoSuch;
  if (report_missing("weights file", command.run + "/weights.safetensors", command.color)) {
    return kExitNoSuch;
  }
  PredictInputs inputs;
  for (const std::string& each : command.inputs) {
    // A path may have '=', too: only what could be a name of an input is one.
    const size_t equals = each.find('=');
    const bool named = equals != std::string::npos && equals < each.find('/');
    const std::string path = named ? each.substr(equals + 1) : each;
    if (report_missing("input file", path, command.color)) return kExitNoSuch;
    auto input = read_input(path);
    if (!input.ok()) return report(input.status(), command.color);
    inputs[named ? each.substr(0, equals) : ""] = std::move(input).value();
  }
  const Catalogue catalogue = standard_catalogue();
  const auto output = predict(catalogue, real_files(), command.run, inputs);
  if (!output.ok()) return report(output.status(), command.color);
  if (command.output.empty()) {
    if (output->shape().rank() > 0 && output->shape()[0] > 0 && output->elements() == 0)
      return report(
          invalid_argument(cat("the output of the model: expected scores in each row, it is ",
                               output->dtype(), output->shape())),
          command.color);
    print_classes(*output, command.json);
    return kExitOk;
  }
  const Status written = write_npy(real_files(), command.output, *output);
  if (!written.ok()) return report(written, command.color);
  std::cerr << "Wrote " << output->dtype() << output->shape() << " to " << printable(command.output)
            << "\n";
  return kExitOk;
}

}  // namespace leat
