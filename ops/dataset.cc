#include "ops/dataset.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "ops/formats/idx.h"
#include "ops/formats/npy.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// True if `path` is `root` or lies below it. Both are absolute and normal.
bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

Shape without_first(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

Status expected_records(const std::string& path) {
  return invalid_argument(cat(path, ": expected an array of records, received a scalar"));
}

Result<Tensor> read_array(Files& files, const std::string& format, const std::string& root,
                          const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(root, name));
  Result<Tensor> array = format == "npy" ? read_npy(files, path) : read_idx(files, path);
  if (array.ok() && array->shape().rank() == 0) return expected_records(path);
  return array;
}

Status check_format(const std::string& format) {
  if (format == "idx" || format == "npy") return {};
  return invalid_argument(cat("format: expected 'idx' or 'npy', received '", format, "'"));
}

// That the two belong together.
Status check_pair(const DatasetFiles& names, const Shape& features, const Shape& labels) {
  if (features[0] != labels[0]) {
    return invalid_argument(cat("'", names.labels, "': expected ", features[0], " labels, as '",
                                names.features, "' has records, received ", labels[0]));
  }
  if (features[0] > 0) return {};
  return invalid_argument(
      cat("'", names.features, "': expected at least one record, received none"));
}

Result<ArrayHeader> read_header(Files& files, const DatasetFiles& names, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(names.root, name));
  auto header = names.format == "npy" ? read_npy_header(files, path) : read_idx_header(files, path);
  if (header.ok() && header->shape.rank() == 0) return expected_records(path);
  return header;
}

bool leaves_root(const fs::path& path) {
  return path.is_absolute() || std::find(path.begin(), path.end(), fs::path("..")) != path.end();
}

// Paths are resolved by the system alone, out of sight of who bounds the reading: whether the file
// system answers shows before.
void look_up(Files& files, const DatasetFiles& names) {
  for (const std::string& name : {names.features, names.labels}) {
    const bool inside = names.root.empty() || !leaves_root(name);
    if (inside) (void)files.exists((fs::path(names.root) / name).string());
  }
}

// How long a job's readers wait for their files.
class Patience final : public Resource {
 public:
  std::string_view kind() const override { return "patience"; }
  void set(ReadingLimits limits) {
    const std::lock_guard lock(mutex_);
    limits_ = std::move(limits);
  }
  ReadingLimits get() const {
    const std::lock_guard lock(mutex_);
    return limits_;
  }

 private:
  mutable std::mutex mutex_;
  ReadingLimits limits_;
};

Patience& patience_of(JobResources& resources) {
  const auto made =
      resources.find_or_make("patience", "", []() -> Result<std::unique_ptr<Resource>> {
        return std::unique_ptr<Resource>(new Patience());
      });
  return static_cast<Patience&>(**made);
}

}  // namespace

Result<std::string> resolve_below(const std::string& root, const std::string& path) {
  if (path.empty()) return invalid_argument("a data set's path: expected a file, received ''");
  if (root.empty()) return path;
  const fs::path relative(path);
  if (leaves_root(relative)) {
    return invalid_argument(
        cat("'", path, "': expected a path below the data root '", root, "', without '..'"));
  }
  const fs::path whole = fs::path(root) / relative;
  std::error_code error;
  const fs::path real_root = fs::canonical(root, error);
  if (error) {
    return failed_precondition(
        cat("data root '", root, "': expected a directory: ", error.message()));
  }
  const fs::path real = fs::weakly_canonical(whole, error);
  if (error) return failed_precondition(cat("'", whole.string(), "': ", error.message()));
  if (!is_below(real, real_root)) {
    return invalid_argument(cat("'", path, "': expected a path below the data root '", root,
                                "', links lead to '", real.string(), "'"));
  }
  return real.string();
}

Dataset::Dataset(Tensor features, Tensor labels)
    : features_(std::move(features)), labels_(std::move(labels)) {
  info_.count = features_.shape()[0];
  info_.record_shape = without_first(features_.shape());
  info_.record_dtype = features_.dtype();
  info_.label_shape = without_first(labels_.shape());
  info_.label_dtype = labels_.dtype();
  record_bytes_ =
      info_.record_shape.elements() * static_cast<int64_t>(dtype_size(info_.record_dtype));
  label_bytes_ = info_.label_shape.elements() * static_cast<int64_t>(dtype_size(info_.label_dtype));
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& files, const DatasetFiles& names) {
  LEAT_RETURN_IF_ERROR(check_format(names.format));
  LEAT_ASSIGN_OR_RETURN(Tensor features,
                        read_array(files, names.format, names.root, names.features));
  LEAT_ASSIGN_OR_RETURN(Tensor labels, read_array(files, names.format, names.root, names.labels));
  LEAT_RETURN_IF_ERROR(check_pair(names, features.shape(), labels.shape()));
  return std::unique_ptr<Dataset>(new Dataset(std::move(features), std::move(labels)));
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& files, const DatasetFiles& names,
                                               const ReadingLimits& limits) {
  return read_within<std::unique_ptr<Dataset>>(
      files, limits, [names](Files& bounded) -> Result<std::unique_ptr<Dataset>> {
        look_up(bounded, names);
        return open(bounded, names);
      });
}

void Dataset::limit_reading(JobResources& resources, ReadingLimits limits) {
  patience_of(resources).set(std::move(limits));
}

Result<const Dataset*> Dataset::find_or_open(JobResources& resources, const DatasetFiles& names) {
  const std::string key =
      join(std::vector<std::string>{names.format, names.root, names.features, names.labels}, "\n");
  const ReadingLimits limits = patience_of(resources).get();
  auto found = resources.find_or_make("dataset", key, [&]() -> Result<std::unique_ptr<Resource>> {
    LEAT_ASSIGN_OR_RETURN(auto opened, open(real_files(), names, limits));
    return std::unique_ptr<Resource>(std::move(opened));
  });
  if (!found.ok()) return found.status();
  return static_cast<const Dataset*>(*found);
}

Result<DatasetInfo> inspect_dataset(Files& files, const DatasetFiles& names) {
  LEAT_RETURN_IF_ERROR(check_format(names.format));
  LEAT_ASSIGN_OR_RETURN(const ArrayHeader features, read_header(files, names, names.features));
  LEAT_ASSIGN_OR_RETURN(const ArrayHeader labels, read_header(files, names, names.labels));
  LEAT_RETURN_IF_ERROR(check_pair(names, features.shape, labels.shape));
  return DatasetInfo{features.shape[0], without_first(features.shape), features.dtype,
                     without_first(labels.shape), labels.dtype};
}

Status check_classes(Files& files, const DatasetFiles& names, int64_t classes) {
  LEAT_ASSIGN_OR_RETURN(const Tensor labels,
                        read_array(files, names.format, names.root, names.labels));
  const int64_t rows = labels.shape()[0];
  for (int64_t i = 0, n = labels.elements(); i < n; ++i) {
    const int64_t label = labels.int_at(i);
    if (label >= 0 && label < classes) continue;
    return invalid_argument(cat("'", names.labels, "': label of row ", i / (n / rows),
                                ": expected in [0, ", classes - 1, "], received ", label));
  }
  return {};
}

Result<std::string> fingerprint(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  const uint64_t size = file->size(), first = std::min(size, kPiece),
                 last = std::min(size - first, kPiece);
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

Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names, int64_t classes,
                                     const ReadingLimits& limits) {
  return read_within<DatasetReport>(files, limits,
                                    [names, classes](Files& bounded) -> Result<DatasetReport> {
                                      look_up(bounded, names);
                                      return report_dataset(bounded, names, classes);
                                    });
}

Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names, int64_t classes) {
  const auto print = [&](const std::string& name) -> Result<std::string> {
    LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(names.root, name));
    return fingerprint(files, path);
  };
  DatasetReport report;
  LEAT_ASSIGN_OR_RETURN(report.info, inspect_dataset(files, names));
  LEAT_ASSIGN_OR_RETURN(report.features_print, print(names.features));
  LEAT_ASSIGN_OR_RETURN(report.labels_print, print(names.labels));
  if (classes > 0) LEAT_RETURN_IF_ERROR(check_classes(files, names, classes));
  return report;
}

}  // namespace leat
