// A data set in memory: records and their labels, read once for a job and shared by its readers.
//
//   const DatasetFiles names = {"npy", "train.npy", "labels.npy", "/data"};
//   LEAT_ASSIGN_OR_RETURN(const Dataset* data, Dataset::find_or_open(resources, names));
//   const std::byte* image = data->record(7);      // data->record_bytes() bytes
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "devices/base/bounded_reading.h"
#include "devices/base/files.h"
#include "devices/core/tensor.h"
#include "ops/state/resources.h"

namespace leat {

// The description of a data set: `count` records of one shape and type, each with a label. The
// shapes are those of one record and of one label, without the number of records.
struct DatasetInfo {
  int64_t count = 0;
  Shape record_shape;
  DType record_dtype = DType::invalid;
  Shape label_shape;
  DType label_dtype = DType::invalid;
};

// The files of a data set. Paths are relative to `root` and must stay below it, even after links
// are followed. With "" as root, any path is allowed, and relative ones start at the working
// directory.
struct DatasetFiles {
  std::string format;  // "idx" or "npy", each plain or gzip
  // Arrays of which dimension 0 counts the records; both files have the same format.
  std::string features;
  std::string labels;
  std::string root;
};

// Records and labels in memory. JobResources owns them. Immutable. Threads: any.
class Dataset final : public Resource {
 public:
  // Reads both files whole. Dimension 0 of each counts the records. invalid_argument for an unknown
  // format, a path that leaves the root, a file of another format or with damage, a scalar, files
  // with different numbers of records, and for no record at all; failed_precondition for a missing
  // file or root; resource_exhausted for a file above the limit of its format (kIdxBytes,
  // kNpyBytes) or if there is no memory. It blocks for as long as the file system takes.
  static Result<std::unique_ptr<Dataset>> open(Files& files, const DatasetFiles& names);
  // The same, but with `unavailable` if a limit is exceeded. The reading is then abandoned, not
  // stopped: see devices/base/bounded_reading.h.
  static Result<std::unique_ptr<Dataset>> open(Files& files, const DatasetFiles& names,
                                               const ReadingLimits& limits);
  // Sets the limits that find_or_open() applies for that job from now on.
  static void limit_reading(JobResources& resources, ReadingLimits limits);
  // Returns the job's data set of those files, and opens it if it is new: the names must be equal
  // letter by letter, else the files are read again. It applies the limits of limit_reading() and
  // of limit_dataset_memory(), and its errors are those of open() and of the grant. The table of
  // resources is locked while the files are read. The result is valid as long as `resources`.
  static Result<const Dataset*> find_or_open(JobResources& resources, const DatasetFiles& names);

  std::string_view kind() const override { return "dataset"; }
  const DatasetInfo& info() const { return info_; }
  // The elements of record i or label i, row-major. REQUIRES: 0 <= i < info().count.
  const std::byte* record(int64_t i) const {
    return features_.data<std::byte>() + i * record_bytes_;
  }
  const std::byte* label(int64_t i) const { return labels_.data<std::byte>() + i * label_bytes_; }
  int64_t record_bytes() const { return record_bytes_; }
  int64_t label_bytes() const { return label_bytes_; }

 private:
  Dataset(Tensor features, Tensor labels);
  Tensor features_, labels_;
  DatasetInfo info_;
  int64_t record_bytes_, label_bytes_;
};

// Reads the headers of the files, for callers that build a graph with them. The errors are those of
// Dataset::open, but damage behind the header of a compressed file is not found.
Result<DatasetInfo> inspect_dataset(Files& files, const DatasetFiles& names);

// Checks that every label is a class, 0 to classes - 1. It reads the labels and not the features.
// invalid_argument names the first row whose label is no class. REQUIRES: integer labels.
Status check_classes(Files& files, const DatasetFiles& names, int64_t classes);

// An identity of a file, to notice that it was replaced: its number of bytes, and the CRC-32C of
// the first and the last MiB ("47040016 bytes, crc32c 0a1b2c3d"). Changes between them are not
// seen.
Result<std::string> fingerprint(Files& files, const std::string& path);

// The results of these functions, for a process that builds a graph on another machine. With
// classes > 0, labels are checked, too.
struct DatasetReport {
  DatasetInfo info;
  std::string features_print, labels_print;
};
Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names, int64_t classes);
// The same, but with `unavailable` if a limit is exceeded.
Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names, int64_t classes,
                                     const ReadingLimits& limits);

// Returns `path` below `root` as a path to open; the error is that of Dataset::open if it leaves
// the root.
Result<std::string> resolve_below(const std::string& root, const std::string& path);

}  // namespace leat
