#include "ops/dataset.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

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

Result<Tensor> read_array(Files& files, const std::string& format, const std::string& root,
                          const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(root, name));
  Result<Tensor> array = format == "npy" ? read_npy(files, path) : read_idx(files, path);
  if (array.ok() && array->shape().rank() == 0) {
    return invalid_argument(cat(path, ": expected an array of records, received a scalar"));
  }
  return array;
}

}  // namespace

Result<std::string> resolve_below(const std::string& root, const std::string& path) {
  if (path.empty()) return invalid_argument("a data set's path: expected a file, received ''");
  if (root.empty()) return path;
  const fs::path relative(path);
  const bool climbs = std::find(relative.begin(), relative.end(), fs::path("..")) != relative.end();
  if (relative.is_absolute() || climbs) {
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
  if (names.format != "idx" && names.format != "npy") {
    return invalid_argument(cat("format: expected 'idx' or 'npy', received '", names.format, "'"));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor features,
                        read_array(files, names.format, names.root, names.features));
  LEAT_ASSIGN_OR_RETURN(Tensor labels, read_array(files, names.format, names.root, names.labels));
  if (features.shape()[0] != labels.shape()[0]) {
    return invalid_argument(cat("'", names.labels, "': expected ", features.shape()[0],
                                " labels, as '", names.features, "' has records, received ",
                                labels.shape()[0]));
  }
  if (features.shape()[0] == 0) {
    return invalid_argument(
        cat("'", names.features, "': expected at least one record, received none"));
  }
  return std::unique_ptr<Dataset>(new Dataset(std::move(features), std::move(labels)));
}

Result<const Dataset*> Dataset::find_or_open(JobResources& resources, const DatasetFiles& names) {
  const std::string key =
      join(std::vector<std::string>{names.format, names.root, names.features, names.labels}, "\n");
  auto found = resources.find_or_make("dataset", key, [&]() -> Result<std::unique_ptr<Resource>> {
    LEAT_ASSIGN_OR_RETURN(auto opened, open(real_files(), names));
    return std::unique_ptr<Resource>(std::move(opened));
  });
  if (!found.ok()) return found.status();
  return static_cast<const Dataset*>(*found);
}

Result<DatasetInfo> inspect_dataset(const std::string& format, const std::string& features_path,
                                    const std::string& labels_path, const std::string& root) {
  auto opened = Dataset::open(real_files(), {format, features_path, labels_path, root});
  if (!opened.ok()) return opened.status();
  return (*opened)->info();
}

}  // namespace leat
