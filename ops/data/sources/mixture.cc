// A mixture of data sets with the same columns. Its rows follow a pattern in which each source has
// as many places as its weight says: row r is at place r mod W of the pattern, and the rows of a
// source come one after the other, again from the first one behind the last.
#include "ops/data/sources/mixture.h"

#include <algorithm>
#include <cmath>

#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/open_source.h"
#include "ops/data/source_formats.h"

namespace leat {
namespace {

constexpr SourceOption kMixturePart[] = {
    {.name = "weight", .kind = OptionKind::number, .initial = "1", .min = 1e-6, .max = 1e6},
    {.name = "format", .kind = OptionKind::text, .required = true},
    {.name = "files", .kind = OptionKind::texts},
    {.name = "window", .kind = OptionKind::integer, .initial = "0"},
    {.name = "stride", .kind = OptionKind::integer, .initial = "0"},
    {.name = "dtype", .kind = OptionKind::text},
    {.name = "option", .kind = OptionKind::texts},
};
constexpr SourceOption kMixtureOptions[] = {
    {.name = "rows", .kind = OptionKind::integer, .min = 1, .max = 1152921504606846976.0},  // 2^60
    {.name = "sources", .kind = OptionKind::columns, .required = true, .of_column = kMixturePart},
};

// The order of the sources.
class Pattern {
 public:
  static constexpr int64_t kLength = 1000;

  // Each source gets a whole number of places, at least one, as near to its weight as they allow;
  // the places of each are spread evenly.
  explicit Pattern(const std::vector<double>& weights) {
    double all = 0;
    for (const double weight : weights) all += weight;
    for (const double weight : weights) {
      places_.push_back(std::max<int64_t>(1, std::llround(weight / all * kLength)));
      length_ += places_.back();
    }
    std::vector<int64_t> credit(weights.size(), 0), used(weights.size(), 0);
    for (int64_t at = 0; at < length_; ++at) {
      size_t next = 0;
      for (size_t s = 0; s < credit.size(); ++s) {
        credit[s] += places_[s];
        if (credit[s] > credit[next]) next = s;
      }
      credit[next] -= length_;
      order_.push_back({static_cast<uint32_t>(next), static_cast<uint32_t>(used[next]++)});
    }
  }
  struct At {
    size_t source;
    int64_t number;  // of the source's rows in the mixture, from 0
  };
  At at(int64_t row) const {
    const auto& [source, before] = order_[static_cast<size_t>(row % length_)];
    return {source, row / length_ * places_[source] + before};
  }
  // The rows of the mixture after which a source has had `rows` of its own; nothing on overflow.
  std::optional<int64_t> rows_for(size_t source, int64_t rows) const {
    const auto product = checked_mul(rows, length_);
    if (!product) return std::nullopt;
    return *product / places_[source] + (*product % places_[source] != 0);
  }

 private:
  struct Place {
    uint32_t source, before;
  };
  std::vector<int64_t> places_;  // by source
  int64_t length_ = 0;
  std::vector<Place> order_;
};

class MixtureSource final : public Source {
 public:
  explicit MixtureSource(const std::vector<double>& weights) : pattern_(weights) {}

  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    std::vector<double> weights;
    for (const auto& [name, part] : setup.options.columns())
      weights.push_back(part.number("weight"));
    auto mixture = std::make_unique<MixtureSource>(weights);
    for (const MixturePart& part : mixture_parts(setup.names)) {
      auto opened = open_source(setup.files, part.names, setup.large_array);
      if (!opened.ok())
        return Status(opened.status().code(),
                      cat("source '", part.name, "': ", opened.status().message()));
      mixture->names_.push_back(part.name);
      mixture->sources_.push_back(std::move(opened->source));
      LEAT_RETURN_IF_ERROR(mixture->match_columns());
    }
    LEAT_RETURN_IF_ERROR(mixture->count_rows(setup.options));
    return std::unique_ptr<Source>(std::move(mixture));
  }

  uint64_t memory(const std::vector<bool>& wanted) const override {
    uint64_t bytes = 0;
    for (size_t s = 0; s < sources_.size(); ++s) bytes += sources_[s]->memory(wanted_of(s, wanted));
    return bytes;
  }
  Status load(Files& files, const std::vector<bool>& wanted) override {
    for (size_t s = 0; s < sources_.size(); ++s)
      LEAT_RETURN_IF_ERROR(sources_[s]->load(files, wanted_of(s, wanted)));
    return {};
  }
  Status attach(Files& files) override {
    for (const auto& source : sources_) LEAT_RETURN_IF_ERROR(source->attach(files));
    return {};
  }
  const std::byte* in_memory(size_t column, int64_t row) const override {
    const auto [source, own] = find(row);
    return sources_[source]->in_memory(columns_[source][column], own);
  }
  Status read(int64_t row, std::span<const RowPart> parts) const override {
    return read_drawn(row, {0, static_cast<uint64_t>(row)}, parts);
  }
  // The position is that in the mixture: a row that comes twice is drawn twice.
  Status read_drawn(int64_t row, const RowKey& key, std::span<const RowPart> parts) const override {
    const auto [source, own] = find(row);
    return sources_[source]->read_drawn(own, key, own_parts(source, parts));
  }
  void advise(int64_t row, std::span<const size_t> columns, ReadAdvice advice) const override {
    const auto [source, own] = find(row);
    std::vector<size_t> theirs(columns.begin(), columns.end());
    for (size_t& column : theirs) column = columns_[source][column];
    sources_[source]->advise(own, theirs, advice);
  }
  bool takes_advice() const override {
    return std::any_of(sources_.begin(), sources_.end(),
                       [](const auto& source) { return source->takes_advice(); });
  }
  uint64_t file_bytes() const override {
    uint64_t bytes = 0;
    for (const auto& source : sources_) bytes += source->file_bytes();
    return bytes;
  }
  // All sources that name their classes name them alike: match_columns().
  std::vector<std::string> class_names(size_t column) const override {
    for (size_t s = 0; s < columns_.size(); ++s) {
      std::vector<std::string> names = sources_[s]->class_names(columns_[s][column]);
      if (!names.empty()) return names;
    }
    return {};
  }
  std::string row_name(int64_t row) const override {
    const auto [source, own] = find(row);
    return cat("source '", names_[source], "': ", sources_[source]->row_name(own));
  }
  Status check_classes(Files& files, const ClassCheck& check, size_t column,
                       const ColumnPart& view) override {
    for (size_t s = 0; s < sources_.size(); ++s)
      LEAT_RETURN_IF_ERROR(sources_[s]->check_classes(files, check, columns_[s][column], view));
    return {};
  }

 private:
  std::vector<RowPart> own_parts(size_t source, std::span<const RowPart> parts) const {
    std::vector<RowPart> out(parts.begin(), parts.end());
    for (RowPart& part : out) part.column = columns_[source][part.column];
    return out;
  }

  // The source of a row, and its row there.
  struct Found {
    size_t source;
    int64_t row;
  };
  Found find(int64_t row) const {
    const Pattern::At at = pattern_.at(row);
    return {at.source, at.number % sources_[at.source]->info().count};
  }

  std::vector<bool> wanted_of(size_t source, const std::vector<bool>& wanted) const {
    std::vector<bool> out(sources_[source]->info().columns.size(), false);
    for (size_t c = 0; c < wanted.size(); ++c) {
      if (wanted[c]) out[columns_[source][c]] = true;
    }
    return out;
  }

  // Finds the columns of the first source in the last one.
  Status match_columns() {
    const std::vector<ColumnInfo>& own = sources_.back()->info().columns;
    if (sources_.size() == 1) info_.columns = own;
    std::vector<size_t> positions;
    for (const ColumnInfo& column : info_.columns) {
      const auto found = std::find(own.begin(), own.end(), column);
      if (found == own.end()) {
        return invalid_argument(cat("source '", names_.back(), "': expected a column '",
                                    column.name, "' of ", column.dtype, column.shape,
                                    " as in source '", names_[0], "', received none"));
      }
      positions.push_back(static_cast<size_t>(found - own.begin()));
      // A number must mean the same class in all sources that name their classes.
      const std::vector<std::string> classes = sources_.back()->class_names(positions.back());
      const std::vector<std::string> before = class_names(positions.size() - 1);
      if (!classes.empty() && !before.empty() && classes != before) {
        return invalid_argument(cat("source '", names_.back(), "': expected the classes of '",
                                    column.name, "' that source '", names_[0],
                                    "' has, received others"));
      }
    }
    columns_.push_back(std::move(positions));
    return {};
  }

  // Without a number in the job file, there are so many rows that each row of every source is one
  // of them.
  Status count_rows(const SourceOptions& options) {
    for (size_t s = 0; s < sources_.size(); ++s) {
      const auto rows = pattern_.rows_for(s, sources_[s]->info().count);
      if (!rows) return invalid_argument("rows: expected a mixture of fewer than 2^63 rows");
      info_.count = std::max(info_.count, *rows);
      skipped_ += sources_[s]->skipped();
      if (first_skipped_.empty()) first_skipped_ = sources_[s]->first_skipped();
    }
    if (options.has("rows")) info_.count = options.integer("rows");
    return {};
  }

  const Pattern pattern_;
  std::vector<std::string> names_;  // by source
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::vector<size_t>> columns_;  // by source: where the columns of the mixture are
};

class MixtureFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "mixture"; }
  FilesForm files_form() const override { return FilesForm::sources; }
  std::span<const SourceOption> options() const override { return kMixtureOptions; }
  Status check(const DatasetFiles& names, const SourceOptions& options) const override {
    if (options.columns().size() > 100)
      return invalid_argument(
          cat("sources: expected at most 100, received ", options.columns().size()));
    for (const MixturePart& part : mixture_parts(names)) {
      const Status fits = part.names.format == "mixture"
                              ? invalid_argument("format: expected no mixture in a mixture")
                              : check_dataset_files(part.names);
      if (!fits.ok()) return invalid_argument(cat("source '", part.name, "': ", fits.message()));
    }
    return {};
  }
  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return MixtureSource::open(setup);
  }
};

}  // namespace

std::vector<MixturePart> mixture_parts(const DatasetFiles& names) {
  std::vector<MixturePart> out;
  const auto options = SourceOptions::parse(kMixtureOptions, names.options);
  if (!options.ok()) return out;
  for (const auto& [name, part] : options->columns()) {
    MixturePart made{name, part.number("weight"), {}};
    made.names.format = part.text("format");
    made.names.files = part.texts("files");
    made.names.root = names.root;
    made.names.window = part.integer("window");
    made.names.stride = part.integer("stride");
    made.names.element = dtype_from_name(part.text("dtype")).value_or(DType::invalid);
    made.names.options = part.texts("option");
    out.push_back(std::move(made));
  }
  return out;
}

void add_mixture_part(const MixturePart& part, std::vector<std::string>& options) {
  const std::string prefix = cat("sources:", part.name);
  options.push_back(prefix + "=");
  const auto add = [&](std::string_view key, const auto& value) {
    options.push_back(cat(prefix, ":", key, "=", value));
  };
  add("weight", shortest(part.weight));
  add("format", part.names.format);
  for (const std::string& file : part.names.files) add("files", file);
  if (part.names.format == "tokens") {
    add("window", part.names.window);
    add("stride", part.names.stride);
    add("dtype", dtype_name(part.names.element));
  }
  for (const std::string& option : part.names.options) add("option", option);
}

const SourceFormat& mixture_source() {
  static const MixtureFormat format;
  return format;
}

}  // namespace leat
