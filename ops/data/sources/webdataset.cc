// Tar shards in the convention of WebDataset: files one after the other whose names are equal up to
// the first dot are a sample, and what follows the dot names a part of it.
//
//   0001.jpg 0001.cls   0002.jpg 0002.cls   ...        columns: {image: jpg, labels: cls}
#include <algorithm>
#include <map>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/record_files.h"
#include "ops/data/sources/sample_column.h"
#include "ops/data/sources/shard_index.h"
#include "ops/formats/tar.h"

namespace leat {
namespace {

constexpr SourceOption kOwnShardColumn[] = {
    {.name = "ext", .kind = OptionKind::texts, .required = true},
    {.name = "field", .kind = OptionKind::text},
    kShapeOption,
    kDtypeOption,
    kCategoriesOption,
    kFillOption,
    kBytesOption,
    kHoldsOption,
};
constexpr auto kShardColumn = with_image_options(kOwnShardColumn);
constexpr SourceOption kShardOptions[] = {
    {.name = "columns",
     .kind = OptionKind::columns,
     .required = true,
     .of_column = kShardColumn,
     .shorthand = "ext"},
    kOnBadRecordOption,
};

constexpr uint64_t kPartBytes = uint64_t{64} << 20;  // of a file that is no image

// A column with the extensions of the files that it may be read from, the first one first.
struct ShardColumn {
  SampleColumn column;
  std::vector<std::string> extensions;
  std::string field;  // of a JSON file

  static Result<ShardColumn> make(const std::string& name, const SourceOptions& options) {
    LEAT_ASSIGN_OR_RETURN(SampleColumn column, SampleColumn::make(name, options));
    ShardColumn out{std::move(column), {}, options.text("field")};
    for (const std::string& each : options.texts("ext")) {
      out.extensions.push_back(lower_case(each.starts_with('.') ? each.substr(1) : each));
      if (is_json(out.extensions.back()) == out.field.empty()) {
        return invalid_argument(cat("field: expected that of a JSON file, which a column of .json ",
                                    "has and no other, received '", out.field, "' with .", each));
      }
      const bool is_image_file = !is_json(out.extensions.back()) && !is_npy(out.extensions.back());
      if (out.column.type().holds_image() && !is_image_file) {
        return invalid_argument(
            cat("holds: image: expected the extension of files of images, received .", each));
      }
    }
    return out;
  }
  static bool is_json(std::string_view extension) {
    return extension == "json" || extension.ends_with(".json");
  }
  static bool is_npy(std::string_view extension) {
    return extension == "npy" || extension.ends_with(".npy");
  }
};

// The place of a part of a sample.
struct ShardPart {
  uint64_t offset = 0, size = 0;
  uint32_t extension = 0;  // which of the column's; kNone: the sample has none of them
  static constexpr uint32_t kNone = UINT32_MAX;
};

class WebDataset final : public Source {
 public:
  WebDataset(Files& files, std::vector<SourceFile> places, std::vector<ShardColumn> columns)
      : pool_(files, std::move(places)), columns_(std::move(columns)) {
    for (const ShardColumn& each : columns_) info_.columns.push_back(each.column.info());
  }

  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    std::vector<ShardColumn> columns;
    for (const auto& [name, options] : setup.options.columns()) {
      LEAT_ASSIGN_OR_RETURN(ShardColumn column, ShardColumn::make(name, options));
      columns.push_back(std::move(column));
    }
    auto source = std::make_unique<WebDataset>(setup.files, setup.places, std::move(columns));
    source->skips_ = setup.options.text("on_bad_record") == "skip";
    for (size_t shard = 0; shard < source->pool_.size(); ++shard)
      LEAT_RETURN_IF_ERROR(source->index_shard(setup.files, shard));
    if (source->info_.count > 0) return std::unique_ptr<Source>(std::move(source));
    return invalid_argument(cat("'", setup.places[0].name, "': expected at least one ",
                                source->skipped_ > 0 ? "good sample, the first is " : "sample",
                                source->first_skipped_, ", received none"));
  }

  uint64_t memory(const std::vector<bool>&) const override {
    return sizeof(ShardPart) * parts_.size();
  }
  Status attach(Files& files) override {
    pool_.attach(files);
    return {};
  }
  std::string row_name(int64_t row) const override {
    const size_t shard = shard_of(row);
    return cat("'", pool_.place(shard).name, "': record ", row - info_.first_rows[shard] + 1);
  }
  Status read(int64_t row, std::span<const RowPart> parts) const override {
    return read_drawn(row, RowKey{0, static_cast<uint64_t>(row)}, parts);
  }
  Status read_drawn(int64_t row, const RowKey& key, std::span<const RowPart> parts) const override {
    LEAT_ASSIGN_OR_RETURN(const auto file, pool_.get(shard_of(row)));
    const ShardPart* places = &parts_[static_cast<size_t>(row) * columns_.size()];
    for (const RowPart& part : parts) {
      const Status read = read_part(*file, places[part.column], key, part);
      if (!read.ok()) {
        return Status(read.code(), cat(row_name(row), ": column '", info_.columns[part.column].name,
                                       "': ", read.message()));
      }
    }
    return {};
  }
  void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const override {
    const auto file = pool_.get(shard_of(row));
    const ShardPart* places = &parts_[static_cast<size_t>(row) * columns_.size()];
    if (!file.ok()) return;
    for (const size_t column : columns) {
      if (places[column].extension != ShardPart::kNone)
        (*file)->advise(places[column].offset, places[column].size, advice);
    }
  }
  bool takes_advice() const override { return true; }

 private:
  // The files of the sample that the pass is at.
  struct Sample {
    std::string key;
    std::map<std::string, ShardPart, std::less<>> parts;  // by extension
  };

  size_t shard_of(int64_t row) const {
    const auto next = std::upper_bound(info_.first_rows.begin(), info_.first_rows.end(), row);
    return static_cast<size_t>(next - info_.first_rows.begin()) - 1;
  }

  Status index_shard(Files& files, size_t shard) {
    LEAT_ASSIGN_OR_RETURN(const auto file, pool_.get(shard));
    file_bytes_ += file->size();
    info_.first_rows.push_back(info_.count);
    const ScanShard scan = [](const ReadableFile& archive, const TakeMember& take) {
      return read_tar(archive, [&](TarMember member) {
        return take({std::move(member.name), member.offset, member.size});
      });
    };
    Sample sample;
    LEAT_RETURN_IF_ERROR(
        read_shard(files, *file, "tar", scan, [&](const ShardMember& member) -> Status {
          const size_t slash = member.name.rfind('/');
          const size_t base = slash == std::string::npos ? 0 : slash + 1;
          const size_t dot = member.name.find('.', base);
          // Hidden files, and those without an extension, belong to no sample.
          if (dot == std::string::npos || dot == base) return {};
          if (member.name.compare(0, dot, sample.key) != 0 || sample.key.size() != dot) {
            LEAT_RETURN_IF_ERROR(end_sample(*file, shard, sample));
            sample = {member.name.substr(0, dot), {}};
          }
          const std::string extension = lower_case(member.name.substr(dot + 1));
          if (sample.parts.emplace(extension, ShardPart{member.offset, member.size, 0}).second)
            return {};
          return invalid_argument(cat("'", pool_.place(shard).name, "': expected '", member.name,
                                      "' once, received it twice"));
        }));
    return end_sample(*file, shard, sample);
  }

  Status end_sample(const ReadableFile& file, size_t shard, const Sample& sample) {
    if (sample.parts.empty()) return {};
    std::vector<ShardPart> parts;
    Status good = find_parts(sample, parts);
    if (good.ok() && skips_) good = check_parts(file, parts);
    if (!good.ok()) {
      const std::string why =
          cat("'", pool_.place(shard).name, "': sample '", sample.key, "': ", good.message());
      if (!skips_) return Status(good.code(), why);
      if (skipped_++ == 0) first_skipped_ = why;
      return {};
    }
    parts_.insert(parts_.end(), parts.begin(), parts.end());
    ++info_.count;
    return {};
  }

  // Finds the file of each column. One that is missing is an error, unless the column has a fill.
  Status find_parts(const Sample& sample, std::vector<ShardPart>& parts) const {
    for (const ShardColumn& each : columns_) {
      ShardPart part{0, 0, ShardPart::kNone};
      for (uint32_t i = 0; i < each.extensions.size(); ++i) {
        const auto found = sample.parts.find(each.extensions[i]);
        if (found == sample.parts.end()) continue;
        part = found->second;
        part.extension = i;
        break;
      }
      const uint64_t most = each.column.is_image() ? kEncodedImage : kPartBytes;
      if (part.size > most)
        return invalid_argument(cat("expected at most ", most, " bytes of .",
                                    each.extensions[part.extension], ", received ", part.size));
      if (part.extension == ShardPart::kNone) {
        Bytes ignored(static_cast<size_t>(each.column.info().row_bytes()));
        const Status filled = each.column.store_missing(ignored);
        if (!filled.ok()) {
          std::vector<std::string> there;
          for (const auto& [extension, place] : sample.parts) there.push_back("." + extension);
          return invalid_argument(cat("column '", each.column.info().name, "': expected a file .",
                                      join(each.extensions, " or ."), ", received ",
                                      join(there, ", ")));
        }
      }
      parts.push_back(part);
    }
    return {};
  }

  Status check_parts(const ReadableFile& file, const std::vector<ShardPart>& parts) const {
    for (size_t c = 0; c < columns_.size(); ++c) {
      const SampleColumn& column = columns_[c].column;
      Bytes row(static_cast<size_t>(column.info().row_bytes()));
      if (column.is_image() || column.type().holds_image()) {
        LEAT_ASSIGN_OR_RETURN(const Bytes bytes, bytes_of_part(file, parts[c]));
        LEAT_RETURN_IF_ERROR(column.is_image() ? column.image().check(bytes)
                                               : column.type().check_image(bytes));
      } else {
        LEAT_RETURN_IF_ERROR(read_part(file, parts[c], {}, {c, 0, row}));
      }
    }
    return {};
  }

  static Result<Bytes> bytes_of_part(const ReadableFile& file, const ShardPart& part) {
    Bytes bytes(static_cast<size_t>(part.size));
    LEAT_RETURN_IF_ERROR(file.read(part.offset, bytes));
    return bytes;
  }

  Status read_part(const ReadableFile& file, const ShardPart& place, const RowKey& key,
                   const RowPart& part) const {
    const ShardColumn& from = columns_[part.column];
    const SampleColumn& column = from.column;
    if (place.extension == ShardPart::kNone)
      return read_sample_part(column, part,
                              [&](std::span<std::byte> out) { return column.store_missing(out); });
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, bytes_of_part(file, place));
    if (column.is_image()) return column.image().read(bytes, key, part.offset, part.out);
    const std::string& extension = from.extensions[place.extension];
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return read_sample_part(column, part, [&](std::span<std::byte> out) {
      if (ShardColumn::is_json(extension)) return column.store_json(text, from.field, out);
      if (ShardColumn::is_npy(extension)) return column.store_npy(bytes, out);
      return column.store_text(text, out);
    });
  }

  FilePool pool_;
  const std::vector<ShardColumn> columns_;
  bool skips_ = false;
  std::vector<ShardPart> parts_;  // of row 0, one for each column, then of row 1 ...
};

class WebDatasetFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "webdataset"; }
  FilesForm files_form() const override { return FilesForm::patterns; }
  std::span<const SourceOption> options() const override { return kShardOptions; }
  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    for (const auto& [name, column] : options.columns()) {
      const auto made = ShardColumn::make(name, column);
      if (!made.ok())
        return invalid_argument(cat("column '", name, "': ", made.status().message()));
    }
    return {};
  }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return WebDataset::open(setup);
  }
};

}  // namespace

const SourceFormat& webdataset_source() {
  static const WebDatasetFormat format;
  return format;
}

}  // namespace leat
