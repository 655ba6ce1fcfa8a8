// The options of formats, and columns of random numbers.
#include <bit>
#include <cmath>
#include <set>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/definitions/input.h"
#include "tests/ops/source_testing.h"

namespace leat {
namespace {

using Texts = std::vector<std::string>;

constexpr SourceOption kTestColumn[] = {
    {.name = "from", .kind = OptionKind::texts},
    {.name = "fill", .kind = OptionKind::number, .min = 0, .max = 9},
};
constexpr std::string_view kTestChoices[] = {"a", "b"};
constexpr SourceOption kTestOptions[] = {
    {.name = "rows", .kind = OptionKind::integer, .required = true, .min = 1},
    {.name = "header", .kind = OptionKind::flag, .initial = "true"},
    {.name = "mode", .kind = OptionKind::choice, .initial = "b", .choices = kTestChoices},
    {.name = "names", .kind = OptionKind::texts},
    {.name = "columns", .kind = OptionKind::columns, .of_column = kTestColumn, .shorthand = "from"},
};

TEST_CASE("the options of a format travel as texts") {
  const auto options = must(SourceOptions::parse(
      kTestOptions, Texts{"rows=5", "names=a", "names=x=y", "columns:f=", "columns:f:from=p",
                          "columns:f:from=q", "columns:g=", "columns:g:fill=2.5"}));
  CHECK(options.integer("rows") == 5);
  CHECK(options.flag("header"));
  CHECK_FALSE(options.has("header"));
  CHECK(options.text("mode") == "b");
  CHECK(options.texts("names") == Texts{"a", "x=y"});
  REQUIRE(options.columns().size() == 2);
  CHECK(options.columns()[0].first == "f");
  CHECK(options.columns()[0].second.texts("from") == Texts{"p", "q"});
  CHECK(options.columns()[1].second.number("fill") == 2.5);

  const auto refused = [](Texts texts) {
    return SourceOptions::parse(kTestOptions, texts).status().message();
  };
  CHECK(refused({}) == "rows: missing, expected a value");
  CHECK(refused({"rows=0"}) == "rows: expected an integer of at least 1, received '0'");
  CHECK(refused({"rows=1", "rows=2"}) == "rows: expected one value, received another one, '2'");
  CHECK(refused({"rows=1", "row=2"}) ==
        "row: expected one of the options rows, header, mode, names, columns "
        "(did you mean 'rows'?)");
  CHECK(refused({"rows=1", "mode=c"}) == "mode: expected one of a, b, received 'c'");
  CHECK(refused({"rows=1", "header=yes"}) == "header: expected true or false, received 'yes'");
  CHECK(refused({"rows=1", "columns:f:fill=1"}) == "columns: expected f= before 'f:fill=1'");
  CHECK(refused({"rows=1", "columns:f=", "columns:f="}) ==
        "columns: the column 'f' is there twice");
  CHECK(refused({"rows=1", "columns:f=", "columns:f:fill=10"}) ==
        "column 'f': fill: expected a number of at least 0 and of at most 9, received '10'");
  for (const char* text : {"", "=", ":", "rows", "rows:1=2", "columns=1", "columns:", "columns:=",
                           "columns:a b=", "header=", "rows=1x", "names:a=b"}) {
    INFO(text);
    CHECK(refused({"rows=1", text}) != "");
  }
}

TEST_CASE("a format is in the table once, and its options have distinct names") {
  std::set<std::string_view> names;
  for (const SourceFormat* format : source_formats()) {
    CHECK(names.insert(format->name()).second);
    CHECK(find_source_format(format->name()) == format);
    std::set<std::string_view> options;
    for (const SourceOption& option : format->options()) {
      INFO(format->name() << " " << option.name);
      CHECK(options.insert(option.name).second);
      // A job file reads `files` itself.
      CHECK((option.name != "files" && option.name != "format"));
      if (!option.initial.empty()) CHECK(check_option(option, option.initial).ok());
      if (!option.shorthand.empty()) CHECK(find_option(option.of_column, option.shorthand));
    }
  }
  CHECK(find_source_format("xls") == nullptr);
}

Texts synthetic_options() {
  return {"rows=1000",
          "seed=7",
          "columns:x=",
          "columns:x:shape=3",
          "columns:x:shape=5",
          "columns:z=",
          "columns:z:distribution=normal",
          "columns:z:shape=40",
          "columns:labels=",
          "columns:labels:dtype=int64",
          "columns:labels:distribution=integers",
          "columns:labels:low=-2",
          "columns:labels:high=8",
          "columns:row=",
          "columns:row:dtype=uint16",
          "columns:row:distribution=row",
          "columns:one=",
          "columns:one:distribution=constant",
          "columns:one:value=0.5"};
}

TEST_CASE("synthetic rows are functions of the seed and the row") {
  const SourceFolder folder;
  const DatasetFiles names = folder.names("synthetic", {}, synthetic_options());
  const auto data = must(Dataset::open(real_files(), names));
  CHECK(data->info().count == 1000);
  CHECK(data->info().columns[0] == ColumnInfo{"x", DType::f32, Shape{3, 5}});
  CHECK(data->info().columns[2] == ColumnInfo{"labels", DType::i64, Shape{}});
  check_any_order(*data);
  double sum = 0, squares = 0;
  std::set<int64_t> labels;
  for (int64_t row = 0; row < 1000; ++row) {
    for (const float x : row_values<float>(*data, 0, row)) CHECK((x >= 0 && x <= 1));
    for (const float z : row_values<float>(*data, 1, row)) {
      sum += z;
      squares += z * z;
    }
    labels.insert(row_values<int64_t>(*data, 2, row)[0]);
    CHECK(row_values<uint16_t>(*data, 3, row)[0] == row);
    CHECK(row_values<float>(*data, 4, row)[0] == 0.5f);
  }
  CHECK(labels == std::set<int64_t>{-2, -1, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(std::abs(sum / 40000) < 0.02);
  CHECK(std::abs(squares / 40000 - 1) < 0.03);
  // Another seed gives other rows, and these bits never change.
  DatasetFiles other = names;
  other.options[1] = "seed=8";
  const auto moved = must(Dataset::open(real_files(), other));
  CHECK(row_values<float>(*data, 0, 5) != row_values<float>(*moved, 0, 5));
  CHECK(row_values<float>(*data, 0, 5)[0] == std::bit_cast<float>(1057622497u));
  CHECK(row_values<float>(*data, 1, 5)[0] == std::bit_cast<float>(1066717418u));
  CHECK(report_dataset(real_files(), names, {"labels", 8, {}})
            .status()
            .message()
            .find("label: expected in [0, 7], received -") != std::string::npos);
  // A graph's attributes have the options, and give them back.
  const Attrs attrs = reader_attributes(names, data->info());
  const DatasetFiles back = reader_files(attrs, names.root);
  CHECK(back.options == names.options);
  CHECK(back.format == "synthetic");
}

TEST_CASE("synthetic columns whose type cannot hold their numbers are refused") {
  const SourceFolder folder;
  const auto refused = [&](Texts column) {
    Texts options{"rows=300", "columns:c="};
    for (const std::string& each : column) options.push_back("columns:c:" + each);
    return refusal(folder.names("synthetic", {}, options));
  };
  CHECK(refused({}) == "");
  CHECK(refused({"dtype=int8"}) ==
        "column 'c': distribution: expected integers, constant or row for a column of type int8, "
        "received uniform");
  CHECK(refused({"dtype=uint8", "distribution=row"}) ==
        "column 'c': expected values of type uint8, received 299");
  CHECK(refused({"dtype=uint8", "distribution=integers", "high=257"}).find("low and high") !=
        std::string::npos);
  CHECK(refused({"dtype=uint8", "distribution=integers", "high=256"}) == "");
  CHECK(refused({"distribution=integers", "low=3", "high=3"}).find("low < high") !=
        std::string::npos);
  CHECK(refused({"dtype=bool", "distribution=constant", "value=2"}).find("bool") !=
        std::string::npos);
  CHECK(refused({"shape=4611686018427387904"}).find("shape: expected at most") !=
        std::string::npos);
  CHECK(refused({"shape=65536", "shape=65536"}).find("shape: expected") != std::string::npos);
  DatasetFiles names = folder.names("synthetic", {"a"}, {"rows=1", "columns:c="});
  CHECK(refusal(names) == "files: expected none, received 1");
}

}  // namespace
}  // namespace leat
