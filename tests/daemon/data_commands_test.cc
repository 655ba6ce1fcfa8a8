// leat data inspect and leat data convert, as a user types them.
#include <filesystem>
#include <fstream>
#include <numeric>

#include "daemon/cli/data_convert.h"
#include "daemon/cli/data_inspect.h"
#include "daemon/cli/data_ledger.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/must.h"
#include "tests/sample_files.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

void put_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string get_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Finished data_command(const TemporaryDirectory& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "data");
  return run_leat(folder.path(), arguments);
}

std::map<std::string, Tensor> arrays_of(const std::string& path) {
  const auto file = must(real_files().open(path));
  std::map<std::string, Tensor> out;
  for (const NpzMember& member : must(read_npz_directory(*file)))
    out.emplace(member.name, must(read_npz_member(*file, member)));
  return out;
}

constexpr const char* kPeople =
    "age,height,name,labels\n39,1.75,Ann,0\n50,2.5,\"Bo, b\",1\n7,1,C,1\n";

constexpr const char* kPeopleJob = R"(version: 1
name: people
model: {graph: none.onnxtxt}
data:
  root: .
  train:
    format: csv
    files: people.csv
    columns:
      both: [age, height]
      who: {from: name, bytes: 3}
      labels: {from: labels, categories: ["0", "1"]}
  validation: {format: npy, files: {both: v.npy}}
loss: mse
epochs: 1
global_batch_size: 2
optimizer: {name: sgd, learning_rate: 0.1}
)";

TEST_CASE("inspect shows the rows, the columns, the classes and the bad records of a file") {
  const TemporaryDirectory folder;
  put_file(folder / "people.csv", cat(kPeople, "1,2\n"));
  const Finished done = data_command(folder, {"inspect", "people.csv"});
  CHECK(done.exit_code == 0);
  const std::vector<std::string> expected = {
      "data: csv, 4 rows, 4 columns\n",
      "  file people.csv  66 bytes, crc32c ",
      "age     int64[]   7 to 50   39, 50, 7\n",
      "height  double[]  1 to 2.5  1.75, 2.5, 1\n",
      "name    uint8[5]  text      'Ann', 'Bo, b', 'C'\n",
      "  classes of labels in 4 rows\n",
      "read 4 rows, 1 of them bad\n",
      "first 'people.csv': record 4: expected 4 fields, received 2\n",
  };
  for (const std::string& each : expected) {
    INFO(done.out);
    CHECK(done.out.find(each) != std::string::npos);
  }
  const Finished json = data_command(folder, {"inspect", "people.csv", "--json", "--rows", "2"});
  CHECK(json.out.find(R"({"apiVersion": "leat/v1", "kind": "DataSet", "set": "data", "format": )"
                      R"("csv", "rows": 4, "rowsRead": 2, "badRows": 0})") != std::string::npos);
  CHECK(json.out.find(R"("kind": "ClassCount", "set": "data", "column": "labels", "class": 1, )"
                      R"("rows": 2})") != std::string::npos);
}

// Counts how often files are opened.
class CountedOpens final : public ForwardingFiles {
 public:
  CountedOpens() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    ++opens;
    return files_.open(path);
  }
  int opens = 0;
};

TEST_CASE("inspect and convert count the records of a file once") {
  const TemporaryDirectory folder;
  put_file(folder / "people.csv", kPeople);
  const NamedData data = must(find_data(real_files(), folder / "people.csv", 100)).at(0);
  CountedOpens plain, inspected, converted;
  must(Dataset::open(plain, data.names));
  CHECK(must(inspect_data(inspected, data, 100)).prints.size() == 1);
  CHECK(inspected.opens == plain.opens + 2);  // for the fingerprint and for the rows
  must(convert_data(converted, data, folder / "out.npz", false));
  CHECK(converted.opens == plain.opens + 2);
}

TEST_CASE("inspect shows all sets of a job file, whatever its model is") {
  const TemporaryDirectory folder;
  put_file(folder / "people.csv", kPeople);
  put_file(folder / "job.yaml", kPeopleJob);
  must(write_npy(real_files(), folder / "v.npy", Tensor::of<float>({1, 2}, {1, 2})));
  const Finished done = data_command(folder, {"inspect", "job.yaml"});
  INFO(done.err);
  CHECK(done.exit_code == 0);
  INFO(done.out);
  CHECK(done.out.find("train: csv, 3 rows, 3 columns\n") != std::string::npos);
  CHECK(done.out.find("both    float[2]") != std::string::npos);
  CHECK(done.out.find("validation: npy, 1 row, 1 column\n") != std::string::npos);
  CHECK(done.out.find("    1 '1'  2\n") != std::string::npos);
  const Finished one = data_command(
      folder, {"inspect", "{format: csv, files: people.csv, columns: {age: {dtype: int8}}}"});
  CHECK(one.out.find("age     int8[]") != std::string::npos);
}

TEST_CASE("a CSV file becomes arrays, and these become the same CSV file again") {
  const TemporaryDirectory folder;
  const std::string people = "age,height,name\n39,1.75,Ann\n50,2.5,\"Bo, b\"\n-7,1e-10,C\n";
  put_file(folder / "people.csv", people);
  Finished done = data_command(folder, {"convert", "people.csv", "people.npz"});
  CHECK(done.err == "people.npz: 3 rows, 3 columns\n");
  CHECK(done.exit_code == 0);
  const auto arrays = arrays_of(folder / "people.npz");
  CHECK(arrays.at("age").identical(Tensor::of<int64_t>({3}, {39, 50, -7})));
  CHECK(arrays.at("height").identical(Tensor::of<double>({3}, {1.75, 2.5, 1e-10})));
  CHECK(arrays.at("name").shape() == Shape({3, 5}));
  for (const char* between : {"people.safetensors", "people.jsonl"}) {
    INFO(between);
    done = data_command(folder, {"convert", "people.csv", between});
    CHECK(done.exit_code == 0);
  }
  done = data_command(folder, {"convert", "people.jsonl", "again.csv"});
  CHECK(done.exit_code == 0);
  CHECK(get_file(folder / "again.csv") == people);
  const SafeTensors tensors = must(read_safetensors(real_files(), folder / "people.safetensors"));
  CHECK(tensors.tensors.at("height").identical(arrays.at("height")));
  CHECK(tensors.tensors.at("name").identical(arrays.at("name")));
  done = data_command(folder, {"convert", "people.npz", "age.npy", "--columns", "age"});
  CHECK(must(read_npy(real_files(), folder / "age.npy")).identical(arrays.at("age")));
}

TEST_CASE("a conversion leaves the user's file beside its output alone") {
  const TemporaryDirectory folder;
  put_file(folder / "people.csv", kPeople);
  for (const char* name : {"out.npz", "out.csv"}) {
    INFO(name);
    const std::string beside = cat(folder / name, ".tmp");
    put_file(beside, "precious");
    CHECK(data_command(folder, {"convert", "people.csv", name}).exit_code == 0);
    CHECK(get_file(beside) == "precious");
  }
  CHECK(data_command(folder, {"convert", "people.csv", "new/folder/out.npz"}).exit_code == 0);
  CHECK(must(real_files().list(folder / "new/folder")) == std::vector<std::string>{"out.npz"});
  CHECK(must(real_files().list(folder.path())).size() == 6);
}

TEST_CASE("the columns and the classes of a job are converted as the job reads them") {
  const TemporaryDirectory folder;
  put_file(folder / "people.csv", kPeople);
  std::string job = kPeopleJob;
  job.replace(job.find("\"0\", \"1\""), 8, "child, \"1\"");
  put_file(folder / "job.yaml", job);
  put_file(folder / "people.csv", "age,height,name,labels\n39,1.75,Anna,child\n50,2.5,B,1\n");
  Finished done = data_command(folder, {"convert", "job.yaml", "out.jsonl"});
  INFO(done.err);
  CHECK(done.exit_code == 0);
  CHECK(get_file(folder / "out.jsonl") ==
        "{\"both\": [39, 1.75], \"who\": \"Ann\", \"labels\": \"child\"}\n"
        "{\"both\": [50, 2.5], \"who\": \"B\", \"labels\": \"1\"}\n");
  done = data_command(folder, {"convert", "job.yaml", "out.csv", "--columns", "labels,both"});
  CHECK(get_file(folder / "out.csv") == "labels,both_0,both_1\nchild,39,1.75\n1,50,2.5\n");
  done = data_command(folder, {"convert", "job.yaml", "out.safetensors"});
  CHECK(must(read_safetensors(real_files(), folder / "out.safetensors"))
            .metadata.at("classes.labels") == R"(["child", "1"])");
  done = data_command(folder, {"convert", "job.yaml", "x.csv", "--part", "test"});
  CHECK(done.errors() == std::vector<std::string>{"--part: expected one of train, validation, "
                                                  "received 'test'"});
}

TEST_CASE("a folder of images becomes an array of them, with the labels") {
  const TemporaryDirectory folder;
  for (const char* name : {"a/1.png", "a/2.png", "b/1.png"}) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    put_file(folder / name, png_of(3, 2, [&](uint32_t x, uint32_t y, int c) {
               return static_cast<uint8_t>(x + y * 3 + static_cast<uint32_t>(c) * 50 + name[2]);
             }));
  }
  const Finished done = data_command(folder, {"convert", ".", "images.npz"});
  INFO(done.err);
  CHECK(done.exit_code == 0);
  const auto arrays = arrays_of(folder / "images.npz");
  CHECK(arrays.at("image").shape() == Shape({3, 3, 2, 3}));
  CHECK(arrays.at("image").int_at(5) == '1' + 5);
  CHECK(arrays.at("labels").identical(Tensor::of<int64_t>({3}, {0, 0, 1})));
}

TEST_CASE("arrays that do not fit into the memory together are the same bytes") {
  const TemporaryDirectory folder;
  std::string csv = "a,b,c\n";
  for (int i = 0; i < 5000; ++i) csv += cat(i, ",", i * 0.5, ",t", i % 17, "\n");
  put_file(folder / "t.csv", csv);
  const NamedData data = must(find_data(real_files(), folder / "t.csv", INT64_MAX)).at(0);
  for (const std::string end : {".npz", ".safetensors"}) {
    must(convert_data(real_files(), data, folder / ("all" + end), false));
    // 5000 rows of 8 bytes: one column at a time, and then none of them.
    must(convert_data(real_files(), data, folder / ("one" + end), false, 45'000));
    must(convert_data(real_files(), data, folder / ("none" + end), false, 100));
    CHECK(get_file(folder / ("one" + end)) == get_file(folder / ("all" + end)));
    CHECK(get_file(folder / ("none" + end)) == get_file(folder / ("all" + end)));
  }
}

TEST_CASE("a ledger has each row once, whatever the format and the number of workers") {
  const TemporaryDirectory folder;
  std::string csv = "x,labels\n";
  Tensor x(DType::f32, Shape{1000}), labels(DType::i64, Shape{1000});
  for (int i = 0; i < 1000; ++i) {
    csv += cat(i * 0.5, ",", i % 3, "\n");
    x.set(i, i * 0.5);
    labels.set(i, i % 3);
  }
  put_file(folder / "rows.csv", csv);
  must(write_npy(real_files(), folder / "x.npy", x));
  must(write_npy(real_files(), folder / "y.npy", labels));
  const auto job = [&](const std::string& train, const std::string& more) {
    put_file(
        folder / "job.yaml",
        cat("version: 1\nname: n\nmodel: {graph: g.onnxtxt}\ndata:\n  root: .\n  train: ", train,
            "\nloss: cross_entropy\nepochs: 1\nglobal_batch_size: 12\nseed: 5\n"
            "optimizer: {name: sgd, learning_rate: 0.1}\n",
            more));
  };
  const std::string arrays = "{format: npy, files: {x: x.npy, labels: y.npy}}";
  job(arrays, "");
  const Finished done = data_command(folder, {"ledger", "job.yaml"});
  INFO(done.err);
  CHECK(done.exit_code == 0);
  CHECK(done.out.find("epoch 1: 1000 rows, each once\norder   sha256 ") == 0);
  CHECK(done.out.find("content sha256 ") != std::string::npos);
  job("{format: csv, files: rows.csv, columns: {x: x, labels: {dtype: int64}}}",
      "num_workers: 4\nshards: 4\n");
  CHECK(data_command(folder, {"ledger", "job.yaml"}).out == done.out);
  const Finished second = data_command(folder, {"ledger", "job.yaml", "--epoch", "2"});
  CHECK(second.out.find("epoch 2: 1000 rows, each once\n") == 0);
  CHECK(second.out.substr(30) != done.out.substr(30));
  const Finished order = data_command(folder, {"ledger", "job.yaml", "--order", "--json"});
  CHECK(order.out.find(R"({"apiVersion": "leat/v1", "kind": "EpochLedger", "epoch": 1, "rows": )"
                       R"(1000, "missing": 0, "repeated": 0, "orderSha256": ")") == 0);
  CHECK(order.out.find("content") == std::string::npos);
  // Without shuffling the order is that of the files.
  NamedData data = must(find_data(real_files(), folder / "job.yaml", 1)).at(0);
  const EpochLedger plain =
      must(read_epoch_ledger(real_files(), data.names, {.shuffle = false, .seed = 5}, 3, false));
  std::vector<int64_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), int64_t{0});
  CHECK(plain.order == to_hex(sha256(std::as_bytes(std::span(numbers)))));
}

TEST_CASE("a conversion that fails writes nothing, and replaces nothing without --force") {
  const TemporaryDirectory folder;
  put_file(folder / "good.csv", "a,b\n1,2\n");
  put_file(folder / "bad.csv", "a,b\n1,2\n3\n");
  put_file(folder / "there.csv", "as it was");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"good.csv", "there.csv"}, "'there.csv': there is a file; --force replaces it"},
      {{"bad.csv", "out.npz"}, "'bad.csv': record 2: expected 2 fields, received 1"},
      {{"bad.csv", "there.csv", "--force"}, "'bad.csv': record 2: expected 2 fields, received 1"},
      {{"good.csv", "out.npy"},
       "expected one column for .npy, received a, b; name one with --columns, or write .npz"},
      {{"good.csv", "out.parquet"},
       "'out.parquet': expected a file .npz, .npy, .safetensors, .csv or .jsonl"},
      {{"good.csv", "out.npz", "--columns", "c"}, "column 'c': expected one of a, b"},
  };
  for (const auto& [arguments, error] : cases) {
    std::vector<std::string> all = arguments;
    all.insert(all.begin(), "convert");
    const Finished done = data_command(folder, all);
    INFO(done.err);
    REQUIRE(done.errors().size() == 1);
    CHECK(done.errors()[0].find(error) != std::string::npos);
    CHECK(done.exit_code != 0);
  }
  CHECK(get_file(folder / "there.csv") == "as it was");
  CHECK(must(real_files().list(folder.path())).size() == 3);
  CHECK(data_command(folder, {"convert", "none.csv", "out.npz"}).exit_code == 5);
  CHECK(data_command(folder, {"convert", "good.csv", "there.csv", "--force"}).exit_code == 0);
  CHECK(get_file(folder / "there.csv") == "a,b\n1,2\n");
}

}  // namespace
}  // namespace leat
