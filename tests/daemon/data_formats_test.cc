// Jobs on tables: shards with rows of their own, bad records, and the keys of data.train that are
// refused. every_source_test.cc trains on each format.
#include <csignal>
#include <set>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/table_files.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

constexpr int64_t kTableRows = 201;

TEST_CASE("windows of tokens have the columns of a language model in a mixture, too") {
  const SmallJob small(kTableModel);
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
    return small.job(table_settings(
        table_source(format), {"shards=4", cat("data.sharding=", sharding), "global_batch_size=16",
                               cat("num_workers=", workers)}));
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
        small.job(table_settings(table_source("csv"), {"shards=2", cat("data.sharding=", sharding),
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
                               "expected 5 fields, received 2") == 0);
  // cross_entropy looks at every label before it begins.
  CHECK(trainer(cat("{format: csv, files: bad.csv, ", columns, "}"))
            .status()
            .message()
            .find("'bad.csv': record 61: expected 5 fields, received 2") != std::string::npos);
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
