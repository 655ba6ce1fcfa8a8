#include "ops/data/dataset.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

#include "devices/base/crc32c.h"
#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "ops/data/dataset_memory.h"
#include "ops/data/path_text.h"
#include "ops/formats/array_file.h"
#include "ops/formats/idx.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// One file of a data set and the header of its array. A file of tokens is an array of one
// dimension.
struct Place {
  std::string column;  // empty for tokens
  std::string name;    // relative to the root
  std::string path;
  ArrayHeader header;
  bool plain = true;  // the elements are in the file as they are in memory

  // The bytes of memory that the elements take while they are read.
  uint64_t memory() const {
    const uint64_t bytes =
        static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
    return header.fortran_order ? 2 * bytes : bytes;
  }
  // The size of header and elements: a file that is replaced in the meantime must not be larger.
  uint64_t file_bytes() const {
    return header.offset +
           static_cast<uint64_t>(header.shape.elements()) * dtype_size(header.dtype);
  }
};

// The contents of the headers of all files.
struct FileLayout {
  DatasetFiles names;  // without patterns
  std::vector<Place> places;
  DatasetInfo info;                 // of the columns that are read
  std::vector<ColumnPart> parts;    // one for each of them
  std::vector<std::string> stored;  // the column of the files that each of them is a part of
};

bool is_tokens(const DatasetFiles& names) { return names.format == "tokens"; }

bool is_npz(const DatasetFiles& names) { return names.format == "npz"; }

// Opens a file of an array and reads its header.
Result<ArrayFile> open_array(Files& files, const DatasetFiles& names, const std::string& path,
                             uint64_t limit) {
  const bool idx = names.format == "idx";
  const uint64_t most = std::min(limit, idx ? kIdxBytes : kNpyBytes);
  auto file = ArrayFile::open(files, path, idx ? idx_format() : npy_format(), most);
  if (file.ok() && file->header().shape.rank() == 0) {
    return invalid_argument(cat(path, ": expected an array of records, received a scalar"));
  }
  return file;
}

Result<Place> locate_array(Files& files, const DatasetFiles& names, std::string_view file) {
  LEAT_ASSIGN_OR_RETURN(const auto named, parse_named_file(file));
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(names.root, named.second));
  LEAT_ASSIGN_OR_RETURN(const ArrayFile array, open_array(files, names, path, UINT64_MAX));
  return Place{named.first, named.second, path, array.header(), array.is_plain()};
}

// The arrays of one NPZ file, each a column.
Status locate_members(Files& files, const DatasetFiles& names, const std::string& name,
                      std::vector<Place>& places) {
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(names.root, name));
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  LEAT_ASSIGN_OR_RETURN(const auto members, read_npz_directory(*file));
  for (const NpzMember& member : members) {
    if (member.header.shape.rank() == 0) continue;  // a scalar is no column
    places.push_back({member.name, name, path, member.header, !member.header.fortran_order});
  }
  if (!places.empty()) return {};
  return invalid_argument(
      cat("'", path, "': expected arrays, with a row for each sample, found ", "none"));
}

// A file of tokens is an NPY array of one dimension, or integers without a header.
Result<Place> locate_tokens(Files& files, const DatasetFiles& names, const std::string& name) {
  LEAT_ASSIGN_OR_RETURN(const std::string path, resolve_below(names.root, name));
  if (name.ends_with(".npy")) {
    LEAT_ASSIGN_OR_RETURN(const ArrayFile array, open_array(files, names, path, UINT64_MAX));
    const ArrayHeader& header = array.header();
    if (header.shape.rank() == 1 && header.dtype == names.element && array.is_plain())
      return Place{"", name, path, header, true};
    return invalid_argument(cat("'", path, "': expected ", names.element,
                                " tokens, an array of one dimension that is not compressed, ",
                                "received ", header.dtype, header.shape));
  }
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  const uint64_t size = dtype_size(names.element);
  if (file->size() % size != 0) {
    return invalid_argument(cat("'", path, "': expected a multiple of ", size, " bytes, the size ",
                                "of a token of type ", names.element, ", received ", file->size()));
  }
  const auto tokens = static_cast<int64_t>(file->size() / size);
  return Place{"", name, path, {names.element, Shape{tokens}, 0, false}, true};
}

Status add_place(FileLayout& layout, Result<Place> place) {
  if (!place.ok()) return place.status();
  layout.places.push_back(std::move(place).value());
  return {};
}

// Counts the rows. Files of arrays must have equally many.
Status count_rows(FileLayout& layout) {
  const std::vector<Place>& places = layout.places;
  if (is_tokens(layout.names)) {
    for (const Place& place : places) {
      layout.info.count +=
          window_count(place.header.shape[0], layout.names.window, layout.names.stride);
    }
    if (layout.info.count > 0) return {};
    return invalid_argument(cat("'", places[0].name, "': expected at least one window of ",
                                layout.names.window, " tokens in a file, received fewer"));
  }
  layout.info.count = places[0].header.shape[0];
  for (const Place& place : places) {
    if (place.header.shape[0] == layout.info.count) continue;
    return invalid_argument(cat("'", place.name, "': expected ", layout.info.count, " rows, as '",
                                places[0].name, "' has, received ", place.header.shape[0]));
  }
  if (layout.info.count > 0) return {};
  return invalid_argument(
      cat("'", places[0].name, "': expected at least one record, received none"));
}

// The columns that the files have, by name, in the order of the files.
std::vector<ColumnInfo> stored_columns(const FileLayout& layout) {
  if (is_tokens(layout.names))
    return {{"window", layout.names.element, Shape{layout.names.window}}};
  std::vector<ColumnInfo> out;
  for (const Place& place : layout.places) {
    out.push_back({place.column, place.header.dtype, Shape(place.header.shape.dims().subspan(1))});
  }
  return out;
}

// Finds the columns that are read among those of the files.
Status find_parts(FileLayout& layout) {
  const std::vector<ColumnInfo> stored = stored_columns(layout);
  std::vector<std::string> names;
  for (const ColumnInfo& column : stored) names.push_back(column.name);
  std::vector<std::string> wanted = layout.names.columns;
  if (wanted.empty()) wanted = names;
  for (const std::string& each : wanted) {
    LEAT_ASSIGN_OR_RETURN(const ColumnView view, parse_column_view(each));
    const auto found = std::find(names.begin(), names.end(), view.column);
    if (found == names.end()) {
      return invalid_argument(cat("column '", view.column, "': expected one of ", join(names, ", "),
                                  did_you_mean(view.column, names)));
    }
    LEAT_ASSIGN_OR_RETURN(ColumnPart part,
                          part_of(view, stored[static_cast<size_t>(found - names.begin())]));
    layout.info.columns.push_back(part.info);
    layout.parts.push_back(std::move(part));
    layout.stored.push_back(view.column);
  }
  return {};
}

// Reads no elements: a caller decides by the headers whether there is memory for them.
Result<FileLayout> read_layout(Files& files, const DatasetFiles& names) {
  LEAT_RETURN_IF_ERROR(check_dataset_files(names));
  FileLayout layout;
  layout.names = names;
  if (is_tokens(names)) {
    LEAT_ASSIGN_OR_RETURN(layout.names.files, expand_patterns(files, names.root, names.files));
  }
  for (const std::string& each : layout.names.files) {
    if (is_npz(names)) {
      LEAT_RETURN_IF_ERROR(locate_members(files, names, each, layout.places));
      continue;
    }
    LEAT_RETURN_IF_ERROR(add_place(layout, is_tokens(names) ? locate_tokens(files, names, each)
                                                            : locate_array(files, names, each)));
  }
  LEAT_RETURN_IF_ERROR(count_rows(layout));
  LEAT_RETURN_IF_ERROR(find_parts(layout));
  return layout;
}

// True if the rows stay in the file.
bool stays_in_file(const FileLayout& layout, const Place& place, uint64_t large_array) {
  return is_tokens(layout.names) || (place.plain && place.memory() >= large_array);
}

// True if a column that is read has rows of this file.
bool is_read(const FileLayout& layout, const Place& place) {
  return is_tokens(layout.names) ||
         std::find(layout.stored.begin(), layout.stored.end(), place.column) != layout.stored.end();
}

// The arrays that are kept in memory, by column.
using Arrays = std::map<std::string, Tensor>;

Result<Arrays> read_arrays(Files& files, const FileLayout& layout, uint64_t large_array) {
  Arrays out;
  for (const Place& place : layout.places) {
    if (stays_in_file(layout, place, large_array) || !is_read(layout, place)) continue;
    if (is_npz(layout.names)) {
      LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
      LEAT_ASSIGN_OR_RETURN(Tensor values, read_npz_member(*file, {place.column, place.header}));
      out.emplace(place.column, std::move(values));
      continue;
    }
    // The headers were read before, and the files may have changed since then.
    LEAT_ASSIGN_OR_RETURN(ArrayFile file,
                          open_array(files, layout.names, place.path, place.file_bytes()));
    if (file.header().shape != place.header.shape || file.header().dtype != place.header.dtype) {
      return failed_precondition(cat("'", place.name, "': expected ", place.header.dtype,
                                     place.header.shape, " as a moment ago, received ",
                                     file.header().dtype, file.header().shape));
    }
    LEAT_ASSIGN_OR_RETURN(Tensor values, file.read_all());
    out.emplace(place.column, std::move(values));
  }
  return out;
}

Result<std::shared_ptr<const Column>> windows_of(Files& files, const FileLayout& layout) {
  std::vector<TokenFile> parts;
  for (const Place& place : layout.places) {
    TokenFile part{nullptr, place.header.offset, place.header.shape[0]};
    LEAT_ASSIGN_OR_RETURN(part.file, files.open(place.path));
    parts.push_back(std::move(part));
  }
  const DatasetFiles& names = layout.names;
  return std::shared_ptr<const Column>(
      token_windows(std::move(parts), names.element, names.window, names.stride));
}

// Makes the columns of the files, from the arrays in memory and the files that keep theirs.
Result<std::map<std::string, std::shared_ptr<const Column>>> make_columns(Files& files,
                                                                          const FileLayout& layout,
                                                                          Arrays arrays) {
  std::map<std::string, std::shared_ptr<const Column>> out;
  if (is_tokens(layout.names)) {
    LEAT_ASSIGN_OR_RETURN(out["window"], windows_of(files, layout));
    return out;
  }
  for (const Place& place : layout.places) {
    if (!is_read(layout, place)) continue;
    if (const auto found = arrays.find(place.column); found != arrays.end()) {
      out[place.column] = column_of(place.column, std::move(found->second));
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(auto file, files.open(place.path));
    ColumnInfo info{place.column, place.header.dtype, Shape(place.header.shape.dims().subspan(1))};
    out[place.column] = column_in_file(std::move(info), place.header.shape[0], std::move(file),
                                       place.header.offset);
  }
  return out;
}

Result<std::unique_ptr<Dataset>> make_dataset(Files& files, const FileLayout& layout,
                                              Arrays arrays) {
  LEAT_ASSIGN_OR_RETURN(const auto columns, make_columns(files, layout, std::move(arrays)));
  std::vector<Dataset::View> views;
  for (size_t i = 0; i < layout.parts.size(); ++i)
    views.push_back({columns.at(layout.stored[i]), layout.parts[i].offset});
  return std::make_unique<Dataset>(layout.info, std::move(views));
}

// Looks the files up through `files`, which may bound the time. The later resolution of the paths
// calls the operating system without a bound: this shows first whether the file system responds.
void look_up(Files& files, const DatasetFiles& names) {
  for (const std::string& each : names.files) {
    const size_t equals = is_tokens(names) ? std::string::npos : each.find('=');
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

// The calling thread asks for the memory, and not the reading thread, which may be abandoned.
Result<std::unique_ptr<Dataset>> open_granted(Files& files, const DatasetFiles& names,
                                              const Manners::Rules& rules) {
  LEAT_ASSIGN_OR_RETURN(
      const FileLayout layout,
      read_within<FileLayout>(files, rules.limits, [names](Files& bounded) -> Result<FileLayout> {
        look_up(bounded, names);
        return read_layout(bounded, names);
      }));
  // Memory is asked for by the headers, before the elements are read. The files may change until
  // then, so the sizes in the headers are the limits of the second read.
  uint64_t memory = 0;
  for (const Place& place : layout.places) {
    if (!stays_in_file(layout, place, kLargeArray) && is_read(layout, place))
      memory += place.memory();
  }
  if (rules.grant && memory > 0) LEAT_RETURN_IF_ERROR(rules.grant(layout.places[0].name, memory));
  LEAT_ASSIGN_OR_RETURN(Arrays arrays,
                        read_within<Arrays>(files, rules.limits, [layout](Files& bounded) {
                          return read_arrays(bounded, layout, kLargeArray);
                        }));
  // Files that stay open outlive the bounded file system. They have answered a moment ago.
  return make_dataset(files, layout, std::move(arrays));
}

// All parts of the names: readers of other files or columns get a data set of their own.
std::string key_of(const DatasetFiles& names) {
  return join(std::vector<std::string>{names.format, names.root, join(names.files, "\n"),
                                       join(names.columns, "\n"), std::to_string(names.window),
                                       std::to_string(names.stride),
                                       std::string(dtype_name(names.element))},
              "\n\n");
}

}  // namespace

const ColumnInfo* DatasetInfo::find(std::string_view name) const {
  for (const ColumnInfo& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

const std::byte* Dataset::in_memory(size_t column, int64_t row) const {
  const View& view = views_[column];
  const std::byte* memory = view.column->memory();
  return memory ? memory + row * view.column->info().row_bytes() + view.offset : nullptr;
}

Status Dataset::read(size_t column, int64_t row, std::span<std::byte> out) const {
  const View& view = views_[column];
  return view.column->read(row, view.offset, out);
}

Result<std::unique_ptr<Dataset>> Dataset::open(Files& files, const DatasetFiles& names,
                                               uint64_t large_array) {
  LEAT_ASSIGN_OR_RETURN(const FileLayout layout, read_layout(files, names));
  LEAT_ASSIGN_OR_RETURN(Arrays arrays, read_arrays(files, layout, large_array));
  return make_dataset(files, layout, std::move(arrays));
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
  LEAT_ASSIGN_OR_RETURN(const FileLayout layout, read_layout(files, names));
  return layout.info;
}

namespace {

// Checks the labels of a piece of an array. `row_of` tells the row of an element of the array, for
// the message.
struct ClassChecker {
  const ClassCheck& check;
  std::string file;
  Status piece(const Tensor& labels, int64_t begin,
               const std::function<int64_t(int64_t)>& row_of) const {
    for (int64_t i = 0; i < labels.elements(); ++i) {
      const int64_t label = labels.int_at(i);
      if ((label >= 0 && label < check.classes) || label == check.ignore_index) continue;
      return invalid_argument(cat("'", file, "': label of row ", row_of(begin + i),
                                  ": expected in [0, ", check.classes - 1, "], received ", label));
    }
    return {};
  }
};

constexpr int64_t kPiece = int64_t{1} << 16;  // elements that are read at once

// The labels of a whole array, in pieces: a caller that only checks them has no memory for all.
Status check_array(Files& files, const FileLayout& layout, const Place& place,
                   const ClassChecker& checker) {
  if (is_npz(layout.names)) {
    LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
    LEAT_ASSIGN_OR_RETURN(const Tensor all, read_npz_member(*file, {place.column, place.header}));
    const int64_t each =
        std::max<int64_t>(1, all.elements() / std::max<int64_t>(1, all.shape()[0]));
    return checker.piece(all, 0, [&](int64_t at) { return at / each; });
  }
  LEAT_ASSIGN_OR_RETURN(ArrayFile labels, open_array(files, layout.names, place.path, UINT64_MAX));
  const ArrayHeader& header = labels.header();
  const int64_t all = header.shape.elements(), rows = std::max<int64_t>(1, header.shape[0]);
  for (int64_t begin = 0; begin < all; begin += kPiece) {
    const Tensor piece(header.dtype, Shape{std::min(kPiece, all - begin)});
    LEAT_RETURN_IF_ERROR(
        labels.read({static_cast<std::byte*>(piece.raw()), static_cast<size_t>(piece.bytes())}));
    // In Fortran's order the row is the fastest index.
    LEAT_RETURN_IF_ERROR(checker.piece(piece, begin, [&](int64_t at) {
      return header.fortran_order ? at % rows : at / (all / rows);
    }));
  }
  return labels.expect_end();
}

// All tokens of a file may be labels, whatever part of a window the column takes.
Status check_tokens(Files& files, const FileLayout& layout, const Place& place,
                    const ClassChecker& checker) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(place.path));
  const int64_t all = place.header.shape[0];
  for (int64_t begin = 0; begin < all; begin += kPiece) {
    const Tensor piece(place.header.dtype, Shape{std::min(kPiece, all - begin)});
    const uint64_t at =
        place.header.offset + static_cast<uint64_t>(begin) * dtype_size(place.header.dtype);
    LEAT_RETURN_IF_ERROR(
        file->read(at, {static_cast<std::byte*>(piece.raw()), static_cast<size_t>(piece.bytes())}));
    LEAT_RETURN_IF_ERROR(
        checker.piece(piece, begin, [&](int64_t token) { return token / layout.names.stride; }));
  }
  return {};
}

}  // namespace

Status check_classes(Files& files, const DatasetFiles& names, const ClassCheck& check) {
  LEAT_ASSIGN_OR_RETURN(const FileLayout layout, read_layout(files, names));
  for (size_t i = 0; i < layout.parts.size(); ++i) {
    if (layout.parts[i].info.name != check.column) continue;
    for (const Place& place : layout.places) {
      const ClassChecker checker{check, place.name};
      if (is_tokens(names)) {
        LEAT_RETURN_IF_ERROR(check_tokens(files, layout, place, checker));
      } else if (place.column == layout.stored[i]) {
        LEAT_RETURN_IF_ERROR(check_array(files, layout, place, checker));
      }
    }
  }
  return {};
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

Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names,
                                     const ClassCheck& check, const ReadingLimits& limits) {
  return read_within<DatasetReport>(files, limits,
                                    [names, check](Files& bounded) -> Result<DatasetReport> {
                                      look_up(bounded, names);
                                      return report_dataset(bounded, names, check);
                                    });
}

Result<DatasetReport> report_dataset(Files& files, const DatasetFiles& names,
                                     const ClassCheck& check) {
  LEAT_ASSIGN_OR_RETURN(const FileLayout layout, read_layout(files, names));
  DatasetReport report{layout.info, layout.names.files, {}};
  // One for each file: an NPZ file has several columns.
  for (const Place& place : layout.places) {
    if (report.prints.size() == report.files.size()) break;
    LEAT_ASSIGN_OR_RETURN(std::string print, fingerprint(files, place.path));
    report.prints.push_back(std::move(print));
  }
  if (check.classes > 0) LEAT_RETURN_IF_ERROR(check_classes(files, layout.names, check));
  return report;
}

}  // namespace leat
