// The tensors of safetensors files as columns: dimension 0 of each counts the rows. Rows stay in
// the files and are read in place. Several files have the rows of one table, one after the other.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/record_files.h"
#include "ops/formats/elements.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

class SafetensorsSource final : public Source {
 public:
  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    auto source = std::make_unique<SafetensorsSource>();
    source->pool_ = std::make_unique<FilePool>(setup.files, setup.places);
    for (size_t file = 0; file < setup.places.size(); ++file)
      LEAT_RETURN_IF_ERROR(source->add_file(file));
    if (source->info_.count > 0) return std::unique_ptr<Source>(std::move(source));
    return invalid_argument(
        cat("'", setup.places[0].name, "': expected at least one record, received none"));
  }

  Status attach(Files& files) override {
    pool_->attach(files);
    return {};
  }

  Status read(int64_t row, std::span<const RowPart> parts) const override {
    const size_t file = file_of(row);
    LEAT_ASSIGN_OR_RETURN(const auto opened, pool_->get(file));
    for (const RowPart& part : parts) {
      const ColumnInfo& column = info_.columns[part.column];
      const uint64_t at =
          begins_[file][part.column] +
          static_cast<uint64_t>((row - first_rows_[file]) * column.row_bytes() + part.offset);
      LEAT_RETURN_IF_ERROR(opened->read(at, part.out));
      LEAT_RETURN_IF_ERROR(check_booleans(
          column.dtype, part.out, cat("'", pool_->place(file).name, "': ", column.name), at));
    }
    return {};
  }

  void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const override {
    const size_t file = file_of(row);
    const auto opened = pool_->get(file);
    if (!opened.ok()) return;
    for (const size_t column : columns) {
      const auto bytes = static_cast<uint64_t>(info_.columns[column].row_bytes());
      const auto at = static_cast<uint64_t>(row - first_rows_[file]);
      (*opened)->advise(begins_[file][column] + at * bytes, bytes, advice);
    }
  }

  bool takes_advice() const override { return true; }

  std::string row_name(int64_t row) const override {
    const size_t file = file_of(row);
    return cat("'", pool_->place(file).name, "': row ", row - first_rows_[file]);
  }

 private:
  size_t file_of(int64_t row) const {
    const auto next = std::upper_bound(first_rows_.begin(), first_rows_.end(), row);
    return static_cast<size_t>(next - first_rows_.begin()) - 1;
  }

  // Reads the header of a file. The first file says which columns there are.
  Status add_file(size_t file) {
    const std::string& name = pool_->place(file).name;
    LEAT_ASSIGN_OR_RETURN(const auto opened, pool_->get(file));
    file_bytes_ += opened->size();
    LEAT_ASSIGN_OR_RETURN(const SafeTensorsIndex index, read_safetensors_index(*opened));
    std::vector<ColumnInfo> columns;
    std::vector<uint64_t> begins;
    std::optional<int64_t> rows;
    for (const auto& [tensor, entry] : index.entries) {
      if (entry.shape.rank() == 0) continue;  // a scalar is no column
      if (!is_column_name(tensor))
        return invalid_argument(
            cat("'", name, "': expected names of columns, received the tensor '", tensor, "'"));
      if (entry.shape[0] != rows.value_or(entry.shape[0])) {
        return invalid_argument(cat("'", name, "': expected ", *rows, " rows in '", tensor,
                                    "', as '", columns[0].name, "' has, received ",
                                    entry.shape[0]));
      }
      rows = entry.shape[0];
      columns.push_back({tensor, entry.dtype, Shape(entry.shape.dims().subspan(1))});
      begins.push_back(entry.begin);
    }
    if (!rows) return invalid_argument(cat("'", name, "': expected tensors with rows, found none"));
    if (file == 0) info_.columns = columns;
    if (columns != info_.columns) {
      return invalid_argument(cat("'", name, "': expected the columns of '", pool_->place(0).name,
                                  "', received others"));
    }
    first_rows_.push_back(info_.count);
    begins_.push_back(std::move(begins));
    info_.count += *rows;
    return {};
  }

  std::unique_ptr<FilePool> pool_;
  std::vector<int64_t> first_rows_;            // by file
  std::vector<std::vector<uint64_t>> begins_;  // by file and column: of its elements
};

class SafetensorsFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "safetensors"; }
  FilesForm files_form() const override { return FilesForm::patterns; }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return SafetensorsSource::open(setup);
  }
};

}  // namespace

const SourceFormat& safetensors_source() {
  static const SafetensorsFormat format;
  return format;
}

}  // namespace leat
