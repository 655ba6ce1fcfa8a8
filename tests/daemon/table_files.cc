#include "tests/daemon/table_files.h"

#include <sqlite3.h>

#include <fstream>
#include <map>
#include <memory>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"
#include "ops/formats/safetensors.h"
#include "tests/must.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

struct TableRow {
  float features[3];
  int64_t label;
};

TableRow table_row(int64_t row) {
  const int64_t label = row * 7 % 4;
  const auto noise = static_cast<float>((row * 1103515245 + 12345) % 1000) / 4096;
  return {{static_cast<float>(label % 2) + noise, static_cast<float>(label / 2) - noise, noise},
          label};
}

constexpr const char* kClasses[] = {"north", "east", "south", "west"};

// Without a sync: that of each file would take most of a test's time.
void write_quickly(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// The array as an IDX file of this type.
std::string idx_of(char type, const Tensor& values) {
  std::string out{'\0', '\0', type, static_cast<char>(values.shape().rank())};
  const auto add = [&](const void* element, size_t size) {
    const auto* bytes = static_cast<const char*>(element);
    for (size_t i = size; i-- > 0;) out += bytes[i];
  };
  for (const int64_t size : values.shape().dims()) add(&size, 4);
  for (int64_t i = 0; i < values.elements(); ++i) {
    const auto number = static_cast<float>(values.at(i));
    const auto integer = static_cast<int32_t>(values.at(i));
    if (type == '\x0d') {
      add(&number, 4);
    } else {
      add(&integer, type == '\x08' ? 1 : 4);
    }
  }
  return out;
}

// The rows as arrays.
struct TableArrays {
  Tensor features, labels, numbers;
};

TableArrays arrays_of(int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  TableArrays out{Tensor(DType::f32, Shape{rows, 3}), Tensor(DType::i64, Shape{rows}),
                  Tensor(DType::i64, Shape{rows})};
  for (int64_t i = 0; i < rows; ++i) {
    const TableRow row = table_row(begin + i);
    for (int f = 0; f < 3; ++f) out.features.set(3 * i + f, row.features[f]);
    out.labels.set(i, static_cast<double>(row.label));
    out.numbers.set(i, static_cast<double>(begin + i));
  }
  return out;
}

void write_arrays(const std::string& stem, const TableArrays& arrays) {
  const std::map<std::string, Tensor> columns{
      {"features", arrays.features}, {"labels", arrays.labels}, {"row", arrays.numbers}};
  const auto write = [](const std::string& path, std::span<const std::byte> bytes) {
    write_quickly(path, text_of_bytes(bytes));
  };
  write(stem + "-x.npy", must(format_npy(arrays.features)));
  write(stem + "-y.npy", must(format_npy(arrays.labels)));
  write(stem + "-row.npy", must(format_npy(arrays.numbers)));
  write(stem + ".safetensors", must(format_safetensors({columns, {}})));
  std::string npz;
  must(format_npz(columns, [&](std::span<const std::byte> bytes) {
    npz += text_of_bytes(bytes);
    return Status();
  }));
  write_quickly(stem + ".npz", npz);
  write_quickly(stem + "-x.idx", idx_of('\x0d', arrays.features));
  write_quickly(stem + "-y.idx", idx_of('\x08', arrays.labels));
  write_quickly(stem + "-row.idx", idx_of('\x0c', arrays.numbers));
}

void write_database(const std::string& path, const std::string& rows) {
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &opened) == SQLITE_OK);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  const std::string sql =
      cat("PRAGMA synchronous=OFF; DROP TABLE IF EXISTS points; CREATE TABLE points(a REAL, b "
          "REAL, c REAL, kind TEXT, id "
          "INTEGER); BEGIN; ",
          rows, " COMMIT;");
  REQUIRE(sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
}

constexpr const char* kFields =
    "columns: {features: [a, b, c], labels: {from: kind, categories: [north, east, south, west]}, "
    "row: {from: id, dtype: int64}}}";

const std::map<std::string, std::string>& sources() {
  static const std::map<std::string, std::string> kSources{
      {"npy", "{format: npy, files: {features: all-x.npy, labels: all-y.npy, row: all-row.npy}}"},
      {"npz", "{format: npz, files: all.npz}"},
      {"idx", "{format: idx, files: {features: all-x.idx, labels: all-y.idx, row: all-row.idx}}"},
      {"csv", cat("{format: csv, files: 'part-?.csv', ", kFields)},
      {"tsv", cat("{format: tsv, files: 'part-?.tsv', ", kFields)},
      {"jsonl",
       "{format: jsonl, files: [part-1.jsonl, part-2.jsonl], columns: {features: {field: "
       "point.at, shape: 3}, labels: {field: kind, categories: [north, east, south, west]}, row: "
       "{field: id, dtype: int64}}}"},
      {"safetensors", "{format: safetensors, files: ['part-*.safetensors']}"},
      {"sqlite", cat("{format: sqlite, files: all.db, table: points, ", kFields)},
  };
  return kSources;
}

}  // namespace

void write_table_files(const std::string& stem, int64_t begin, int64_t end) {
  std::string csv = "a,kind,b,c,id\n", tsv = "a\tkind\tb\tc\tid\n", jsonl, sql;
  for (int64_t i = begin; i < end; ++i) {
    const TableRow row = table_row(i);
    std::vector<std::string> texts;
    for (const float feature : row.features) texts.push_back(shortest(feature));
    const std::string kind = cat("\"", kClasses[row.label], "\"");
    const std::vector<std::string> fields{texts[0], kind, texts[1], texts[2], cat(i)};
    csv += join(fields, ",") + "\n";
    tsv += join(fields, "\t") + "\n";
    jsonl += cat("{\"kind\": ", kind, ", \"point\": {\"at\": [", join(texts, ", "),
                 "]}, \"id\": ", i, "}\n");
    sql += cat("INSERT INTO points VALUES(", join(texts, ", "), ", '", kClasses[row.label], "', ",
               i, ");");
  }
  write_arrays(stem, arrays_of(begin, end));
  write_quickly(stem + ".csv", csv);
  write_quickly(stem + ".tsv", tsv);
  write_quickly(stem + ".jsonl", jsonl);
  write_database(stem + ".db", sql);
}

std::vector<std::string> table_formats() {
  std::vector<std::string> out;
  for (const auto& [format, source] : sources()) out.push_back(format);
  return out;
}

std::string table_source(const std::string& format) { return sources().at(format); }

std::vector<std::string> table_settings(const std::string& train,
                                        const std::vector<std::string>& more) {
  std::vector<std::string> out{cat("data.train=", train), cat("data.validation=", train),
                               "data.rescale=1", "optimizer={name: adam, learning_rate: 0.01}",
                               "lr_scheduler={name: constant}"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace leat
