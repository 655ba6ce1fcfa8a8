// TFRecord files of tf.train.Example: each record is a row, and a column is one of its features.
#include "ops/formats/tfrecord.h"

#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/record_files.h"
#include "ops/data/sources/sample_column.h"
#include "ops/data/sources/shard_index.h"

namespace leat {
namespace {

constexpr SourceOption kOwnFeatureColumn[] = {
    {.name = "feature", .kind = OptionKind::text},
    {.name = "raw", .kind = OptionKind::flag, .initial = "false"},
    kShapeOption,
    kDtypeOption,
    kCategoriesOption,
    kFillOption,
    kBytesOption,
    kHoldsOption,
};
constexpr auto kFeatureColumn = with_image_options(kOwnFeatureColumn);
constexpr SourceOption kExampleOptions[] = {
    {.name = "columns",
     .kind = OptionKind::columns,
     .required = true,
     .of_column = kFeatureColumn,
     .shorthand = "feature"},
    kOnBadRecordOption,
};

constexpr uint64_t kCheckedBytes = uint64_t{1} << 30;  // of records whose labels are checked

struct FeatureColumn {
  SampleColumn column;
  std::string feature;
  bool raw = false;  // the feature is the bytes of the elements

  static Result<FeatureColumn> make(const std::string& name, const SourceOptions& options) {
    LEAT_ASSIGN_OR_RETURN(SampleColumn column, SampleColumn::make(name, options));
    FeatureColumn out{std::move(column), options.has("feature") ? options.text("feature") : name,
                      options.flag("raw")};
    if (out.raw && (out.column.is_image() || options.has("bytes") || options.has("categories")))
      return invalid_argument("raw: expected a dtype and a shape alone");
    return out;
  }
};

class TfRecordSource final : public Source {
 public:
  TfRecordSource(Files& files, std::vector<SourceFile> places, std::vector<FeatureColumn> columns)
      : pool_(files, std::move(places)), columns_(std::move(columns)) {
    for (const FeatureColumn& each : columns_) info_.columns.push_back(each.column.info());
    for (size_t c = 0; c < columns_.size(); ++c) by_feature_.emplace(columns_[c].feature, c);
  }

  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    std::vector<FeatureColumn> columns;
    for (const auto& [name, options] : setup.options.columns()) {
      LEAT_ASSIGN_OR_RETURN(FeatureColumn column, FeatureColumn::make(name, options));
      columns.push_back(std::move(column));
    }
    auto source = std::make_unique<TfRecordSource>(setup.files, setup.places, std::move(columns));
    const bool skips = setup.options.text("on_bad_record") == "skip";
    for (size_t file = 0; file < source->pool_.size(); ++file)
      LEAT_RETURN_IF_ERROR(source->index_file(setup.files, file, skips));
    source->info_.count = static_cast<int64_t>(source->places_.size());
    if (source->info_.count > 0) return std::unique_ptr<Source>(std::move(source));
    return invalid_argument(cat("'", setup.places[0].name, "': expected at least one ",
                                source->skipped_ > 0 ? "good record, the first is " : "record",
                                source->first_skipped_, ", received none"));
  }

  uint64_t memory(const std::vector<bool>&) const override {
    return sizeof(TfRecordPlace) * places_.size();
  }
  Status attach(Files& files) override {
    pool_.attach(files);
    return {};
  }
  std::string row_name(int64_t row) const override {
    const size_t file = file_of(row);
    return cat("'", pool_.place(file).name, "': record ", row - info_.first_rows[file] + 1);
  }
  // Labels are within their records: to look at all of them is to read all of the data, which may
  // be larger than any memory. The step that meets a label behind those finds it, too.
  Status check_classes(Files& files, const ClassCheck& check, size_t column,
                       const ColumnPart& view) override {
    LEAT_RETURN_IF_ERROR(attach(files));
    const Tensor labels(view.info.dtype, view.info.shape);
    const RowPart part{
        column,
        view.offset,
        {static_cast<std::byte*>(labels.raw()), static_cast<size_t>(labels.bytes())}};
    uint64_t bytes = 0;
    for (int64_t row = 0; row < info_.count && bytes < kCheckedBytes; ++row) {
      bytes += places_[static_cast<size_t>(row)].size;
      LEAT_RETURN_IF_ERROR(read(row, {&part, 1}));
      for (int64_t i = 0; i < labels.elements(); ++i) {
        if (!check.allows(labels.int_at(i)))
          return check.refuse(cat(row_name(row), ": label"), labels.int_at(i));
      }
    }
    return {};
  }

  Status read(int64_t row, std::span<const RowPart> parts) const override {
    return read_drawn(row, RowKey{0, static_cast<uint64_t>(row)}, parts);
  }
  Status read_drawn(int64_t row, const RowKey& key, std::span<const RowPart> parts) const override {
    LEAT_ASSIGN_OR_RETURN(const auto file, pool_.get(file_of(row)));
    const Status status = read_record(*file, places_[static_cast<size_t>(row)], key, parts);
    return status.ok() ? status : Status(status.code(), cat(row_name(row), ": ", status.message()));
  }
  // The record is read whole, whatever columns of it are wanted.
  void advise(int64_t row, std::span<const size_t>, ReadAdvice advice) const override {
    const auto file = pool_.get(file_of(row));
    const TfRecordPlace& place = places_[static_cast<size_t>(row)];
    if (file.ok()) (*file)->advise(place.offset, place.size, advice);
  }
  bool takes_advice() const override { return true; }

 private:
  size_t file_of(int64_t row) const {
    const auto next = std::upper_bound(info_.first_rows.begin(), info_.first_rows.end(), row);
    return static_cast<size_t>(next - info_.first_rows.begin()) - 1;
  }

  Status index_file(Files& files, size_t index, bool skips) {
    LEAT_ASSIGN_OR_RETURN(const auto file, pool_.get(index));
    file_bytes_ += file->size();
    info_.first_rows.push_back(static_cast<int64_t>(places_.size()));
    const ScanShard scan = [](const ReadableFile& records, const TakeMember& take) {
      return read_tfrecords(records, [&](TfRecordPlace place) {
        return take({"", place.offset, place.size});
      });
    };
    uint64_t number = 0;
    return read_shard(files, *file, "tfrecord", scan, [&](const ShardMember& member) -> Status {
      const TfRecordPlace place{member.offset, member.size};
      ++number;
      if (place.size > kEncodedImage) {
        return invalid_argument(cat("'", pool_.place(index).name, "': record ", number,
                                    ": expected at most ", kEncodedImage, " bytes, received ",
                                    place.size));
      }
      const Status good = skips ? check_record(*file, place) : Status();
      if (good.ok()) {
        places_.push_back(place);
      } else if (skipped_++ == 0) {
        first_skipped_ =
            cat("'", pool_.place(index).name, "': record ", number, ": ", good.message());
      }
      return {};
    });
  }

  Status check_record(const ReadableFile& file, const TfRecordPlace& place) const {
    std::vector<Bytes> rows;
    std::vector<RowPart> parts;
    for (const ColumnInfo& column : info_.columns)
      rows.emplace_back(static_cast<size_t>(column.row_bytes()));
    for (size_t c = 0; c < rows.size(); ++c) parts.push_back({c, 0, rows[c]});
    return read_record(file, place, {}, parts, true);
  }

  Status read_record(const ReadableFile& file, const TfRecordPlace& place, const RowKey& key,
                     std::span<const RowPart> parts, bool checks = false) const {
    Bytes record(static_cast<size_t>(place.size));
    LEAT_RETURN_IF_ERROR(read_tfrecord(file, place, record));
    std::vector<Feature> features(columns_.size());
    LEAT_RETURN_IF_ERROR(
        read_example(record, [&](std::string_view name, const Feature& feature) -> Status {
          const auto [begin, end] = by_feature_.equal_range(name);
          for (auto it = begin; it != end; ++it) features[it->second] = feature;
          return {};
        }));
    for (const RowPart& part : parts) {
      const Status stored = store(features[part.column], key, part, checks);
      if (!stored.ok()) {
        return Status(stored.code(),
                      cat("column '", info_.columns[part.column].name, "': feature ",
                          quoted_field(columns_[part.column].feature), ": ", stored.message()));
      }
    }
    return {};
  }

  Status store(const Feature& feature, const RowKey& key, const RowPart& part, bool checks) const {
    const FeatureColumn& from = columns_[part.column];
    const SampleColumn& column = from.column;
    if (!column.is_image() && !from.raw) {
      LEAT_RETURN_IF_ERROR(read_sample_part(column, part, [&](std::span<std::byte> out) {
        return column.store_feature(feature, out);
      }));
      if (!checks || !column.type().holds_image()) return {};
      LEAT_ASSIGN_OR_RETURN(const auto files, feature.bytes());
      return column.type().check_image(files[0]);
    }
    if (feature.kind() != Feature::Kind::bytes)
      return invalid_argument(feature.kind() == Feature::Kind::empty
                                  ? "expected bytes, received nothing"
                                  : "expected bytes, received numbers");
    LEAT_ASSIGN_OR_RETURN(const auto texts, feature.bytes());
    if (texts.size() != 1)
      return invalid_argument(cat("expected one text of bytes, received ", texts.size()));
    if (from.raw) {
      return read_sample_part(
          column, part, [&](std::span<std::byte> out) { return column.store_raw(texts[0], out); });
    }
    if (checks) return column.image().check(texts[0]);
    return column.image().read(texts[0], key, part.offset, part.out);
  }

  FilePool pool_;
  const std::vector<FeatureColumn> columns_;
  std::multimap<std::string, size_t, std::less<>> by_feature_;
  std::vector<TfRecordPlace> places_;  // by row
};

class TfRecordFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "tfrecord"; }
  FilesForm files_form() const override { return FilesForm::patterns; }
  std::span<const SourceOption> options() const override { return kExampleOptions; }
  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    for (const auto& [name, column] : options.columns()) {
      const auto made = FeatureColumn::make(name, column);
      if (!made.ok())
        return invalid_argument(cat("column '", name, "': ", made.status().message()));
    }
    return {};
  }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return TfRecordSource::open(setup);
  }
};

}  // namespace

const SourceFormat& tfrecord_source() {
  static const TfRecordFormat format;
  return format;
}

}  // namespace leat
