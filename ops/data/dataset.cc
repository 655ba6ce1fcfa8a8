#include "ops/data/dataset.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <system_error>

#include "devices/base/crc32c.h"
#include "devices/base/text.h"
#include "ops/data/dataset_memory.h"
#include "ops/formats/array_file.h"
#include "ops/formats/idx.h"
#include "ops/formats/npy.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// True if `path` is `root` or is below it. Both are absolute and normal.
bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

// The shape of one record, without the number of records.
Shape without_first(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

Status expected_records(const std::string& path) {
  return invalid_argument(cat(path, ": expected an array of records, received a scalar"));
}

// Opens a file of the data set below its root and reads its header.
Result<ArrayFile> open_array(Files& files, const DatasetFiles& names, const std::string& name,
                             uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(names.root, name));
  const bool npy = names.format == "npy";
  const uint64_t most = std::min(limit, npy ? kNpyBytes : kIdxBytes);
  auto file = ArrayFile::open(files, path, npy ? npy_format() : idx_format(), most);
  if (file.ok() && file->header().shape.rank() == 0) return expected_records(path);
  return file;
}

// The bytes of memory that the elements take while they are read.
uint64_t memory_of(const ArrayHeader& header) {
  const uint64_t bytes = static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
  return header.fortran_order ? 2 * bytes : bytes;
}

// The size of header and elements: a file that is replaced in the meantime must not be larger.
uint64_t file_bytes(const ArrayHeader& header) {
  return header.offset + static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
}

Status check_format(const std::string& format) {
  if (format == "idx" || format == "npy") return {};
  return invalid_argument(cat("format: expected 'idx' or 'npy', received '", format, "'"));
}

// Checks that features and labels belong together.
Status check_pair(const DatasetFiles& names, const Shape& features, const Shape& labels) {
  if (features[0] != labels[0]) {
    return invalid_argument(cat("'", names.labels, "': expected ", features[0], " labels, as '",
                                names.features, "' has records, received ", labels[0]));
  }
  if (features[0] > 0) return {};
  return invalid_argument(
      cat("'", names.features, "': expected at least one record, received none"));
}

struct Headers {
  ArrayHeader features, labels;
};

// Reads no elements: a caller decides by the headers whether there is memory for them.
Result<Headers> read_headers(Files& files, const DatasetFiles& names) {
  LEAT_RETURN_IF_ERROR(check_format(names.format));
  LEAT_ASSIGN_OR_RETURN(const ArrayFile features,
                        open_array(files, names, names.features, UINT64_MAX));
  LEAT_ASSIGN_OR_RETURN(const ArrayFile labels, open_array(files, names, names.labels, UINT64_MAX));
  LEAT_RETURN_IF_ERROR(check_pair(names, features.header().shape, labels.header().shape));
  return Headers{features.header(), labels.header()};
}

// Looks at the text of the path only; links are followed later, in resolve_below().
bool leaves_root(const fs::path& path) {
  return path.is_absolute() || std::find(path.begin(), path.end(), fs::path("..")) != path.end();
}

// Looks up both files through `files`, which may bound the time. The later resolution of the paths
// calls the operating system without a bound: this shows first whether the file system responds.
void look_up(Files& files, const DatasetFiles& names) {
  for (const std::string& name : {names.features, names.labels}) {
    const bool inside = names.root.empty() || !leaves_root(name);
    if (inside) (void)files.exists((fs::path(names.root) / name).string());
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

struct Arrays {
  Tensor features, labels;
};

// Reads files of at most these sizes, inflated.
Result<Arrays> read_arrays(Files& files, const DatasetFiles& names, uint64_t features_limit,
                           uint64_t labels_limit) {
  LEAT_ASSIGN_OR_RETURN(ArrayFile features,
                        open_array(files, names, names.features, features_limit));
  LEAT_ASSIGN_OR_RETURN(ArrayFile labels, open_array(files, names, names.labels, labels_limit));
  // Both headers are checked before the elements are read.
  LEAT_RETURN_IF_ERROR(check_pair(names, features.header().shape, labels.header().shape));
  Arrays read;
  LEAT_ASSIGN_OR_RETURN(read.features, features.read_all());
  LEAT_ASSIGN_OR_RETURN(read.labels, labels.read_all());
  return read;
}

// The calling thread asks for the memory, and not the reading thread, which may be abandoned.
Result<Arrays> read_granted(Files& files, const DatasetFiles& names, const Manners::Rules& rules) {
  LEAT_ASSIGN_OR_RETURN(
      const Headers headers,
      read_within<Headers>(files, rules.limits, [names](Files& bounded) -> Result<Headers> {
        look_up(bounded, names);
        return read_headers(bounded, names);
      }));
  // Memory is asked for by the headers, before the elements are read. The files may change until
  // then, so the sizes in the headers are the limits of the second read.
  if (rules.grant) {
    LEAT_RETURN_IF_ERROR(
        rules.grant(names.features, memory_of(headers.features) + memory_of(headers.labels)));
  }
  const uint64_t features = file_bytes(headers.features), labels = file_bytes(headers.labels);
  return read_within<Arrays>(files, rules.limits, [names, features, labels](Files& bounded) {
    return read_arrays(bounded, names, features, labels);
  });
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
  // Both paths are compared after all links are followed. The file itself may be missing: opening
  // it gives the better error.
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
  LEAT_ASSIGN_OR_RETURN(Arrays read, read_arrays(files, names, UINT64_MAX, UINT64_MAX));
  return std::unique_ptr<Dataset>(new Dataset(std::move(read.features), std::move(read.labels)));
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& files, const DatasetFiles& names,
                                               const ReadingLimits& limits) {
  LEAT_ASSIGN_OR_RETURN(Arrays read, read_granted(files, names, {limits, {}}));
  return std::unique_ptr<Dataset>(new Dataset(std::move(read.features), std::move(read.labels)));
}

void Dataset::limit_reading(JobResources& resources, ReadingLimits limits) {
  manners_of(resources).set_limits(std::move(limits));
}

void limit_dataset_memory(JobResources& resources, GrantMemory grant) {
  manners_of(resources).set_grant(std::move(grant));
}

Result<const Dataset*> Dataset::find_or_open(JobResources& resources, const DatasetFiles& names) {
  const std::string key =
      join(std::vector<std::string>{names.format, names.root, names.features, names.labels}, "\n");
  // The rules are read first: they are a resource as well, and find_or_make() holds the table's
  // lock while it opens the files.
  const Manners::Rules rules = manners_of(resources).get();
  // The key has all parts of the names: readers of other files get a data set of their own.
  auto found = resources.find_or_make("dataset", key, [&]() -> Result<std::unique_ptr<Resource>> {
    LEAT_ASSIGN_OR_RETURN(Arrays read, read_granted(real_files(), names, rules));
    return std::unique_ptr<Resource>(new Dataset(std::move(read.features), std::move(read.labels)));
  });
  if (!found.ok()) return found.status();
  return static_cast<const Dataset*>(*found);
}

Result<DatasetInfo> inspect_dataset(Files& files, const DatasetFiles& names) {
  LEAT_ASSIGN_OR_RETURN(const Headers headers, read_headers(files, names));
  const ArrayHeader &features = headers.features, &labels = headers.labels;
  return DatasetInfo{features.shape[0], without_first(features.shape), features.dtype,
                     without_first(labels.shape), labels.dtype};
}

// Reads labels in pieces: a caller that only checks labels has no memory for all of them.
Status check_classes(Files& files, const DatasetFiles& names, int64_t classes) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  LEAT_ASSIGN_OR_RETURN(ArrayFile labels, open_array(files, names, names.labels, UINT64_MAX));
  const ArrayHeader& header = labels.header();
  const int64_t all = header.shape.elements(), rows = std::max<int64_t>(1, header.shape[0]);
  for (int64_t begin = 0; begin < all; begin += kPiece) {
    const Tensor piece(header.dtype, Shape{std::min(kPiece, all - begin)});
    LEAT_RETURN_IF_ERROR(
        labels.read({static_cast<std::byte*>(piece.raw()), static_cast<size_t>(piece.bytes())}));
    for (int64_t i = 0; i < piece.elements(); ++i) {
      const int64_t label = piece.int_at(i), at = begin + i;
      if (label >= 0 && label < classes) continue;
      // In Fortran's order the row is the fastest index.
      return invalid_argument(cat("'", names.labels, "': label of row ",
                                  header.fortran_order ? at % rows : at / (all / rows),
                                  ": expected in [0, ", classes - 1, "], received ", label));
    }
  }
  return labels.expect_end();
}

Result<std::string> fingerprint(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  // The two parts do not overlap: a file of less than two MiB is read once.
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
