#include "daemon/cli/data_source.h"

#include <algorithm>

#include "daemon/base/yaml_document.h"
#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"
#include "daemon/spec/read_files.h"
#include "daemon/training/train_specs.h"
#include "devices/base/text.h"
#include "ops/data/guess.h"
#include "ops/data/source_formats.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

bool is_data_map(const std::string& source) { return source.starts_with('{'); }

Result<DatasetFiles> read_data_map(const std::string& text) {
  LEAT_ASSIGN_OR_RETURN(const YamlDocument document,
                        YamlDocument::parse(cat("data: ", text), "SOURCE"));
  YamlReader reader(document);
  YamlMap top = reader.top();
  Job job;
  read_data_files(top.get_map("data", Need::required), job.data.train);
  top.finish();
  LEAT_RETURN_IF_ERROR(reader.status());
  return dataset_files(job, job.data.train);
}

Result<std::vector<NamedData>> data_of_job(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Job job, load_job(path));
  if (!job.has_data())
    return failed_precondition(cat("'", path, "': expected a job with data, received none"));
  std::vector<NamedData> out{{"train", dataset_files(job, job.data.train), {}}};
  if (job.data.validation) {
    const std::string& name = job.data.validation_name;
    out.push_back(
        {name.empty() ? "validation" : name, dataset_files(job, *job.data.validation), {}});
  }
  for (const auto& [name, files] : job.data.more_validation)
    out.push_back({name, dataset_files(job, files), {}});
  return out;
}

}  // namespace

std::string path_of_source(const std::string& source) {
  return is_data_map(source) || is_store_path(source) ? "" : source;
}

Result<std::vector<NamedData>> find_data(Files& files, const std::string& source,
                                         int64_t most_records) {
  if (is_data_map(source)) {
    LEAT_ASSIGN_OR_RETURN(DatasetFiles names, read_data_map(source));
    return std::vector<NamedData>{{"data", std::move(names), {}}};
  }
  if (source.ends_with(".yaml") || source.ends_with(".yml")) return data_of_job(source);
  Files& there = is_store_path(source) ? store_files() : files;
  LEAT_ASSIGN_OR_RETURN(GuessedData guess, guess_dataset(there, source, most_records));
  return std::vector<NamedData>{{"data", std::move(guess.names), std::move(guess.notes)}};
}

std::vector<bool> text_columns(const DatasetFiles& names, const DatasetInfo& info) {
  std::vector<bool> out(info.columns.size(), false);
  const SourceFormat* format = find_source_format(names.format);
  if (!format || format->files_form() == FilesForm::sources) return out;
  const auto options = SourceOptions::parse(format->options(), names.options);
  if (!options.ok()) return out;
  for (const auto& [column, values] : options->columns()) {
    if (!values.has("bytes")) continue;
    for (size_t c = 0; c < out.size(); ++c) {
      const auto view = names.columns.empty() ? parse_column_view(info.columns[c].name)
                                              : parse_column_view(names.columns[c]);
      out[c] = out[c] || (view.ok() && view->column == column);
    }
  }
  return out;
}

}  // namespace leat
