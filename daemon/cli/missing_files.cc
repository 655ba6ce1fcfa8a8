#include "daemon/cli/missing_files.h"

#include <algorithm>

#include "daemon/training/train_specs.h"
#include "devices/base/glob.h"
#include "ops/data/dataset_files.h"
#include "ops/data/source_formats.h"
#include "ops/data/stores/store_files.h"

namespace leat {

bool report_missing_root(const Job& job, ColorMode color) {
  return !job.data.root.empty() && !is_store_path(job.data.root) &&
         report_missing("data root", job.data.root, color);
}

bool report_missing_files(const Job& job, ColorMode color) {
  // The names of data files are relative to the data root.
  const auto missing_data = [&](const Job::Files& files) {
    // Files that a store lacks are found when the data is opened.
    if (reads_store(dataset_files(job, files))) return false;
    return std::any_of(files.files.begin(), files.files.end(), [&](const std::string& each) {
      const SourceFormat* format = find_source_format(files.format);
      const bool named = format && format->files_form() == FilesForm::columns;
      const std::string name = named ? each.substr(each.find('=') + 1) : each;
      // A pattern that matches nothing is found when the data is opened.
      return !is_glob(name) && report_missing("data file", job.data.root + "/" + name, color);
    });
  };
  // Only the first missing file is named: one cause, such as a wrong folder, often has many
  // results.
  if (report_missing("graph file", job.model.graph, color)) return true;
  if (!job.model.weights.empty() && report_missing("weights file", job.model.weights, color)) {
    return true;
  }
  if (!job.has_data()) return false;
  if (report_missing_root(job, color)) return true;
  if (missing_data(job.data.train)) return true;
  if (job.data.validation && missing_data(*job.data.validation)) return true;
  return std::any_of(job.data.more_validation.begin(), job.data.more_validation.end(),
                     [&](const auto& named) { return missing_data(named.second); });
}

}  // namespace leat
