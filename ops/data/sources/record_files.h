// Files of records of different lengths: lines of text, or records with a header of their own. One
// pass over the files finds where the records begin; a row is then read in any order.
//
// The index has the place of every record or, of very many, of every 2^k-th, so that its memory has
// a limit whatever the files hold: a record in between is found by a walk from the one before it.
//
//   row   0     1     2     3     4     5     6
//   file  a.csv             b.csv
//         ^ 0         ^ 92  ^ 7         ^ 61       places, with k = 1: rows 0, 2, 4, 6, and the
//                           begin of b             first record of each file
//
// Private to ops/data/sources.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "ops/data/source.h"

namespace leat {

// Files that are read in any order, of which a limited number is open at a time: data sets have
// more files than a process may open. Threads: any, after the constructor.
class FilePool {
 public:
  // `files` outlives the pool, until attach() replaces it.
  FilePool(Files& files, std::vector<SourceFile> places, size_t most_open = 128);
  // From now on files are opened by these. REQUIRES: no other thread uses the pool.
  void attach(Files& files);
  size_t size() const { return places_.size(); }
  const SourceFile& place(size_t file) const { return places_[file]; }
  // Opens a file, if it is not open. failed_precondition if it has another size than at the first
  // time.
  Result<std::shared_ptr<const ReadableFile>> get(size_t file) const;

 private:
  struct Slot {
    std::shared_ptr<const ReadableFile> file;  // null: closed
    std::optional<uint64_t> size;
    std::list<size_t>::iterator used;  // in `open_`, if the file is open
  };
  Files* files_;
  const std::vector<SourceFile> places_;
  const size_t most_open_;
  mutable std::mutex mutex_;
  mutable std::vector<Slot> slots_;
  mutable std::list<size_t> open_;  // the last used is the first
};

// Reads a file forward, in windows: for walks over the records. Threads: one.
class ForwardReader {
 public:
  // `window` is the number of bytes that are read at once, at least.
  ForwardReader(std::shared_ptr<const ReadableFile> file, size_t window)
      : file_(std::move(file)), window_(window) {}
  uint64_t size() const { return file_->size(); }
  const std::string& path() const { return file_->path(); }
  // The bytes from `offset` on: at least `least` of them, or up to the end of the file if that
  // comes first; usually more. Valid until the next call. Memory grows with `least`: callers limit
  // it.
  Result<std::span<const std::byte>> peek(uint64_t offset, size_t least);

 private:
  const std::shared_ptr<const ReadableFile> file_;
  const size_t window_;
  Bytes bytes_;
  uint64_t begin_ = 0;  // of bytes_ in the file
};

// The bytes of a record in its file.
struct RecordPlace {
  uint64_t begin = 0, end = 0;
  bool operator==(const RecordPlace&) const = default;
};

// The rule by which the records of a file are found. Immutable. Threads: any.
class RecordRule {
 public:
  virtual ~RecordRule() = default;
  // The place at which the first record of a file may begin: behind a header, if files have one.
  virtual Result<uint64_t> first(ForwardReader&) const { return uint64_t{0}; }
  // Finds the first record at or behind `from`, which is first() or the end of the record before.
  // Nothing at the end of the file. invalid_argument for damage, without a subject.
  // REQUIRES of the result: from <= begin < end <= file.size().
  virtual Result<std::optional<RecordPlace>> find(ForwardReader& file, uint64_t from) const = 0;
};

// The records of several files, one after the other. Immutable after open(). Threads: any.
class RecordFiles {
 public:
  // Checks a record for on_bad_record: skip. An error leaves the record out.
  using Keep = std::function<Status(std::span<const std::byte>)>;
  struct Options {
    Keep keep;                                 // empty: every record is kept
    uint64_t most_bytes = uint64_t{64} << 20;  // of one record
    size_t most_places = size_t{1} << 22;      // in the index
  };
  // Reads all files once. invalid_argument if a record is damaged so that the next one cannot be
  // found, is longer than most_bytes, or if there is no record at all.
  static Result<std::unique_ptr<RecordFiles>> open(Files& files, std::vector<SourceFile> places,
                                                   std::shared_ptr<const RecordRule> rule,
                                                   Options options);
  // Later reads use these files. REQUIRES: no other thread reads.
  void attach(Files& files) { pool_.attach(files); }

  int64_t rows() const { return rows_; }
  // The first row of each file.
  const std::vector<int64_t>& first_rows() const { return first_rows_; }
  uint64_t memory() const;
  int64_t skipped() const { return skipped_; }
  const std::string& first_skipped() const { return first_skipped_; }

  // The place of a row. REQUIRES: 0 <= row < rows().
  struct Found {
    size_t file = 0;
    RecordPlace place;
    int64_t record = 0;  // of the file, among those that are kept, from 1
  };
  Result<Found> find(int64_t row) const;
  // Reads the bytes of a row's record into `bytes`.
  Status read(int64_t row, Bytes& bytes) const;
  // Passes the advice on to the file. The bytes of a record whose place is not in the index are not
  // known without a walk: it will need those from the record before it that is there, and is done
  // with none.
  void advise(int64_t row, ReadAdvice advice) const;
  // Of all files.
  uint64_t file_bytes() const { return file_bytes_; }
  // "'train.csv': record 17". It reads no file.
  std::string name(int64_t row) const;
  // For sources that read parts of a record.
  const FilePool& pool() const { return pool_; }

 private:
  RecordFiles(Files& files, std::vector<SourceFile> places, std::shared_ptr<const RecordRule> rule,
              Options options)
      : pool_(files, std::move(places)), rule_(std::move(rule)), options_(std::move(options)) {}
  Status index_file(size_t file);
  void add_place(uint64_t begin);
  // Finds the next record that is kept. `bad` learns why records before it were left out.
  Result<std::optional<RecordPlace>> next(ForwardReader& reader, uint64_t from, Status* bad,
                                          int64_t* left_out) const;
  size_t file_of(int64_t row) const;
  Result<Found> walk(ForwardReader& reader, int64_t row) const;

  FilePool pool_;
  const std::shared_ptr<const RecordRule> rule_;
  const Options options_;
  std::vector<int64_t> first_rows_;     // by file
  std::vector<uint64_t> first_places_;  // by file: where its first record is
  std::vector<uint64_t> places_;        // of rows 0, 2^shift, 2 * 2^shift ...
  int shift_ = 0;
  int64_t rows_ = 0;
  int64_t skipped_ = 0;
  uint64_t file_bytes_ = 0;
  std::string first_skipped_;
};

// A source whose rows are records of files: a row is read whole, and then taken apart. Threads: as
// Source.
class RecordSource : public Source {
 public:
  uint64_t memory(const std::vector<bool>&) const override { return records_->memory(); }
  Status attach(Files& files) override;
  std::string row_name(int64_t row) const override { return records_->name(row); }
  void advise(int64_t row, std::span<const size_t>, ReadAdvice advice) const override {
    records_->advise(row, advice);
  }
  bool takes_advice() const override { return true; }
  // Errors name the row.
  Status read(int64_t row, std::span<const RowPart> parts) const override;

 protected:
  // Takes the files that the rows are in, with their number. Call it once, before anything else.
  void take(std::unique_ptr<RecordFiles> records);
  // Fills the parts from a record. The error has no subject.
  virtual Status store(std::span<const std::byte> record, std::span<const RowPart> parts) const = 0;

 private:
  std::unique_ptr<RecordFiles> records_;
};

}  // namespace leat
