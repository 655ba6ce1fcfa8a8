// Columns of random numbers, for benchmarks and for a job whose data is not there yet. A row is a
// function of the seed, the column and the row's number, so every worker has the same bits.
#include <algorithm>
#include <cstring>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/values.h"

namespace leat {
namespace {

constexpr std::string_view kDistributions[] = {"uniform", "normal", "integers", "constant", "row"};
constexpr SourceOption kSyntheticColumn[] = {
    {.name = "dtype", .kind = OptionKind::choice, .initial = "float32", .choices = kColumnTypes},
    {.name = "shape", .kind = OptionKind::integers, .min = 1},
    {.name = "distribution",
     .kind = OptionKind::choice,
     .initial = "uniform",
     .choices = kDistributions},
    {.name = "low", .kind = OptionKind::number, .initial = "0"},
    {.name = "high", .kind = OptionKind::number, .initial = "1"},
    {.name = "mean", .kind = OptionKind::number, .initial = "0"},
    {.name = "deviation", .kind = OptionKind::number, .initial = "1", .min = 0},
    {.name = "value", .kind = OptionKind::number, .initial = "0"},
};
constexpr SourceOption kSyntheticOptions[] = {
    {.name = "rows",
     .kind = OptionKind::integer,
     .required = true,
     .min = 1,
     .max = 1099511627776.0},  // 2^40
    {.name = "seed", .kind = OptionKind::integer, .initial = "0", .min = 0},
    {.name = "columns",
     .kind = OptionKind::columns,
     .required = true,
     .of_column = kSyntheticColumn,
     .shorthand = "shape"},
};

// The numbers of one column.
struct Numbers {
  std::string distribution;
  double low = 0, high = 1, mean = 0, deviation = 1, value = 0;

  // Element i of a row. The results are the same on every machine: no function of the C library is
  // in them.
  double draw(const RandomStream& stream, int64_t row, uint64_t i) const {
    if (distribution == "constant") return value;
    if (distribution == "row") return static_cast<double>(row);
    if (distribution == "normal") {
      // The sum of eight uniform numbers has the variance 8/12.
      constexpr double kScale = 1.2247448713915890 / 65536;  // sqrt(12 / 8)
      uint32_t sum = 0;
      for (const uint32_t word : stream.block(i)) sum += (word & 0xffff) + (word >> 16);
      return mean + deviation * kScale * (static_cast<double>(sum) - 8 * 32767.5);
    }
    const double part = static_cast<double>(stream.block(i / 4)[i % 4]) * 0x1p-32;  // in [0, 1)
    if (distribution == "uniform") return low + part * (high - low);
    return low + std::floor(part * (high - low));  // integers from low to high - 1
  }
};

class SyntheticSource final : public Source {
 public:
  static Result<std::unique_ptr<Source>> open(const SourceOptions& options) {
    auto source = std::make_unique<SyntheticSource>();
    source->seed_ = static_cast<uint64_t>(options.integer("seed"));
    source->info_.count = options.integer("rows");
    for (const auto& [name, column] : options.columns()) {
      LEAT_ASSIGN_OR_RETURN(const Shape shape, row_shape(column.integers("shape")));
      source->info_.columns.push_back({name, column_type(column.text("dtype")), shape});
      source->numbers_.push_back({column.text("distribution"), column.number("low"),
                                  column.number("high"), column.number("mean"),
                                  column.number("deviation"), column.number("value")});
    }
    return std::unique_ptr<Source>(std::move(source));
  }

  Status read(int64_t row, std::span<const RowPart> parts) const override {
    for (const RowPart& part : parts) {
      const DType dtype = info_.columns[part.column].dtype;
      const auto size = static_cast<int64_t>(dtype_size(dtype));
      const RandomStream stream(seed_, part.column, static_cast<uint64_t>(row));
      const Numbers& numbers = numbers_[part.column];
      // A part begins and ends between two elements.
      for (int64_t at = 0; at < static_cast<int64_t>(part.out.size()); at += size) {
        const auto element = static_cast<uint64_t>((part.offset + at) / size);
        const double value = numbers.draw(stream, row, element);
        if (store_number(dtype, value, part.out.data() + at)) continue;
        return invalid_argument(cat("column '", info_.columns[part.column].name, "' of row ", row,
                                    ": expected a value of type ", dtype, ", received ",
                                    shortest(value)));
      }
    }
    return {};
  }

 private:
  uint64_t seed_ = 0;
  std::vector<Numbers> numbers_;  // by column
};

class SyntheticFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "synthetic"; }
  FilesForm files_form() const override { return FilesForm::none; }
  std::span<const SourceOption> options() const override { return kSyntheticOptions; }

  // The limits of each distribution, so that every row has values of its type.
  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    for (const auto& [name, column] : options.columns()) {
      const Status fits = check_column(column, options.integer("rows"));
      if (!fits.ok()) return invalid_argument(cat("column '", name, "': ", fits.message()));
    }
    return {};
  }

  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return SyntheticSource::open(setup.options);
  }

 private:
  static Status check_column(const SourceOptions& column, int64_t rows) {
    LEAT_RETURN_IF_ERROR(row_shape(column.integers("shape")).status());
    const DType dtype = column_type(column.text("dtype"));
    const std::string distribution = column.text("distribution");
    const double low = column.number("low"), high = column.number("high");
    std::byte ignored[8];
    const auto holds_it = [&](double value) { return store_number(dtype, value, ignored); };
    if (distribution == "uniform" || distribution == "normal") {
      if (!is_float(dtype))
        return invalid_argument(cat("distribution: expected integers, constant or row for a ",
                                    "column of type ", dtype, ", received ", distribution));
      return {};
    }
    if (distribution == "integers") {
      const bool fits = low < high && low == std::floor(low) && high == std::floor(high) &&
                        high - low <= 0x1p32 && holds_it(low) && holds_it(high - 1);
      if (fits) return {};
      return invalid_argument(cat("low and high: expected integers of type ", dtype,
                                  ", low < high, at most 2^32 of them, received ", shortest(low),
                                  " and ", shortest(high)));
    }
    const double most =
        distribution == "row" ? static_cast<double>(rows - 1) : column.number("value");
    if (holds_it(most)) return {};
    return invalid_argument(cat("expected values of type ", dtype, ", received ", shortest(most)));
  }
};

}  // namespace

const SourceFormat& synthetic_source() {
  static const SyntheticFormat format;
  return format;
}

}  // namespace leat
