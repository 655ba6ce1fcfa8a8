#include "daemon/cli/missing_files.h"

namespace leat {

bool report_missing_files(const Job& job, ColorMode color) {
  // The names of data files are relative to the data root.
  const auto missing_data = [&](const Job::Files& files) {
    const std::string folder = job.data.root + "/";
    return report_missing("data file", folder + files.features, color) ||
           report_missing("data file", folder + files.labels, color);
  };
  // Only the first missing file is named: one cause, such as a wrong folder, often has many
  // results.
  if (report_missing("graph file", job.model.graph, color)) return true;
  if (!job.model.weights.empty() && report_missing("weights file", job.model.weights, color)) {
    return true;
  }
  if (report_missing("data root", job.data.root, color) || missing_data(job.data.train))
    return true;
  return job.data.validation && missing_data(*job.data.validation);
}

}  // namespace leat
