// Every format of tables trains to the same weights as arrays of the same numbers, on any number of
// workers and threads, after a stop and after a kill.
#include <sqlite3.h>

#include <csignal>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using Settings = std::vector<std::string>;

constexpr const char* kTableModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
table (float[N,3] features) => (float[N,4] logits) {
  h = leat.Dense <activation = "relu", units = 12> (features)
  logits = leat.Dense <units = 4> (h)
}
)";

constexpr int64_t kTableRows = 201;

// Three numbers and a class of four for each row, which a small network can learn.
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

// Writes the rows from `begin` on in every format: "table-PART.csv" and so on.
void write_table_files(const std::string& stem, int64_t begin, int64_t end) {
  const int64_t rows = end - begin;
  Tensor features(DType::f32, Shape{rows, 3}), labels(DType::i64, Shape{rows});
  std::string csv = "a,kind,b,c\n", jsonl;
  std::string sql = "CREATE TABLE points(a REAL, b REAL, c REAL, kind TEXT); BEGIN;";
  for (int64_t i = 0; i < rows; ++i) {
    const TableRow row = table_row(begin + i);
    std::vector<std::string> texts;
    for (int f = 0; f < 3; ++f) {
      features.set(3 * i + f, row.features[f]);
      texts.push_back(shortest(row.features[f]));
    }
    labels.set(i, static_cast<double>(row.label));
    const char* kind = kClasses[row.label];
    csv += cat(texts[0], ",\"", kind, "\",", texts[1], ",", texts[2], "\n");
    jsonl += cat("{\"kind\": \"", kind, "\", \"point\": {\"at\": [", join(texts, ", "), "]}}\n");
    sql += cat("INSERT INTO points VALUES(", join(texts, ", "), ", '", kind, "');");
  }
  must(write_npy(real_files(), stem + "-x.npy", features));
  must(write_npy(real_files(), stem + "-y.npy", labels));
  must(write_safetensors(real_files(), stem + ".safetensors",
                         {{{"features", features}, {"labels", labels}}, {}}));
  must(write_file_atomically(real_files(), stem + ".csv", std::as_bytes(std::span(csv))));
  must(write_file_atomically(real_files(), stem + ".jsonl", std::as_bytes(std::span(jsonl))));
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((stem + ".db").c_str(), &database) == SQLITE_OK);
  REQUIRE(sqlite3_exec(database, (sql + "COMMIT;").c_str(), nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  sqlite3_close(database);
}

const std::map<std::string, std::string> kTables{
    {"npy", "{format: npy, files: {features: all-x.npy, labels: all-y.npy}}"},
    {"csv",
     "{format: csv, files: 'part-?.csv', columns: {features: [a, b, c], labels: {from: kind, "
     "categories: [north, east, south, west]}}}"},
    {"jsonl",
     "{format: jsonl, files: [part-1.jsonl, part-2.jsonl], columns: {features: {field: point.at, "
     "shape: 3}, labels: {field: kind, categories: [north, east, south, west]}}}"},
    {"safetensors", "{format: safetensors, files: ['part-*.safetensors']}"},
    {"sqlite",
     "{format: sqlite, files: all.db, table: points, columns: {features: [a, b, c], labels: {from: "
     "kind, categories: [north, east, south, west]}}}"},
};

Settings table_settings(const std::string& train, const Settings& more = {}) {
  Settings out{cat("data.train=", train), cat("data.validation=", train), "data.rescale=1",
               "optimizer={name: adam, learning_rate: 0.01}", "lr_scheduler={name: constant}"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TEST_CASE("each format of tables trains to the weights of arrays", "[cluster]") {
  const SmallJob small(kTableModel);
  write_table_files(small.path("all"), 0, kTableRows);
  write_table_files(small.path("part-1"), 0, 77);
  write_table_files(small.path("part-2"), 77, kTableRows);
  Silent watch;
  const Job arrays = small.job(table_settings(kTables.at("npy")));
  const TrainOutcome truth = small.train(arrays, "npy", watch);
  CHECK(watch.losses.back() < 0.8 * watch.losses.front());
  for (const auto& [format, train] : kTables) {
    if (format == "npy") continue;
    INFO(format);
    const Job job = small.job(table_settings(train));
    // The job is printed and read again as the same job.
    const Job again = must(parse_job(print_job(job), small.path("job.yaml")));
    CHECK(again.data == job.data);
    const TrainOutcome one = small.train(job, format, watch);
    CHECK(one.weights_sha256 == truth.weights_sha256);
    CHECK(one.validation->loss == truth.validation->loss);
    const Job three = small.job(table_settings(train, {"num_workers=3"}));
    CHECK(small.hash(three, format + "-3", 2) == truth.weights_sha256);
    // Two parts, on one worker and then on two.
    Silent first, second;
    small.train(small.job(table_settings(train, {"steps=17"})), format + "-parts", first);
    const Job rest = small.job(table_settings(train, {"num_workers=2"}));
    const TrainOutcome parts = small.train(rest, format + "-parts", second, 3, /*resume=*/true);
    CHECK(second.first == 17);
    CHECK(parts.weights_sha256 == truth.weights_sha256);
  }
}

TEST_CASE("a job of synthetic rows needs no files", "[cluster]") {
  const SmallJob small(kTableModel);
  const std::string train =
      "{format: synthetic, rows: 100, seed: 3, columns: {features: {shape: 3, distribution: "
      "normal}, labels: {dtype: int64, distribution: integers, high: 4}}}";
  const Job job = small.job(table_settings(train, {"data.root=null"}));
  CHECK(job.data.root.empty());
  CHECK(must(parse_job(print_job(job), small.path("job.yaml"))).data == job.data);
  const std::string hash = small.hash(job, "one");
  CHECK(small.hash(small.job(table_settings(train, {"num_workers=4"})), "four", 3) == hash);
}

TEST_CASE("a mixture of tables trains to the same weights on any number of workers", "[cluster]") {
  const SmallJob small(kTableModel);
  write_table_files(small.path("all"), 0, kTableRows);
  write_table_files(small.path("part-1"), 0, 77);
  const std::string train =
      cat("{format: mixture, sources: {few: {weight: 0.5, ", kTables.at("csv").substr(1),
          ", many: {weight: 1.5, ", kTables.at("npy").substr(1), "}}");
  const Job job = small.job(table_settings(train));
  CHECK(must(parse_job(print_job(job), small.path("job.yaml"))).data == job.data);
  Silent watch;
  const std::string hash = small.train(job, "one", watch).weights_sha256;
  CHECK(watch.losses.back() < 0.8 * watch.losses.front());
  CHECK(small.hash(small.job(table_settings(train, {"num_workers=3"})), "three", 2) == hash);
  // Windows of tokens have the columns of a language model in a mixture, too.
  JobOverrides overrides;
  overrides.set = {
      "data.train={format: mixture, sources: {a: {format: tokens, files: a.bin, window: 9}}}",
      "data.validation=null"};
  const Job tokens = must(parse_job(print_job(small.job()), small.path("job.yaml"), overrides));
  CHECK(tokens.data.columns.size() == 2);
  CHECK(must(parse_job(print_job(tokens), small.path("job.yaml"))).data == tokens.data);
}

TEST_CASE("shards with rows of their own train to the same weights on any number of workers",
          "[cluster]") {
  const SmallJob small(kTableModel);
  const int64_t ends[] = {0, 30, 77, 110, 180, kTableRows};
  for (int part = 0; part < 5; ++part) {
    write_table_files(small.path(cat("part-", part + 1)), ends[part], ends[part + 1]);
  }
  write_table_files(small.path("all"), 0, kTableRows);
  const auto job = [&](const std::string& format, const std::string& sharding, int workers) {
    return small.job(
        table_settings(kTables.at(format), {"shards=4", cat("data.sharding=", sharding),
                                            "global_batch_size=16", cat("num_workers=", workers)}));
  };
  std::set<std::string> hashes;
  for (const std::string sharding : {"data", "file", "off"}) {
    INFO(sharding);
    const Job one = job("csv", sharding, 1);
    CHECK(must(parse_job(print_job(one), small.path("job.yaml"))).data == one.data);
    const std::string hash = small.hash(one, cat(sharding, "-1"));
    CHECK(small.hash(job("csv", sharding, 2), cat(sharding, "-2"), 2) == hash);
    CHECK(small.hash(job("csv", sharding, 4), cat(sharding, "-4"), 3) == hash);
    hashes.insert(hash);
  }
  CHECK(hashes.size() == 3);
  // Arrays are files of columns, and not of rows.
  const auto refused = small.trainer(job("npy", "file", 1), {small.path("refused")});
  CHECK_THAT(refused.status().message(), Catch::Contains("data.sharding: expected data or off"));
}

TEST_CASE("an epoch of shards with rows of their own is as long as that of the largest",
          "[cluster]") {
  const SmallJob small(kTableModel);
  write_table_files(small.path("part-1"), 0, 60);
  write_table_files(small.path("part-2"), 60, kTableRows);  // 141 rows
  const auto steps = [&](const std::string& sharding) {
    const Job job =
        small.job(table_settings(kTables.at("csv"), {"shards=2", cat("data.sharding=", sharding),
                                                     "epochs=1", "global_batch_size=10"}));
    Silent watch;
    return small.train(job, sharding, watch).steps;
  };
  CHECK(steps("data") == 21);  // 201 rows in batches of 10
  CHECK(steps("file") == 29);  // 141 rows in parts of 5
  CHECK(steps("off") == 41);   // 201 rows in parts of 5
}

TEST_CASE("bad records that are left out are told, and bad tables are errors of the job") {
  const SmallJob small(kTableModel);
  write_table_files(small.path("all"), 0, 60);
  const auto text = must(read_file(real_files(), small.path("all.csv"), 1 << 20));
  std::string csv(reinterpret_cast<const char*>(text.data()), text.size());
  csv += "1,2\n";
  must(write_file_atomically(real_files(), small.path("bad.csv"), std::as_bytes(std::span(csv))));
  const std::string columns =
      "columns: {features: [a, b, c], labels: {from: kind, categories: [north, east, south, "
      "west]}}";
  const auto trainer = [&](const std::string& train) {
    return small.trainer(small.job(table_settings(train)), {small.path("run"), false, 1});
  };
  const auto skips =
      must(trainer(cat("{format: csv, files: bad.csv, on_bad_record: skip, ", columns, "}")));
  REQUIRE(skips->notes().size() == 2);  // the other one has the names of the classes
  CHECK(skips->notes()[0].find("left out 1 bad record of the data, first 'bad.csv': record 61: "
                               "expected 4 fields, received 2") == 0);
  // cross_entropy looks at every label before it begins.
  CHECK(trainer(cat("{format: csv, files: bad.csv, ", columns, "}"))
            .status()
            .message()
            .find("'bad.csv': record 61: expected 4 fields, received 2") != std::string::npos);
  const auto refused = [&](const std::string& train) {
    JobOverrides overrides;
    overrides.set = {cat("data.train=", train)};
    return parse_job(print_job(small.job()), small.path("job.yaml"), overrides).status().message();
  };
  CHECK(refused("{format: csv, files: a.csv, header: maybe}")
            .find("data.train.header: expected true or false, received 'maybe'") !=
        std::string::npos);
  CHECK(refused("{format: csv, files: a.csv, colums: {}}")
            .find("data.train.colums: unknown key (did you mean 'columns'?)") != std::string::npos);
  CHECK(refused("{format: csv, files: a.csv, columns: {x: {dtype: float}}}")
            .find("data.train.columns.x.dtype: expected one of float32, float64") !=
        std::string::npos);
  CHECK(refused("{format: csv, files: a.csv, columns: {x: {from: a, bytes: 0}}}")
            .find("columns.x.bytes: expected an integer of at least 1") != std::string::npos);
  CHECK(refused("{format: csv, files: a.csv, columns: {'x y': a}}").find("expected a name of") !=
        std::string::npos);
  CHECK(refused("{format: csv, files: a.csv, features: a}").find("is not a key of csv") !=
        std::string::npos);
  CHECK(refused("{format: csv, files: ../a.csv}").find("below data.root") != std::string::npos);
  CHECK(refused("{format: csv, files: a.csv, header: false}")
            .find("names: expected the names of the fields") != std::string::npos);
  CHECK(refused("{format: sqlite, files: a.db}").find("data.train.table: missing") !=
        std::string::npos);
  CHECK(refused("{format: synthetic, rows: 0, columns: {x: {}}}").find("data.train.rows:") !=
        std::string::npos);
}

// Lines of JSON with an image of 8 x 8 and a class of four.
void write_image_lines(const std::string& path, int64_t rows) {
  std::string lines;
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<std::string> image;
    for (int64_t y = 0; y < 8; ++y) {
      std::vector<int64_t> line;
      for (int64_t x = 0; x < 8; ++x)
        line.push_back((row * 31 + y * 8 + x) * 2654435761 % 64 + (x / 4 == row % 2 ? 150 : 20));
      image.push_back(cat("[", join(line, ","), "]"));
    }
    lines += cat("{\"y\": ", row % 4, ", \"x\": [[", join(image, ","), "]]}\n");
  }
  must(write_file_atomically(real_files(), path, std::as_bytes(std::span(lines))));
}

TEST_CASE("a killed runner that reads a table costs no row") {
  JobScene scene(2);
  // The images of the scene's model, as lines of JSON.
  write_image_lines(scene.data_path("lines.jsonl"), 200);
  Job job = scene.job(kSlowness > 1 ? 200 : 600,
                      {"data.train={format: jsonl, files: lines.jsonl, columns: {features: {field: "
                       "x, shape: [1, 8, 8], dtype: uint8}, labels: {field: y, dtype: uint8}}}",
                       "data.validation=null", "num_workers=2"});
  const std::string hash = scene.expected(job);
  const std::string id = scene.submit(job);
  const JobView before = scene.await_step(id, 60, 1);
  ::kill(scene.runners(before).at(before.condition.workers[1]), SIGKILL);
  const JobView end = scene.await_end(id);
  INFO(end.condition.reason << scene.cluster().logs());
  CHECK(end.condition.state == JobState::succeeded);
  CHECK(end.condition.assembly > 1);
  CHECK(end.condition.result.weights_sha256 == hash);
}

}  // namespace
}  // namespace leat
