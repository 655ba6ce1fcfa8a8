// A data set that a job has open: the columns of its files, shared by the readers of the job.
//
//   LEAT_ASSIGN_OR_RETURN(const Dataset* data, Dataset::find_or_open(resources, names));
//   LEAT_RETURN_IF_ERROR(data->read(0, 7, pixels));   // row 7 of column 0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/bounded_reading.h"
#include "devices/base/files.h"
#include "devices/core/tensor.h"
#include "ops/data/columns.h"
#include "ops/data/dataset_files.h"
#include "ops/data/open_source.h"
#include "ops/data/source.h"
#include "ops/state/resources.h"

namespace leat {

// An array of at least so many bytes stays in its file, if that is not compressed and has the
// elements in C's order, and each row is read when a batch needs it.
inline constexpr uint64_t kLargeArray = uint64_t{256} << 20;

// How the rows of a data set are read ahead, and whether the system keeps what was read.
struct ReadingAhead {
  // Memory of caches that rows read ahead may take, and the least that one row takes there.
  uint64_t bytes = 0, least_row = 1;
  int threads = 1;  // that ask at once
  // The files have more bytes than the memory: a row that was read will be gone before the next
  // epoch, and the system is told so.
  bool drops_rows = false;
};

// The rows of a data set. JobResources owns it. Immutable but for the count of readers. Threads:
// any.
//
// Small arrays, and all that are compressed, are read into memory when the data set is opened.
// Large ones, tokens and records stay in their files.
class Dataset final : public Resource {
 public:
  // REQUIRES: a view for each column of `info`, and a source that is attached.
  Dataset(DatasetInfo info, std::unique_ptr<Source> source, std::vector<SourceView> views,
          ReadingAhead ahead);
  // Opens the files, those of a store (ops/data/stores/store_files.h) with its own file system in
  // place of `files`. invalid_argument for names that check_dataset_files() refuses, a path that
  // leaves the root, a file of another format or with damage, a scalar, files with different
  // numbers of rows, a column that no file has, and for no row at all; failed_precondition for a
  // missing file or root; resource_exhausted for a file above the limit of its format (kIdxBytes,
  // kNpyBytes) or if there is no memory. It blocks for as long as the file system takes.
  static Result<std::unique_ptr<Dataset>> open(Files& files, const DatasetFiles& names,
                                               uint64_t large_array = kLargeArray);
  // The same with `memory` in place of the machine's memory, for ReadingAhead::drops_rows.
  static Result<std::unique_ptr<Dataset>> open(Files& files, const DatasetFiles& names,
                                               uint64_t large_array, uint64_t memory);
  // The same, but with `unavailable` if a limit is exceeded; a store has the time of its patience
  // for an answer (kStorePatience) if that is longer. The reading is then abandoned, not stopped:
  // see devices/base/bounded_reading.h.
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
  // The elements of a row, row-major, if the column is in memory; else null.
  // REQUIRES: column < info().columns.size(), 0 <= row < info().count.
  const std::byte* in_memory(size_t column, int64_t row) const;
  // Copies a row of a column to `out`, which has info().columns[column].row_bytes() bytes. The
  // errors are those of Source::read(). REQUIRES: as in_memory().
  Status read(size_t column, int64_t row, std::span<std::byte> out) const;
  // Copies a row of several columns at once: outs[c] has the bytes of column c, or is null if the
  // caller does not want it. A record is parsed only once for all its columns.
  // REQUIRES: outs.size() is the number of columns.
  Status read_row(int64_t row, std::span<std::byte* const> outs) const;
  // The same for a row of a training, with what is random in it.
  Status read_row(int64_t row, const RowKey& key, std::span<std::byte* const> outs) const;
  // The names of the classes of a column, by their numbers; empty if the source knows none.
  std::vector<std::string> class_names(size_t column) const;

  // True if read() reads files for some column, and these take advice.
  bool reads_files() const { return !in_files_.empty(); }
  // Gives advice about the columns of a row that are in files; it may block as read() does.
  void advise(int64_t row, ReadAdvice advice) const;
  const ReadingAhead& ahead() const { return ahead_; }
  // A reader of batches of so many rows begins to use the data set, or stops.
  void add_reader(int64_t rows) const { rows_of_readers_ += rows; }
  void remove_reader(int64_t rows) const { rows_of_readers_ -= rows; }
  // So many steps all readers may read ahead.
  int64_t most_steps_ahead() const;

 private:
  const DatasetInfo info_;
  const std::unique_ptr<const Source> source_;
  const std::vector<SourceView> views_;
  const ReadingAhead ahead_;
  std::vector<size_t> in_files_;  // the columns of the source that are wanted and in files
  mutable std::atomic<int64_t> rows_of_readers_{0};
};

// Reads the headers of the files, for callers that build a graph with them. The errors are those of
// Dataset::open, but damage behind the header of a compressed file is not found.
Result<DatasetInfo> inspect_dataset(Files& files, const DatasetFiles& names);

// Checks that every label is a class, 0 to classes - 1, or is ignored. It reads that column and no
// other, in pieces. invalid_argument names the first row that has another one. REQUIRES: the data
// set has the column, and its elements are integers.
Status check_classes(Files& files, const DatasetFiles& names, const ClassCheck& check);

// An identity of a file, to notice that it was replaced: its number of bytes, and the CRC-32C of
// the first and the last MiB ("47040016 bytes, crc32c 0a1b2c3d"). Changes between them are not
// seen.
Result<std::string> fingerprint(Files& files, const std::string& path);

// The results of these functions, for a process that builds a graph on another machine.
struct DatasetReport {
  DatasetInfo info;
  // The files with their patterns replaced, in the form of DatasetFiles::files, and the fingerprint
  // of each.
  std::vector<std::string> files, prints;
  // Sentences about the data that a user should read, such as the number of records left out.
  std::vector<std::string> notes = {};
  // The names of the classes of the data's labels, by their numbers; empty if the files have none.
  std::vector<std::string> classes = {};
};
// With check.classes > 0, that column is checked, too.
Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names,
                                     const ClassCheck& check);
// The same, but with `unavailable` if a limit is exceeded.
Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names,
                                     const ClassCheck& check, const ReadingLimits& limits);

// A data set, and the report on the same opening of it.
struct ReportedDataset {
  std::unique_ptr<Dataset> data;
  DatasetReport report;
};
// The results of Dataset::open() and of report_dataset(), for which the records of the files are
// counted only once.
Result<ReportedDataset> open_reported(Files& files, const DatasetFiles& names,
                                      uint64_t large_array = kLargeArray);

}  // namespace leat
