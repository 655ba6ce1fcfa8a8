// The same rows in files of every format of tables, for tests of trainings on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace leat {

// A model of the columns `features` and `labels`.
inline constexpr const char* kTableModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
table (float[N,3] features) => (float[N,4] logits) {
  h = leat.Dense <activation = "relu", units = 12> (features)
  logits = leat.Dense <units = 4> (h)
}
)";

// Writes the rows `begin` to `end` - 1 in every format: STEM.csv, STEM-x.npy and so on. A row has
// three numbers, a class of four that follows from them, and its own number.
void write_table_files(const std::string& stem, int64_t begin, int64_t end);

// The formats that table_source() knows.
std::vector<std::string> table_formats();
// The value of `data.train` with the columns features, labels and row: of the files "part-1" and
// "part-2" of csv, tsv, jsonl and safetensors, of the file "all" of other formats.
std::string table_source(const std::string& format);

// The settings of a job on such a source, and more.
std::vector<std::string> table_settings(const std::string& train,
                                        const std::vector<std::string>& more = {});

}  // namespace leat
