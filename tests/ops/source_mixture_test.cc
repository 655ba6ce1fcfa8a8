// Mixtures of data sets with weights.
#include <map>

#include "devices/base/text.h"
#include "ops/data/sources/mixture.h"
#include "tests/ops/source_testing.h"

namespace leat {
namespace {

MixturePart table_part(const std::string& name, double weight, const std::string& file) {
  MixturePart part{name, weight, {}};
  part.names.format = "csv";
  part.names.files = {file};
  part.names.options = {"columns:x=", "columns:y=", "columns:y:dtype=int64"};
  return part;
}

TEST_CASE("a mixture has its sources in proportion to their weights") {
  const SourceFolder folder;
  const auto write = [&](const std::string& name, int rows, int base) {
    std::string text = "y,x\n";
    for (int i = 0; i < rows; ++i) text += cat(base + i, ",", i, ".5\n");
    folder.write(name, text);
  };
  write("a-1.csv", 25, 0);
  write("a-2.csv", 5, 25);
  write("b.csv", 10, 1000);
  MixturePart b = table_part("b", 1, "b.csv");
  // The same columns in another order.
  b.names.options = {"columns:y=", "columns:y:dtype=int64", "columns:x="};
  DatasetFiles names = folder.names("mixture", {});
  add_mixture_part(table_part("a", 3, "a-?.csv"), names.options);
  add_mixture_part(b, names.options);
  REQUIRE(mixture_parts(names).size() == 2);
  CHECK(mixture_parts(names)[0].weight == 3);
  CHECK(mixture_parts(names)[1].names.options == b.names.options);

  const auto data = must(Dataset::open(real_files(), names));
  // Each row of either is there, and 3 of 4 are of the first.
  CHECK(data->info().count == 40);
  std::map<int64_t, int> seen;
  for (int64_t row = 0; row < 40; ++row) {
    ++seen[row_values<int64_t>(*data, 1, row)[0]];
    if (row % 4 == 3) {
      int of_b = 0;
      for (int64_t back = row - 3; back <= row; ++back)
        of_b += row_values<int64_t>(*data, 1, back)[0] >= 1000;
      CHECK(of_b == 1);
    }
  }
  CHECK(seen.size() == 40);
  check_any_order(*data);
  // Beyond them, the rows of each source begin again.
  DatasetFiles longer = names;
  longer.options.push_back("rows=80");
  const auto twice = must(Dataset::open(real_files(), longer));
  CHECK(twice->info().count == 80);
  CHECK(row_values<int64_t>(*twice, 1, 40) == row_values<int64_t>(*twice, 1, 0));
  check_any_order(*twice);

  const auto report = must(report_dataset(real_files(), names, {"y", 1010, {}}));
  CHECK(report.files == std::vector<std::string>{"a:a-1.csv", "a:a-2.csv", "b:b.csv"});
  CHECK(report.prints.size() == 3);
  folder.write("b.csv", "y,x\n1000,1\noops,2\n");
  const auto damaged = must(Dataset::open(real_files(), names));
  std::string message;
  for (int64_t row = 0; row < 8 && message.empty(); ++row) message = row_error(*damaged, 1, row);
  CHECK(message == "'b.csv': record 2: field 'y': expected a value of type int64, received 'oops'");
}

TEST_CASE("a mixture refuses sources that do not fit together") {
  const SourceFolder folder;
  folder.write("a.csv", "x,y\n1,2\n");
  folder.write("b.csv", "x,z\n1,2\n");
  const auto refused = [&](const std::vector<MixturePart>& parts) {
    DatasetFiles names = folder.names("mixture", {});
    for (const MixturePart& part : parts) add_mixture_part(part, names.options);
    return refusal(names);
  };
  CHECK(refused({}) == "sources: missing, expected a value");
  MixturePart other = table_part("b", 1, "b.csv");
  other.names.options = {"columns:x="};
  CHECK(refused({table_part("a", 1, "a.csv"), other}) ==
        "source 'b': expected a column 'y' of int64[] as in source 'a', received none");
  CHECK(refused({table_part("a", 1, "none.csv")}).find("source 'a': ") == 0);
  CHECK(refused({table_part("a", 0, "a.csv")}).find("weight: expected a number") !=
        std::string::npos);
  MixturePart nested = table_part("m", 1, "a.csv");
  nested.names.format = "mixture";
  CHECK(refused({nested}) == "source 'm': format: expected no mixture in a mixture");
  nested.names.format = "xls";
  CHECK(refused({nested}).find("source 'm': format: expected 'idx'") == 0);
}

}  // namespace
}  // namespace leat
