// Sources of data. A source is a table in files of one format, whose rows are read by their index
// in any order: the keyed permutation of an epoch shuffles them, shards take slices of it, and a
// job that resumes goes straight to its row.
//
// A format is one file in ops/data/sources/ with a SourceFormat and a Source, and one line in
// source_formats.cc. It is opened in three steps, because the first two run on a thread that may be
// abandoned when a file system does not answer, and memory is granted in between:
//
//   source = format.open(setup);            // reads headers, or finds the records; no row
//   grant(source->memory(wanted));
//   source->load(files, wanted);            // reads what stays in memory
//   source->attach(files);                  // from here on, rows are read
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "ops/data/columns.h"
#include "ops/data/dataset_files.h"
#include "ops/data/source_options.h"

namespace leat {

// A part of a row that a caller wants: bytes of one column, from byte `offset` of its row on.
struct RowPart {
  size_t column = 0;
  int64_t offset = 0;
  std::span<std::byte> out;
};

// The place of a row in a training. A random part of a row, such as the crop of an image, follows
// from it alone, so that the bits are the same on any worker and thread and after a restart.
struct RowKey {
  uint64_t seed = 0;  // of the reader
  // In the endless sequence of epochs: epoch x rows + place in its order. Of shards with orders of
  // their own: that x shards + shard.
  uint64_t position = 0;
};

// A column of classes, which a caller wants to have checked.
struct ClassCheck {
  std::string column;
  int64_t classes = 0;                  // 0: no check
  std::optional<int64_t> ignore_index;  // a label that is no class and is allowed
  // True for a class, and for the label that is ignored.
  bool allows(int64_t label) const {
    return (label >= 0 && label < classes) || label == ignore_index;
  }
  Status refuse(const std::string& row, int64_t label) const;
};

// The rows of a data set. Dataset owns it. open() and load() run on one thread; after attach() it
// is immutable. Threads after that: any. All of these may read files, and then block for as long as
// the file system takes; errors are those of files, and invalid_argument for damage, with the file
// and the record.
class Source {
 public:
  virtual ~Source() = default;
  // The number of rows, at least 1, and the columns of the files: at most 2^16, with distinct
  // names. Columns may have 0 rows' bytes, but never change their type between rows.
  const DatasetInfo& info() const { return info_; }
  // The records that were left out by on_bad_record: skip, and a sentence about the first of them.
  int64_t skipped() const { return skipped_; }
  const std::string& first_skipped() const { return first_skipped_; }

  // The bytes of memory that the source has or load() will take, for the columns of which `wanted`
  // is true.
  virtual uint64_t memory(const std::vector<bool>& wanted) const;
  // Reads what stays in memory.
  virtual Status load(Files& files, const std::vector<bool>& wanted);
  // Opens what stays open. `files` outlives the source, while that of open() and load() does not.
  virtual Status attach(Files& files);

  // The elements of a row, row-major, if the column is in memory; else null.
  virtual const std::byte* in_memory(size_t column, int64_t row) const;
  // Fills the parts with bytes of a row. REQUIRES: 0 <= row < info().count, and the bytes of each
  // part lie in the row of its column.
  virtual Status read(int64_t row, std::span<const RowPart> parts) const = 0;
  // The same with what is random in the row of a training; read() takes the row's number as its
  // position, and the seed 0. The default is read().
  virtual Status read_drawn(int64_t row, const RowKey& key, std::span<const RowPart> parts) const;
  // Passes the advice on to the files that have these columns of a row, as far as they are not in
  // memory. It may block as read() does; a failure is left to read(). The default ignores it.
  virtual void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const;
  // False if advise() does nothing.
  virtual bool takes_advice() const { return false; }
  // The bytes of the files whose rows are read when they are wanted; 0 if that is not known.
  virtual uint64_t file_bytes() const { return file_bytes_; }
  // The names of the classes of a column, by their numbers; empty if the source knows none.
  virtual std::vector<std::string> class_names(size_t column) const;
  // The row for messages: "'train.csv': record 17".
  virtual std::string row_name(int64_t row) const;
  // Checks every label of a column of integers, between open() and load(); the default attaches
  // and reads row by row. `view` is the part of each row that has the labels.
  virtual Status check_classes(Files& files, const ClassCheck& check, size_t column,
                               const ColumnPart& view);

 protected:
  DatasetInfo info_;
  int64_t skipped_ = 0;
  std::string first_skipped_;
  uint64_t file_bytes_ = 0;
};

// A file of a data set.
struct SourceFile {
  std::string column;  // its column, if each file is a column
  std::string name;    // relative to the root, for messages
  std::string path;    // to open
};

// The input of SourceFormat::open(). `files` lives as long as the call.
struct SourceSetup {
  Files& files;
  const DatasetFiles& names;  // without patterns
  std::vector<SourceFile> places;
  SourceOptions options;
  uint64_t large_array;  // arrays of so many bytes stay in their file
};

// The form of the key `files`.
enum class FilesForm : uint8_t {
  none,      // the format has no files
  columns,   // a map from columns to paths, each an array
  one,       // one path
  patterns,  // a path or a list of them, with '*' and '?' in the last part
  sources,   // none: a map of other data sets has them
};

// A format of data. Constant. Threads: any.
class SourceFormat {
 public:
  virtual ~SourceFormat() = default;
  virtual std::string_view name() const = 0;
  virtual FilesForm files_form() const = 0;
  virtual std::span<const SourceOption> options() const { return {}; }
  // Checks what can be known without the files, beyond the options one by one and the number of
  // files. invalid_argument.
  virtual Status check(const DatasetFiles& names, const SourceOptions& options) const;
  // Opens the files so far that the rows are counted and the columns are known. Errors are those of
  // Dataset::open().
  virtual Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const = 0;
  // An identity of a file or folder, by which a job notices that it was replaced. The default is
  // fingerprint() of dataset.h.
  virtual Result<std::string> print(Files& files, const std::string& path) const;
};

// The option that formats of records have in common: a record that cannot be read fails the job, or
// is left out of the table when the records are counted, so that the rows are the same for
// everyone.
inline constexpr std::string_view kOnBadRecord[] = {"fail", "skip"};
inline constexpr SourceOption kOnBadRecordOption{.name = "on_bad_record",
                                                 .kind = OptionKind::choice,
                                                 .initial = "fail",
                                                 .choices = kOnBadRecord};

}  // namespace leat
