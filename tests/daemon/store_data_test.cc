// Trainings whose data are behind HTTP and S3: the same weights as from the files of a disk.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "daemon/cli/missing_files.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/http_store.h"
#include "tests/must.h"
#include "tests/sample_files.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr const char* kStoreModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
store (float[N,3] features) => (float[N,4] logits) {
  h = leat.Dense <activation = "relu", units = 12> (features)
  logits = leat.Dense <units = 4> (h)
}
)";

// A server of the files of a folder, as /data/NAME or, for S3, /bucket/NAME, which it also lists.
class FolderStore {
 public:
  explicit FolderStore(std::string folder)
      : folder_(std::move(folder)), server_([this](const StoreRequest& r) { return answer(r); }) {}
  std::string url() const { return server_.url(); }
  size_t requests() const { return server_.requests().size(); }

 private:
  StoreAnswer answer(const StoreRequest& request) const {
    if (request.target.find('?') != std::string::npos) {
      std::string keys;
      for (const auto& entry : std::filesystem::directory_iterator(folder_))
        keys += cat("<Contents><Key>", entry.path().filename().string(), "</Key></Contents>");
      return {200, {}, cat("<ListBucketResult>", keys, "</ListBucketResult>")};
    }
    const std::string path = folder_ + request.target.substr(request.target.rfind('/'));
    std::ifstream in(path, std::ios::binary);
    if (!in) return {404};
    const std::string content{std::istreambuf_iterator<char>(in), {}};
    return HttpStore::range_of(request, content, cat("\"", content.size(), "\""));
  }

  const std::string folder_;
  HttpStore server_;
};

void write_store_files(const SmallJob& small) {
  constexpr int64_t kRows = 201;
  Tensor features(DType::f32, Shape{kRows, 3}), labels(DType::i64, Shape{kRows});
  std::string csv = "a,b,c,labels\n", jsonl, tokens;
  std::vector<std::pair<std::string, std::string>> samples;
  std::mt19937 random(7);
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t label = i * 7 % 4;
    std::vector<std::string> texts;
    for (int64_t f = 0; f < 3; ++f) {
      const auto value = static_cast<float>(label * (f + 1) % 4) + (random() % 1000) / 4096.0f;
      features.set(3 * i + f, value);
      texts.push_back(shortest(value));
    }
    labels.set(i, static_cast<double>(label));
    csv += cat(join(texts, ","), ",", label, "\n");
    jsonl += cat("{\"x\": [", join(texts, ", "), "], \"y\": ", label, "}\n");
    samples.emplace_back(cat(1000 + i, ".json"), cat("{\"x\": [", join(texts, ", "), "]}"));
    samples.emplace_back(cat(1000 + i, ".cls"), std::to_string(label));
  }
  const auto write = [&](const std::string& name, const std::string& text) {
    must(write_file_atomically(real_files(), small.path(name), std::as_bytes(std::span(text))));
  };
  must(write_npy(real_files(), small.path("x.npy"), features));
  must(write_npy(real_files(), small.path("y.npy"), labels));
  write("rows.csv", csv);
  write("rows.jsonl", jsonl);
  write("rows-0.tar", tar_of(samples));
}

const std::vector<std::string> kStoreFormats{
    "{format: npy, files: {features: x.npy, labels: y.npy}}",
    "{format: csv, files: rows.csv, columns: {features: [a, b, c], labels: {from: labels, dtype: "
    "int64}}}",
    "{format: jsonl, files: rows.jsonl, columns: {features: {field: x, shape: 3}, labels: {field: "
    "y, dtype: int64}}}",
    "{format: webdataset, files: rows-0.tar, columns: {features: {ext: json, field: x, shape: 3}, "
    "labels: {ext: cls, dtype: int64}}}",
};

std::vector<std::string> store_settings(const std::string& train, const std::string& root,
                                        const std::string& workers = "1") {
  return {cat("data.train=", train),
          cat("data.validation=", train),
          "data.rescale=1",
          cat("data.root=", root),
          cat("num_workers=", workers),
          "lr_scheduler={name: constant}",
          "optimizer={name: adam, learning_rate: 0.01}"};
}

TEST_CASE("data of a server train to the weights of the same files on a disk") {
  const SmallJob small(kStoreModel);
  write_store_files(small);
  const FolderStore store(small.path());
  const std::string truth =
      small.hash(small.job(store_settings(kStoreFormats[0], small.path())), "disk");
  int run = 0;
  for (const std::string& format : kStoreFormats) {
    INFO(format);
    const Job job = small.job(store_settings(format, store.url() + "/data"));
    CHECK(job.data.root == store.url() + "/data");
    CHECK(must(parse_job(print_job(job), small.path("job.yaml"))).data == job.data);
    CHECK(small.hash(job, cat("run-", run++)) == truth);
    const Job two = small.job(store_settings(format, store.url() + "/data", "2"));
    CHECK(small.hash(two, cat("run-", run++), 2) == truth);
  }
  CHECK(store.requests() > 8);
}

TEST_CASE("a worker offers a store, and a killed runner reads there what is left", "[cluster]") {
  const SmallJob small(kStoreModel);
  write_store_files(small);
  const FolderStore store(small.path());
  std::vector<std::string> settings = store_settings(kStoreFormats[3], store.url() + "/data", "2");
  settings.insert(settings.end(), {"steps=40", "checkpoint.every_steps=5"});
  Job job = small.job(settings);
  const std::string truth = small.hash(job, "one-process");
  job.data.root = "data";  // the name that the workers have for it
  std::ofstream(small.path("job.yaml")) << print_job(job);
  ProcessCluster cluster(
      {.workers = 2, .data_path = store.url() + "/data", .master = {"--set", "chaos=true"}});
  REQUIRE(cluster.await_ready(2));
  const std::string view = cluster.run_with_fault(small.path("job.yaml"), "kill=runner:1@step=17");
  INFO(view);
  CHECK(view.find(truth) != std::string::npos);
}

TEST_CASE("data of S3 are found by patterns, and a job file has no user") {
  const SmallJob small(kStoreModel);
  write_store_files(small);
  const FolderStore store(small.path());
  const std::string map =
      "{format: csv, files: 'rows*.csv', columns: {features: [a, b, c], labels: {from: labels, "
      "dtype: int64}}}";
  const std::string job =
      cat("version: 1\nname: s3\nmodel: {graph: g.onnxtxt}\ndata:\n  root: "
          "s3://bucket\n  train: ",
          map,
          "\nloss: cross_entropy\nepochs: 1\nglobal_batch_size: 8\noptimizer: "
          "{name: sgd, learning_rate: 0.1}\n");
  must(write_file_atomically(real_files(), small.path("s3.yaml"), std::as_bytes(std::span(job))));
  const std::vector<std::string> environment{"AWS_ENDPOINT_URL=" + store.url(),
                                             "AWS_ACCESS_KEY_ID=id", "AWS_SECRET_ACCESS_KEY=key"};
  const Finished done =
      run_program(leat_binary(), small.path(), {"data", "inspect", "s3.yaml"}, environment);
  INFO(done.err);
  CHECK(done.exit_code == 0);
  CHECK(done.out.find("train: csv, 201 rows, 2 columns\n  file rows.csv  ") != std::string::npos);
  CHECK(done.out.find("read 201 rows, all of them good") != std::string::npos);
  // A file of a store may be named as it is.
  const Finished file = run_program(
      leat_binary(), small.path(),
      {"data", "convert", store.url() + "/data/rows.jsonl", "only-x.npy", "--columns", "x"},
      environment);
  INFO(file.err);
  CHECK(file.exit_code == 0);
  CHECK(must(read_npy(real_files(), small.path("only-x.npy"))).shape() == Shape({201, 3}));
  JobOverrides overrides;
  overrides.set = {"data.root=https://me:secret@host/x"};
  const Status refused =
      parse_job(print_job(small.job()), small.path("job.yaml"), overrides).status();
  CHECK(refused.message().find("data.root: the address of a store: expected none with a user") !=
        std::string::npos);
}

TEST_CASE("only a data root that is a folder can be missing on this machine") {
  Job job;
  CHECK(!report_missing_root(job, ColorMode::never));
  job.data.root = "https://host/data";
  CHECK(!report_missing_root(job, ColorMode::never));
  const TemporaryDirectory folder;
  job.data.root = folder.path();
  CHECK(!report_missing_root(job, ColorMode::never));
  job.data.root = folder / "none";
  CHECK(report_missing_root(job, ColorMode::never));
}

TEST_CASE("a file that the store lacks is one error of the job") {
  const SmallJob small(kStoreModel);
  write_store_files(small);
  const FolderStore store(small.path());
  const std::string train =
      "{format: csv, files: none.csv, columns: {features: [a, b, c], labels: {from: labels, dtype: "
      "int64}}}";
  const auto trainer = small.trainer(small.job(store_settings(train, store.url() + "/data")),
                                     {small.path("run"), false, 1});
  CHECK(trainer.status().message().find("/data/none.csv': there is no such file (status 404)") !=
        std::string::npos);
}

}  // namespace
}  // namespace leat
