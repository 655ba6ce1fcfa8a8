#include "daemon/cli/data_inspect.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/cli/column_text.h"
#include "daemon/cli/row_memory.h"
#include "daemon/cli/table.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr int64_t kShownRows = 3;
constexpr size_t kShownFiles = 10, kShownClasses = 20;
constexpr size_t kMostClasses = 10'000;  // more are no classes, but numbers

bool counts_classes(const InspectedColumn& column) {
  return is_int(column.info.dtype) && column.info.shape.elements() == 1 && !column.is_text &&
         (column.info.name.find("label") != std::string::npos || !column.class_names.empty());
}

void add_range(const ColumnText& text, const std::byte* row, InspectedColumn& column) {
  if (column.is_text) return;
  for (int64_t i = 0; i < column.info.shape.elements(); ++i) {
    const double value = text.number(row, i);
    if (std::isnan(value)) continue;
    column.lowest = std::min(column.lowest.value_or(value), value);
    column.highest = std::max(column.highest.value_or(value), value);
  }
}

void read_first_rows(const Dataset& data, const std::vector<ColumnText>& texts, int64_t rows,
                     InspectedData& out) {
  RowMemory memory(data.info());
  for (int64_t row = 0; row < std::min(rows, out.rows); ++row) {
    const Status read = data.read_row(row, memory.outs);
    ++out.rows_read;
    if (!read.ok()) {
      if (out.bad_rows++ == 0) out.first_bad = read.message();
      continue;
    }
    for (size_t c = 0; c < texts.size(); ++c) {
      InspectedColumn& column = out.columns[c];
      add_range(texts[c], memory.rows[c].data(), column);
      if (static_cast<int64_t>(column.first_rows.size()) < kShownRows)
        column.first_rows.push_back(texts[c].shown(memory.rows[c].data(), 24));
    }
  }
}

// Reads the columns of classes alone.
void count_classes(const Dataset& data, const std::vector<ColumnText>& texts, int64_t rows,
                   InspectedData& out) {
  RowMemory memory(data.info());
  bool any = false;
  for (size_t c = 0; c < texts.size(); ++c) {
    const bool counted = counts_classes(out.columns[c]);
    any = any || counted;
    if (!counted) memory.outs[c] = nullptr;
  }
  if (!any) return;
  out.rows_counted = std::min(std::max(rows, kCountedRows), out.rows);
  for (int64_t row = 0; row < out.rows_counted; ++row) {
    if (!data.read_row(row, memory.outs).ok()) continue;  // read_first_rows() reports it
    for (size_t c = 0; c < texts.size(); ++c) {
      if (!memory.outs[c]) continue;
      auto& classes = out.columns[c].classes;
      ++classes[static_cast<int64_t>(texts[c].number(memory.rows[c].data(), 0))];
      if (classes.size() <= kMostClasses) continue;
      out.notes.push_back(cat("'", out.columns[c].info.name, "' has more than ", kMostClasses,
                              " values, which are not counted"));
      classes.clear();
      memory.outs[c] = nullptr;
    }
  }
}

std::string range_of(const InspectedColumn& column) {
  if (!column.lowest) return column.is_text ? "text" : "-";
  if (*column.lowest == *column.highest) return shortest(*column.lowest);
  return cat(shortest(*column.lowest), " to ", shortest(*column.highest));
}

std::string class_text(const InspectedColumn& column, int64_t label) {
  const auto index = static_cast<size_t>(label);
  if (label < 0 || index >= column.class_names.size()) return std::to_string(label);
  return cat(label, " '", column.class_names[index], "'");
}

void print_classes(const InspectedColumn& column, int64_t rows) {
  if (column.classes.empty()) return;
  std::cout << "  classes of " << column.info.name << " in " << counted(rows, "row") << "\n";
  std::vector<std::vector<std::string>> table;
  size_t shown = 0;
  for (const auto& [label, count] : column.classes) {
    if (shown++ == kShownClasses) break;
    table.push_back({"   ", printable(class_text(column, label)), std::to_string(count)});
  }
  std::cout << format_table({"", "", ""}, table, false);
  if (column.classes.size() > kShownClasses)
    std::cout << "    and " << column.classes.size() - kShownClasses << " more\n";
}

void print_text(const InspectedData& data) {
  std::cout << data.name << ": " << data.format << ", " << counted(data.rows, "row") << ", "
            << counted(data.columns.size(), "column") << "\n";
  for (size_t f = 0; f < std::min(data.files.size(), kShownFiles); ++f) {
    std::cout << "  file " << printable(data.files[f]);
    if (f < data.prints.size()) std::cout << "  " << data.prints[f];
    std::cout << "\n";
  }
  if (data.files.size() > kShownFiles)
    std::cout << "  and " << data.files.size() - kShownFiles << " more files\n";
  std::vector<std::vector<std::string>> table;
  for (const InspectedColumn& column : data.columns) {
    table.push_back({" ", column.info.name, cat(column.info.dtype, column.info.shape),
                     range_of(column), or_dash(join(column.first_rows, ", "))});
  }
  std::cout << format_table({" ", "COLUMN", "TYPE", "VALUES", "FIRST ROWS"}, table, true,
                            {stdout_columns(), {{"FIRST ROWS", 10}}});
  for (const InspectedColumn& column : data.columns) print_classes(column, data.rows_counted);
  std::cout << "  read " << counted(data.rows_read, "row") << ", "
            << (data.bad_rows == 0 ? "all of them good" : cat(data.bad_rows, " of them bad"))
            << "\n";
  if (data.bad_rows > 0) std::cout << "  first " << printable(data.first_bad) << "\n";
}

JsonLine json_of(std::string_view kind, const InspectedData& data) {
  JsonLine line;
  line.add("apiVersion", "leat/v1").add("kind", kind).add("set", data.name);
  return line;
}

void print_json(const InspectedData& data) {
  JsonLine set = json_of("DataSet", data);
  set.add("format", data.format).add("rows", data.rows);
  set.add("rowsRead", data.rows_read).add("badRows", data.bad_rows);
  if (data.bad_rows > 0) set.add("firstBad", data.first_bad);
  std::cout << set.text();
  for (size_t f = 0; f < data.files.size(); ++f) {
    JsonLine line = json_of("DataFile", data);
    line.add("file", data.files[f]);
    if (f < data.prints.size()) line.add("print", data.prints[f]);
    std::cout << line.text();
  }
  for (const InspectedColumn& column : data.columns) {
    JsonLine line = json_of("DataColumn", data);
    line.add("column", column.info.name).add("type", cat(column.info.dtype));
    line.add("shape", cat("[", join(column.info.shape.dims(), ","), "]"));
    line.add("text", column.is_text);
    line.add("lowest", column.lowest).add("highest", column.highest);
    for (size_t i = 0; i < column.first_rows.size(); ++i)
      line.add(cat("row", i), column.first_rows[i]);
    std::cout << line.text();
  }
  for (const InspectedColumn& column : data.columns) {
    for (const auto& [label, count] : column.classes) {
      JsonLine line = json_of("ClassCount", data);
      line.add("column", column.info.name).add("class", label);
      const auto index = static_cast<size_t>(label);
      if (label >= 0 && index < column.class_names.size())
        line.add("name", column.class_names[index]);
      std::cout << line.add("rows", count).text();
    }
  }
}

}  // namespace

Result<InspectedData> inspect_data(Files& files, const NamedData& data, int64_t rows) {
  // Arrays stay in their files where they can: only a few rows are read.
  LEAT_ASSIGN_OR_RETURN(const ReportedDataset reported,
                        open_reported(files, data.names, /*large_array=*/0));
  const auto& [opened, report] = reported;
  InspectedData out;
  out.name = data.name;
  out.format = data.names.format;
  out.rows = opened->info().count;
  out.files = report.files;
  out.prints = report.prints;
  out.notes = data.notes;
  out.notes.insert(out.notes.end(), report.notes.begin(), report.notes.end());
  const std::vector<bool> is_text = text_columns(data.names, opened->info());
  std::vector<ColumnText> texts;
  for (size_t c = 0; c < opened->info().columns.size(); ++c) {
    const ColumnInfo& info = opened->info().columns[c];
    texts.emplace_back(info, is_text[c], std::vector<std::string>());
    out.columns.push_back({info, texts[c].is_text(), {}, {}, {}, {}, opened->class_names(c)});
  }
  read_first_rows(*opened, texts, rows, out);
  count_classes(*opened, texts, rows, out);
  return out;
}

int run_data_inspect(const DataInspectCommand& command) {
  const std::string path = path_of_source(command.source);
  if (!path.empty() && report_missing("data file", path, command.color)) return kExitNoSuch;
  const auto sets = find_data(real_files(), command.source, command.rows);
  if (!sets.ok()) return report(sets.status(), command.color);
  for (const NamedData& set : *sets) {
    const auto data = inspect_data(real_files(), set, command.rows);
    if (!data.ok()) {
      return report(data.status().while_doing(cat("inspecting '", command.source, "', ", set.name)),
                    command.color);
    }
    command.json ? print_json(*data) : print_text(*data);
    std::cout << std::flush;
    print_notes(data->notes);
  }
  return kExitOk;
}

}  // namespace leat
