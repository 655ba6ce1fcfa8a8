#include "ops/data/dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "devices/base/counted.h"
#include "devices/base/crc32c.h"
#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "ops/data/dataset_memory.h"
#include "ops/data/path_text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/mixture.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// Finds the columns that are read among those of the files.
Status find_parts(OpenedSource& opened) {
  const std::vector<ColumnInfo>& stored = opened.source->info().columns;
  opened.info.count = opened.source->info().count;
  opened.info.first_rows = opened.source->info().first_rows;
  opened.wanted.assign(stored.size(), false);
  std::vector<std::string> names;
  for (const ColumnInfo& column : stored) names.push_back(column.name);
  std::vector<std::string> wanted = opened.names.columns;
  if (wanted.empty()) wanted = names;
  for (const std::string& each : wanted) {
    LEAT_ASSIGN_OR_RETURN(const ColumnView view, parse_column_view(each));
    const auto found = std::find(names.begin(), names.end(), view.column);
    if (found == names.end()) {
      return invalid_argument(cat("column '", view.column, "': expected one of ", join(names, ", "),
                                  did_you_mean(view.column, names)));
    }
    const auto index = static_cast<size_t>(found - names.begin());
    LEAT_ASSIGN_OR_RETURN(ColumnPart part, part_of(view, stored[index]));
    opened.wanted[index] = true;
    opened.info.columns.push_back(part.info);
    opened.views.push_back({index, part.offset});
    opened.parts.push_back(std::move(part));
  }
  return {};
}

Result<std::vector<SourceFile>> places_of(const DatasetFiles& names, FilesForm form) {
  std::vector<SourceFile> out;
  if (form == FilesForm::sources) return out;
  for (const std::string& each : names.files) {
    SourceFile file{"", each, ""};
    if (form == FilesForm::columns) {
      LEAT_ASSIGN_OR_RETURN(const auto named, parse_named_file(each));
      file.column = named.first;
      file.name = named.second;
    }
    LEAT_ASSIGN_OR_RETURN(file.path, resolve_below(names.root, file.name));
    out.push_back(std::move(file));
  }
  return out;
}

// The names without patterns, and the places of their files. REQUIRES: check_dataset_files().
Result<OpenedSource> find_places(Files& files, const DatasetFiles& names) {
  const FilesForm form = find_source_format(names.format)->files_form();
  OpenedSource found;
  found.names = names;
  if (form == FilesForm::patterns) {
    LEAT_ASSIGN_OR_RETURN(found.names.files, expand_patterns(files, names.root, names.files));
  }
  LEAT_ASSIGN_OR_RETURN(found.places, places_of(found.names, form));
  return found;
}

}  // namespace

Result<OpenedSource> open_source(Files& files, const DatasetFiles& names, uint64_t large_array) {
  LEAT_RETURN_IF_ERROR(check_dataset_files(names));
  const SourceFormat& format = *find_source_format(names.format);
  LEAT_ASSIGN_OR_RETURN(OpenedSource opened, find_places(files, names));
  LEAT_ASSIGN_OR_RETURN(SourceOptions options,
                        SourceOptions::parse(format.options(), names.options));
  const SourceSetup setup{files, opened.names, opened.places, std::move(options), large_array};
  LEAT_ASSIGN_OR_RETURN(opened.source, format.open(setup));
  LEAT_RETURN_IF_ERROR(find_parts(opened));
  return opened;
}

namespace {

// The memory of the machine or, if that is less, of the container.
uint64_t machine_memory() {
  uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                    static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  uint64_t limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit) memory = std::min(memory, limit);
  return memory;
}

// Rows of a disk are read ahead into the system's memory for files; those of a store into the cache
// of its blocks, of which half is left to the rows that are being read.
ReadingAhead reading_ahead(const OpenedSource& opened, uint64_t memory) {
  constexpr uint64_t kPage = 4096;
  const StoreOptions store;
  if (reads_store(opened.names)) return {store.cache_bytes / 2, store.block_bytes, 4, false};
  const uint64_t bytes = std::min(uint64_t{256} << 20, memory / 8);
  return {bytes, kPage, 1, opened.source->file_bytes() > memory / 2};
}

Result<std::unique_ptr<Dataset>> attach(Files& files, OpenedSource opened,
                                        uint64_t memory = machine_memory()) {
  LEAT_RETURN_IF_ERROR(opened.source->attach(files));
  const ReadingAhead ahead = reading_ahead(opened, memory);
  return std::make_unique<Dataset>(std::move(opened.info), std::move(opened.source),
                                   std::move(opened.views), ahead);
}

// Looks the files up through `files`, which may bound the time. The later resolution of the paths
// calls the operating system without a bound: this shows first whether the file system responds.
void look_up(Files& files, const DatasetFiles& names) {
  if (reads_store(names)) return;  // whose paths need no look at the operating system
  const SourceFormat* format = find_source_format(names.format);
  const bool named = format && format->files_form() == FilesForm::columns;
  for (const std::string& each : names.files) {
    const size_t equals = named ? each.find('=') : std::string::npos;
    const std::string name = equals == std::string::npos ? each : each.substr(equals + 1);
    const bool inside = names.root.empty() || !leaves_root(name);
    const fs::path path = fs::path(names.root) / name;
    if (inside) (void)files.exists(is_glob(name) ? path.parent_path().string() : path.string());
  }
}

// The reading rules of a job: how long its readers wait for files, and how much memory they get.
class Manners final : public Resource {
 public:
  struct Rules {
    ReadingLimits limits;
    GrantMemory grant;
  };
  std::string_view kind() const override { return "manners"; }
  void set_limits(ReadingLimits limits) {
    const std::lock_guard lock(mutex_);
    rules_.limits = std::move(limits);
  }
  void set_grant(GrantMemory grant) {
    const std::lock_guard lock(mutex_);
    rules_.grant = std::move(grant);
  }
  // Returns a copy, because a read may take long and the rules may change in the meantime.
  Rules get() const {
    const std::lock_guard lock(mutex_);
    return rules_;
  }

 private:
  mutable std::mutex mutex_;
  Rules rules_;
};

Manners& manners_of(JobResources& resources) {
  const auto made =
      resources.find_or_make("manners", "", []() -> Result<std::unique_ptr<Resource>> {
        return std::unique_ptr<Resource>(new Manners());
      });
  return static_cast<Manners&>(**made);
}

// The files of a data set that reads a store are there, and not in `files`.
Files& files_of(Files& files, const DatasetFiles& names) {
  return reads_store(names) ? store_files() : files;
}

// The limits for reading these files. A store has an answer in time of its own patience, and the
// time of a disk would cut its repetitions short.
ReadingLimits limits_for(const DatasetFiles& names, ReadingLimits limits) {
  constexpr std::chrono::milliseconds kReport{5000};  // so that the store's own error comes first
  if (reads_store(names)) limits.answer = std::max(limits.answer, kStorePatience + kReport);
  return limits;
}

// The calling thread asks for the memory, and not the reading thread, which may be abandoned.
Result<std::unique_ptr<Dataset>> open_granted(Files& local, const DatasetFiles& names,
                                              const Manners::Rules& rules) {
  Files& files = files_of(local, names);
  const ReadingLimits limits = limits_for(names, rules.limits);
  // The reading threads own what they use, because they may be abandoned.
  using Shared = std::shared_ptr<OpenedSource>;
  LEAT_ASSIGN_OR_RETURN(
      const Shared opened,
      read_within<Shared>(files, limits, [names](Files& bounded) -> Result<Shared> {
        look_up(bounded, names);
        LEAT_ASSIGN_OR_RETURN(OpenedSource made, open_source(bounded, names, kLargeArray));
        return std::make_shared<OpenedSource>(std::move(made));
      }));
  // Memory is asked for by the headers, before the elements are read. The files may change until
  // then, so the sizes in the headers are the limits of the second read.
  const uint64_t memory = opened->source->memory(opened->wanted);
  if (rules.grant && memory > 0) {
    const std::string& name = opened->places.empty() ? names.format : opened->places[0].name;
    LEAT_RETURN_IF_ERROR(rules.grant(name, memory));
  }
  LEAT_RETURN_IF_ERROR(read_within(files, limits, [opened](Files& bounded) {
    return opened->source->load(bounded, opened->wanted);
  }));
  // Files that stay open outlive the bounded file system. They have answered a moment ago.
  return attach(files, std::move(*opened));
}

// All parts of the names: readers of other files or columns get a data set of their own.
std::string key_of(const DatasetFiles& names) {
  return join(
      std::vector<std::string>{names.format, names.root, join(names.files, "\n"),
                               join(names.columns, "\n"), std::to_string(names.window),
                               std::to_string(names.stride), std::string(dtype_name(names.element)),
                               join(names.options, "\n")},
      "\n\n");
}

}  // namespace

Dataset::Dataset(DatasetInfo info, std::unique_ptr<Source> source, std::vector<SourceView> views,
                 ReadingAhead ahead)
    : info_(std::move(info)), source_(std::move(source)), views_(std::move(views)), ahead_(ahead) {
  for (size_t c = 0; c < views_.size() && source_->takes_advice(); ++c) {
    if (info_.columns[c].row_bytes() == 0 || in_memory(c, 0)) continue;
    const size_t column = views_[c].column;
    if (std::find(in_files_.begin(), in_files_.end(), column) == in_files_.end())
      in_files_.push_back(column);
  }
}

void Dataset::advise(int64_t row, ReadAdvice advice) const {
  if (reads_files()) source_->advise(row, in_files_, advice);
}

int64_t Dataset::most_steps_ahead() const {
  constexpr uint64_t kMost = 64;
  uint64_t row = 0;
  for (const size_t column : in_files_)
    row += static_cast<uint64_t>(source_->info().columns[column].row_bytes());
  const auto rows = static_cast<uint64_t>(std::max<int64_t>(1, rows_of_readers_.load()));
  return static_cast<int64_t>(
      std::min(kMost, ahead_.bytes / std::max(row, ahead_.least_row) / rows));
}

const std::byte* Dataset::in_memory(size_t column, int64_t row) const {
  const SourceView& view = views_[column];
  const std::byte* memory = source_->in_memory(view.column, row);
  return memory ? memory + view.offset : nullptr;
}

Status Dataset::read(size_t column, int64_t row, std::span<std::byte> out) const {
  const RowPart part{views_[column].column, views_[column].offset, out};
  return source_->read(row, {&part, 1});
}

Status Dataset::read_row(int64_t row, std::span<std::byte* const> outs) const {
  return read_row(row, {0, static_cast<uint64_t>(row)}, outs);
}

Status Dataset::read_row(int64_t row, const RowKey& key, std::span<std::byte* const> outs) const {
  std::vector<RowPart> parts;
  parts.reserve(outs.size());
  for (size_t c = 0; c < outs.size(); ++c) {
    const auto bytes = static_cast<size_t>(info_.columns[c].row_bytes());
    if (outs[c] && bytes > 0)
      parts.push_back({views_[c].column, views_[c].offset, {outs[c], bytes}});
  }
  return parts.empty() ? Status() : source_->read_drawn(row, key, parts);
}

std::vector<std::string> Dataset::class_names(size_t column) const {
  return source_->class_names(views_[column].column);
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& local, const DatasetFiles& names,
                                               uint64_t large_array) {
  return open(local, names, large_array, machine_memory());
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& local, const DatasetFiles& names,
                                               uint64_t large_array, uint64_t memory) {
  Files& files = files_of(local, names);
  LEAT_ASSIGN_OR_RETURN(OpenedSource opened, open_source(files, names, large_array));
  LEAT_RETURN_IF_ERROR(opened.source->load(files, opened.wanted));
  return attach(files, std::move(opened), memory);
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& files, const DatasetFiles& names,
                                               const ReadingLimits& limits) {
  return open_granted(files, names, {limits, {}});
}

void Dataset::limit_reading(JobResources& resources, ReadingLimits limits) {
  manners_of(resources).set_limits(std::move(limits));
}

void limit_dataset_memory(JobResources& resources, GrantMemory grant) {
  manners_of(resources).set_grant(std::move(grant));
}

Result<const Dataset*> Dataset::find_or_open(JobResources& resources, const DatasetFiles& names) {
  // The rules are read first: they are a resource as well, and find_or_make() holds the table's
  // lock while it opens the files.
  const Manners::Rules rules = manners_of(resources).get();
  auto found =
      resources.find_or_make("dataset", key_of(names), [&]() -> Result<std::unique_ptr<Resource>> {
        LEAT_ASSIGN_OR_RETURN(auto dataset, open_granted(real_files(), names, rules));
        return std::unique_ptr<Resource>(std::move(dataset));
      });
  if (!found.ok()) return found.status();
  return static_cast<const Dataset*>(*found);
}

Result<DatasetInfo> inspect_dataset(Files& files, const DatasetFiles& names) {
  LEAT_ASSIGN_OR_RETURN(const OpenedSource opened,
                        open_source(files_of(files, names), names, kLargeArray));
  return opened.info;
}

namespace {

Status check_opened(Files& files, OpenedSource& opened, const ClassCheck& check) {
  for (size_t i = 0; i < opened.parts.size(); ++i) {
    if (opened.parts[i].info.name != check.column) continue;
    LEAT_RETURN_IF_ERROR(
        opened.source->check_classes(files, check, opened.views[i].column, opened.parts[i]));
  }
  return {};
}

}  // namespace

Status check_classes(Files& local, const DatasetFiles& names, const ClassCheck& check) {
  Files& files = files_of(local, names);
  LEAT_ASSIGN_OR_RETURN(OpenedSource opened, open_source(files, names, kLargeArray));
  return check_opened(files, opened, check);
}

Result<std::string> fingerprint(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  constexpr uint64_t kEnd = uint64_t{1} << 20;
  // The two parts do not overlap: a file of less than two MiB is read once.
  const uint64_t size = file->size(), first = std::min(size, kEnd),
                 last = std::min(size - first, kEnd);
  Bytes bytes(static_cast<size_t>(std::max(first, last)));
  const std::span<std::byte> all(bytes);
  LEAT_RETURN_IF_ERROR(file->read(0, all.first(first)));
  uint32_t checksum = crc32c(all.first(first));
  LEAT_RETURN_IF_ERROR(file->read(size - last, all.first(last)));
  checksum = crc32c(all.first(last), checksum);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%08x", checksum);
  return cat(size, " bytes, crc32c ", digits);
}

namespace {

Status add_prints(Files& files, const OpenedSource& found, DatasetReport& report) {
  const SourceFormat& format = *find_source_format(found.names.format);
  for (const SourceFile& place : found.places) {
    LEAT_ASSIGN_OR_RETURN(std::string print, format.print(files, place.path));
    report.prints.push_back(std::move(print));
  }
  return {};
}

// The files of the parts of a mixture, each with the name of its part before its own.
Status add_parts(Files& files, const DatasetFiles& names, DatasetReport& report) {
  report.files.clear();
  for (const MixturePart& part : mixture_parts(names)) {
    LEAT_ASSIGN_OR_RETURN(const OpenedSource found, find_places(files, part.names));
    for (const std::string& each : found.names.files)
      report.files.push_back(cat(part.name, ":", each));
    LEAT_RETURN_IF_ERROR(add_prints(files, found, report));
  }
  return {};
}

// Finds the names of classes, of the column `labels` or else of the first one that has any, and
// adds a sentence with the first of them.
void report_classes(const Source& source, DatasetReport& report) {
  constexpr size_t kShown = 20;
  const size_t columns = source.info().columns.size();
  size_t column = columns;
  for (size_t c = columns; c-- > 0;) {
    if (source.class_names(c).empty()) continue;
    column = c;
    if (source.info().columns[c].name == "labels") break;
  }
  if (column == columns) return;
  const std::vector<std::string> names = source.class_names(column);
  report.classes = names;
  std::string text = cat("the classes of '", source.info().columns[column].name, "' are ");
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += cat(i == 0 ? "" : ", ", i, " '", names[i], "'");
  if (names.size() > kShown) text += cat(" and ", names.size() - kShown, " more");
  report.notes.push_back(std::move(text));
}

Result<DatasetReport> report_opened(Files& files, OpenedSource& opened, const ClassCheck& check) {
  DatasetReport report{opened.info, opened.names.files, {}, {}};
  if (find_source_format(opened.names.format)->files_form() == FilesForm::sources)
    LEAT_RETURN_IF_ERROR(add_parts(files, opened.names, report));
  LEAT_RETURN_IF_ERROR(add_prints(files, opened, report));
  if (const int64_t skipped = opened.source->skipped(); skipped > 0) {
    report.notes.push_back(cat("left out ", counted(skipped, "bad record"), " of the data, first ",
                               opened.source->first_skipped()));
  }
  report_classes(*opened.source, report);
  if (check.classes > 0) LEAT_RETURN_IF_ERROR(check_opened(files, opened, check));
  return report;
}

Result<DatasetReport> report_of(Files& files, const DatasetFiles& names, const ClassCheck& check) {
  LEAT_ASSIGN_OR_RETURN(OpenedSource opened, open_source(files, names, kLargeArray));
  return report_opened(files, opened, check);
}

}  // namespace

Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names,
                                     const ClassCheck& check) {
  return report_of(files_of(files, names), names, check);
}

Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names,
                                     const ClassCheck& check, const ReadingLimits& limits) {
  return read_within<DatasetReport>(files_of(files, names), limits_for(names, limits),
                                    [names, check](Files& bounded) -> Result<DatasetReport> {
                                      look_up(bounded, names);
                                      return report_of(bounded, names, check);
                                    });
}

Result<ReportedDataset> open_reported(Files& local, const DatasetFiles& names,
                                      uint64_t large_array) {
  Files& files = files_of(local, names);
  LEAT_ASSIGN_OR_RETURN(OpenedSource opened, open_source(files, names, large_array));
  ReportedDataset out;
  LEAT_ASSIGN_OR_RETURN(out.report, report_opened(files, opened, {}));
  LEAT_RETURN_IF_ERROR(opened.source->load(files, opened.wanted));
  LEAT_ASSIGN_OR_RETURN(out.data, attach(files, std::move(opened)));
  return out;
}

}  // namespace leat
