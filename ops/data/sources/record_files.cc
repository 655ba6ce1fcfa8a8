#include "ops/data/sources/record_files.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"

namespace leat {

FilePool::FilePool(Files& files, std::vector<SourceFile> places, size_t most_open)
    : files_(&files), places_(std::move(places)), most_open_(most_open), slots_(places_.size()) {}

void FilePool::attach(Files& files) {
  files_ = &files;
  // Those that are open belong to the file system before.
  for (const size_t file : open_) slots_[file].file = nullptr;
  open_.clear();
}

Result<std::shared_ptr<const ReadableFile>> FilePool::get(size_t file) const {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[file];
  if (slot.file) {
    open_.splice(open_.begin(), open_, slot.used);
    return slot.file;
  }
  // Other readers wait for the lock meanwhile, as they would for the same disk.
  LEAT_ASSIGN_OR_RETURN(auto opened, files_->open(places_[file].path));
  if (slot.size && *slot.size != opened->size()) {
    return failed_precondition(cat("'", places_[file].name, "': expected ", *slot.size,
                                   " bytes as before, it has ", opened->size()));
  }
  if (open_.size() >= most_open_) {
    slots_[open_.back()].file = nullptr;  // a reader that has it keeps it open
    open_.pop_back();
  }
  slot.size = opened->size();
  slot.file = std::move(opened);
  open_.push_front(file);
  slot.used = open_.begin();
  return slot.file;
}

Result<std::span<const std::byte>> ForwardReader::peek(uint64_t offset, size_t least) {
  const uint64_t left = offset < size() ? size() - offset : 0;
  const size_t needed = static_cast<size_t>(std::min<uint64_t>(left, least));
  const bool inside = offset >= begin_ && offset - begin_ <= bytes_.size() &&
                      bytes_.size() - static_cast<size_t>(offset - begin_) >= needed;
  if (!inside) {
    const auto amount = static_cast<size_t>(std::min<uint64_t>(left, std::max(least, window_)));
    // The bytes that are there already are not read again.
    size_t kept = 0;
    if (offset >= begin_ && offset - begin_ < bytes_.size()) {
      const auto skip = static_cast<size_t>(offset - begin_);
      kept = bytes_.size() - skip;
      std::memmove(bytes_.data(), bytes_.data() + skip, kept);
    }
    bytes_.resize(amount);
    begin_ = offset;
    const Status read = file_->read(offset + kept, std::span(bytes_).subspan(kept));
    if (!read.ok()) {
      bytes_.clear();
      return read;
    }
  }
  return std::span<const std::byte>(bytes_).subspan(static_cast<size_t>(offset - begin_));
}

namespace {

constexpr size_t kWindow = size_t{1} << 20;     // of the pass over all records
constexpr size_t kRowWindow = size_t{1} << 12;  // of the walk to one row

}  // namespace

Result<std::optional<RecordPlace>> RecordFiles::next(ForwardReader& reader, uint64_t from,
                                                     Status* bad, int64_t* left_out) const {
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const auto place, rule_->find(reader, from));
    if (!place) return place;
    if (place->end - place->begin > options_.most_bytes) {
      return invalid_argument(cat("expected a record of at most ", options_.most_bytes,
                                  " bytes, received one of ", place->end - place->begin,
                                  " at byte ", place->begin));
    }
    if (!options_.keep) return place;
    const auto size = static_cast<size_t>(place->end - place->begin);
    LEAT_ASSIGN_OR_RETURN(const auto bytes, reader.peek(place->begin, size));
    const Status good = options_.keep(bytes.first(size));
    if (good.ok()) return place;
    if (bad && bad->ok()) *bad = good;
    if (left_out) ++*left_out;
    from = place->end;
  }
}

void RecordFiles::add_place(uint64_t begin) {
  const int64_t row = rows_++;
  if ((row & ((int64_t{1} << shift_) - 1)) != 0) return;
  if (places_.size() == options_.most_places) {
    // Every second place is dropped, and from now on so many fewer are added.
    for (size_t i = 0; 2 * i < places_.size(); ++i) places_[i] = places_[2 * i];
    places_.resize((places_.size() + 1) / 2);
    ++shift_;
    if ((row & ((int64_t{1} << shift_) - 1)) != 0) return;
  }
  places_.push_back(begin);
}

Status RecordFiles::index_file(size_t file) {
  LEAT_ASSIGN_OR_RETURN(const auto opened, pool_.get(file));
  file_bytes_ += opened->size();
  ForwardReader reader(opened, kWindow);
  const std::string subject = cat("'", pool_.place(file).name, "': ");
  const int64_t before = rows_;
  const auto fail = [&](const Status& status) {
    return Status(status.code(),
                  cat(subject, "record ", rows_ - before + 1, ": ", status.message()));
  };
  const auto first = rule_->first(reader);
  if (!first.ok()) return Status(first.status().code(), cat(subject, first.status().message()));
  uint64_t from = *first;
  first_rows_.push_back(before);
  first_places_.push_back(from);
  for (;;) {
    Status bad;
    int64_t left_out = 0;
    const auto place = next(reader, from, &bad, &left_out);
    if (!place.ok()) return fail(place.status());
    if (skipped_ == 0 && left_out > 0) first_skipped_ = fail(bad).message();
    skipped_ += left_out;
    if (!*place) return {};
    if (rows_ == before) first_places_.back() = (*place)->begin;
    add_place((*place)->begin);
    from = (*place)->end;
  }
}

Result<std::unique_ptr<RecordFiles>> RecordFiles::open(Files& files, std::vector<SourceFile> places,
                                                       std::shared_ptr<const RecordRule> rule,
                                                       Options options) {
  auto out = std::unique_ptr<RecordFiles>(
      new RecordFiles(files, std::move(places), std::move(rule), std::move(options)));
  for (size_t file = 0; file < out->pool_.size(); ++file)
    LEAT_RETURN_IF_ERROR(out->index_file(file));
  out->places_.shrink_to_fit();
  if (out->rows_ > 0) return out;
  return invalid_argument(cat("'", out->pool_.place(0).name, "': expected at least one ",
                              out->skipped_ > 0 ? "good record, received none, the first is " : "",
                              out->skipped_ > 0 ? out->first_skipped_ : "record, received none"));
}

uint64_t RecordFiles::memory() const {
  return 8 * (places_.size() + first_rows_.size() + first_places_.size());
}

// The last file that begins at or before the row: a file without records begins where the next one
// does.
size_t RecordFiles::file_of(int64_t row) const {
  const auto next = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
  return static_cast<size_t>(next - first_rows_.begin()) - 1;
}

std::string RecordFiles::name(int64_t row) const {
  const size_t file = file_of(row);
  return cat("'", pool_.place(file).name, "': record ", row - first_rows_[file] + 1);
}

Result<RecordFiles::Found> RecordFiles::find(int64_t row) const {
  LEAT_ASSIGN_OR_RETURN(const auto file, pool_.get(file_of(row)));
  ForwardReader reader(file, shift_ == 0 ? kRowWindow : 16 * kRowWindow);
  return walk(reader, row);
}

Result<RecordFiles::Found> RecordFiles::walk(ForwardReader& reader, int64_t row) const {
  Found out;
  out.file = file_of(row);
  out.record = row - first_rows_[out.file] + 1;
  // The walk begins at a place of the index or, if that is in another file, where this one begins.
  const auto index = static_cast<size_t>(row >> shift_);
  const int64_t indexed = static_cast<int64_t>(index) << shift_;
  const bool same_file = indexed >= first_rows_[out.file];
  int64_t at = same_file ? indexed : first_rows_[out.file];
  uint64_t from = same_file ? places_[index] : first_places_[out.file];
  for (;; ++at) {
    const auto place = next(reader, from, nullptr, nullptr);
    if (!place.ok())
      return Status(place.status().code(), cat(name(row), ": ", place.status().message()));
    if (!*place) {
      return failed_precondition(
          cat(name(row), ": expected a record as before, the file has changed"));
    }
    if (at == row) {
      out.place = **place;
      return out;
    }
    from = (*place)->end;
  }
}

void RecordFiles::advise(int64_t row, ReadAdvice advice) const {
  const size_t file = file_of(row);
  const auto index = static_cast<size_t>(row >> shift_);
  if ((static_cast<int64_t>(index) << shift_) < first_rows_[file]) return;
  if (advice == ReadAdvice::done_with && shift_ > 0) return;
  const auto opened = pool_.get(file);
  if (!opened.ok()) return;
  // Up to the next place that is known, which may be the end of the file.
  const int64_t next = static_cast<int64_t>(index + 1) << shift_;
  const bool last = index + 1 == places_.size() || file_of(next) != file;
  const uint64_t end = last ? (*opened)->size() : places_[index + 1];
  const uint64_t most = options_.most_bytes;
  (*opened)->advise(places_[index], std::min(end - places_[index], most), advice);
}

Status RecordFiles::read(int64_t row, Bytes& bytes) const {
  LEAT_ASSIGN_OR_RETURN(const auto file, pool_.get(file_of(row)));
  ForwardReader reader(file, shift_ == 0 ? kRowWindow : 16 * kRowWindow);
  LEAT_ASSIGN_OR_RETURN(const Found found, walk(reader, row));
  // The walk has read the record just now, so that most of it is in the reader's window.
  const auto size = static_cast<size_t>(found.place.end - found.place.begin);
  const auto seen = reader.peek(found.place.begin, size);
  if (!seen.ok())
    return Status(seen.status().code(), cat(name(row), ": ", seen.status().message()));
  bytes.assign(seen->begin(), seen->begin() + static_cast<std::ptrdiff_t>(size));
  return {};
}

Status RecordSource::attach(Files& files) {
  records_->attach(files);
  return {};
}

Status RecordSource::read(int64_t row, std::span<const RowPart> parts) const {
  Bytes bytes;
  LEAT_RETURN_IF_ERROR(records_->read(row, bytes));
  const Status status = store(bytes, parts);
  return status.ok() ? status : Status(status.code(), cat(row_name(row), ": ", status.message()));
}

void RecordSource::take(std::unique_ptr<RecordFiles> records) {
  info_.count = records->rows();
  info_.first_rows = records->first_rows();
  file_bytes_ = records->file_bytes();
  skipped_ = records->skipped();
  first_skipped_ = records->first_skipped();
  records_ = std::move(records);
}

}  // namespace leat
