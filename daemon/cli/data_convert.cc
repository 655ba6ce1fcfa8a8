#include "daemon/cli/data_convert.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>

#include "daemon/cli/column_text.h"
#include "daemon/cli/row_memory.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

constexpr size_t kPiece = size_t{1} << 20;  // bytes that are written at once
constexpr int64_t kMostCsvFields = 16'384;  // of a column
constexpr std::string_view kOutputs = ".npz, .npy, .safetensors, .csv or .jsonl";

std::string extension_of(const std::string& path) {
  for (const char* each : {".npz", ".npy", ".safetensors", ".csv", ".jsonl"}) {
    if (path.ends_with(each)) return each;
  }
  return "";
}

// Passes the elements of whole columns on. Columns that fit into the memory together are read in
// one pass over the rows. Threads: one.
class ColumnPasses {
 public:
  ColumnPasses(const Dataset& data, uint64_t memory)
      : data_(data), memory_(memory), kept_(data.info().columns.size()) {}

  Status pass(size_t column, const TakeBytes& put) {
    if (kept_[column].empty()) {
      if (bytes_of(column) > memory_) return stream(column, put);
      LEAT_RETURN_IF_ERROR(keep_from(column));
    }
    return put(kept_[column]);
  }

 private:
  uint64_t bytes_of(size_t column) const {
    return static_cast<uint64_t>(data_.info().columns[column].row_bytes()) *
           static_cast<uint64_t>(data_.info().count);
  }

  // Reads this column and those behind it that fit, in place of the ones that were kept.
  Status keep_from(size_t column) {
    for (Bytes& each : kept_) each = Bytes();
    uint64_t left = memory_;
    std::vector<std::byte*> outs(kept_.size(), nullptr);
    for (size_t i = 0; i < kept_.size(); ++i) {
      const size_t c = (column + i) % kept_.size();
      if (bytes_of(c) > left) continue;
      left -= bytes_of(c);
      kept_[c].resize(static_cast<size_t>(bytes_of(c)));
      outs[c] = kept_[c].data();
    }
    for (int64_t row = 0; row < data_.info().count; ++row) {
      LEAT_RETURN_IF_ERROR(data_.read_row(row, outs));
      for (size_t c = 0; c < outs.size(); ++c) {
        if (outs[c]) outs[c] += data_.info().columns[c].row_bytes();
      }
    }
    return {};
  }

  Status stream(size_t column, const TakeBytes& put) const {
    const auto size = static_cast<size_t>(data_.info().columns[column].row_bytes());
    const size_t rows = std::max<size_t>(1, kPiece / std::max<size_t>(size, 1));
    Bytes piece(rows * size);
    size_t used = 0;
    for (int64_t row = 0; row < data_.info().count; ++row) {
      LEAT_RETURN_IF_ERROR(data_.read(column, row, std::span(piece).subspan(used, size)));
      used += size;
      if (used < piece.size()) continue;
      LEAT_RETURN_IF_ERROR(put(piece));
      used = 0;
    }
    return put(std::span(piece).first(used));
  }

  const Dataset& data_;
  const uint64_t memory_;
  std::vector<Bytes> kept_;  // by column; empty: not in memory
};

// A converter for one output.
class DataWriter {
 public:
  DataWriter(const Dataset& data, std::vector<ColumnText> texts, uint64_t memory)
      : data_(data), texts_(std::move(texts)), passes_(data, memory) {}

  // The conditions that are known before the rows are read.
  Status check(const std::string& format) const {
    const auto& columns = data_.info().columns;
    if (format == ".npy" && columns.size() != 1) {
      std::vector<std::string> names;
      for (const ColumnInfo& column : columns) names.push_back(column.name);
      return invalid_argument(cat("expected one column for .npy, received ", join(names, ", "),
                                  "; name one with --columns, or write .npz"));
    }
    for (const ColumnText& column : texts_) {
      if (format != ".csv" || column.is_text() || column.info().shape.elements() <= kMostCsvFields)
        continue;
      return invalid_argument(cat("column '", column.info().name, "': expected at most ",
                                  kMostCsvFields, " elements for .csv, received ",
                                  column.info().shape, "; write .jsonl or .npz"));
    }
    return {};
  }

  Status write(const std::string& format, const TakeBytes& take) {
    if (format == ".csv") return write_lines(take, &DataWriter::csv_header, &DataWriter::add_csv);
    if (format == ".jsonl") return write_lines(take, nullptr, &DataWriter::add_json);
    const std::vector<ArrayEntry> all = entries();
    if (format == ".npy") {
      LEAT_ASSIGN_OR_RETURN(const std::string header, npy_header(all[0].dtype, all[0].shape));
      LEAT_RETURN_IF_ERROR(take(std::as_bytes(std::span(header))));
      return passes_.pass(0, take);
    }
    if (format == ".npz")
      return format_npz(
          all, [&](size_t column, const TakeBytes& put) { return passes_.pass(column, put); },
          take);
    return format_safetensors(
        all, metadata(),
        [&](size_t column, const TakeBytes& put) { return passes_.pass(column, put); }, take);
  }

 private:
  std::vector<ArrayEntry> entries() const {
    std::vector<ArrayEntry> out;
    for (const ColumnInfo& column : data_.info().columns) {
      std::vector<int64_t> dims{data_.info().count};
      for (const int64_t dim : column.shape.dims()) dims.push_back(dim);
      out.push_back({column.name, column.dtype, Shape(dims)});
    }
    return out;
  }

  // The names of the classes of a column, as a list of JSON.
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> out;
    for (const ColumnText& column : texts_) {
      if (column.classes().empty()) continue;
      std::vector<std::string> names;
      for (const std::string& each : column.classes()) names.push_back(json_string(each));
      out.emplace(cat("classes.", column.info().name), cat("[", join(names, ", "), "]"));
    }
    return out;
  }

  std::string csv_header() const {
    std::vector<std::string> fields;
    for (const ColumnText& column : texts_) {
      for (const std::string& each : column.csv_fields()) fields.push_back(csv_field(each));
    }
    return join(fields, ",") + "\n";
  }
  void add_csv(const std::vector<Bytes>& row, std::string& out) const {
    for (size_t c = 0; c < texts_.size(); ++c) {
      if (c > 0) out += ',';
      texts_[c].add_csv(row[c].data(), out);
    }
  }
  void add_json(const std::vector<Bytes>& row, std::string& out) const {
    out += '{';
    for (size_t c = 0; c < texts_.size(); ++c) {
      out += cat(c > 0 ? ", " : "", json_string(texts_[c].info().name), ": ");
      texts_[c].add_json(row[c].data(), out);
    }
    out += '}';
  }

  Status write_lines(const TakeBytes& take, std::string (DataWriter::*header)() const,
                     void (DataWriter::*add)(const std::vector<Bytes>&, std::string&) const) const {
    RowMemory memory(data_.info());
    std::string text = header ? (this->*header)() : "";
    for (int64_t i = 0; i < data_.info().count; ++i) {
      LEAT_RETURN_IF_ERROR(data_.read_row(i, memory.outs));
      (this->*add)(memory.rows, text);
      text += '\n';
      if (text.size() < kPiece) continue;
      LEAT_RETURN_IF_ERROR(take(std::as_bytes(std::span(text))));
      text.clear();
    }
    return text.empty() ? Status() : take(std::as_bytes(std::span(text)));
  }

  const Dataset& data_;
  const std::vector<ColumnText> texts_;
  ColumnPasses passes_;
};

Status refuse_existing(Files& files, const std::string& output, bool force) {
  if (force) return {};
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(output));
  if (!there) return {};
  return failed_precondition(cat("'", output, "': there is a file; --force replaces it"));
}

// Keeps the columns of these names: those that a job names so, or else those of the files.
void choose_columns(const std::vector<std::string>& wanted, DatasetFiles& names) {
  if (wanted.empty()) return;
  std::vector<std::string> chosen;
  for (const std::string& name : wanted) {
    const auto view = std::find_if(
        names.columns.begin(), names.columns.end(),
        [&](const std::string& each) { return each.substr(0, each.find_first_of("=[")) == name; });
    chosen.push_back(view == names.columns.end() ? name : *view);
  }
  names.columns = std::move(chosen);
}

}  // namespace

Result<ConvertedData> convert_data(Files& files, const NamedData& data, const std::string& output,
                                   bool force, uint64_t memory) {
  const std::string format = extension_of(output);
  if (format.empty()) return invalid_argument(cat("'", output, "': expected a file ", kOutputs));
  LEAT_RETURN_IF_ERROR(refuse_existing(files, output, force));
  // Arrays stay in their files where they can, so that memory stays bounded.
  LEAT_ASSIGN_OR_RETURN(const ReportedDataset reported,
                        open_reported(files, data.names, /*large_array=*/0));
  const auto& [opened, found] = reported;
  ConvertedData out{opened->info(), data.notes};
  out.notes.insert(out.notes.end(), found.notes.begin(), found.notes.end());
  const std::vector<bool> is_text = text_columns(data.names, opened->info());
  std::vector<ColumnText> texts;
  for (size_t c = 0; c < out.info.columns.size(); ++c)
    texts.emplace_back(out.info.columns[c], is_text[c], opened->class_names(c));
  DataWriter writer(*opened, std::move(texts), memory);
  LEAT_RETURN_IF_ERROR(writer.check(format).while_doing(cat("writing '", output, "'")));
  LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(output)));
  LEAT_RETURN_IF_ERROR(write_file_atomically(files, output, [&](const TakeBytes& take) -> Status {
    LEAT_RETURN_IF_ERROR(writer.write(format, take));
    // Another program may have made the file meanwhile.
    return refuse_existing(files, output, force);
  }));
  return out;
}

int run_data_convert(const DataConvertCommand& command) {
  const std::string path = path_of_source(command.source);
  if (!path.empty() && report_missing("data file", path, command.color)) return kExitNoSuch;
  // Texts are as long as the longest one of all records.
  auto sets = find_data(real_files(), command.source, INT64_MAX);
  if (!sets.ok()) return report(sets.status(), command.color);
  std::vector<std::string> names;
  for (const NamedData& set : *sets) names.push_back(set.name);
  const auto found = std::find_if(sets->begin(), sets->end(), [&](const NamedData& set) {
    return set.name == command.part || set.name == "data";
  });
  if (found == sets->end()) {
    return report(
        invalid_argument(cat("--part: expected one of ", join(names, ", "), ", received '",
                             command.part, "'", did_you_mean(command.part, names))),
        command.color);
  }
  choose_columns(command.columns, found->names);
  const auto done = convert_data(real_files(), *found, command.output, command.force);
  if (!done.ok()) return report(done.status(), command.color);
  print_notes(done->notes);
  std::cerr << printable(command.output) << ": " << counted(done->info.count, "row") << ", "
            << counted(done->info.columns.size(), "column") << "\n";
  return kExitOk;
}

}  // namespace leat
