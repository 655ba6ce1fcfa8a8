// Jobs on images: a runner that is killed, and the names of the classes. every_source_test.cc
// trains on each format.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/training/class_names.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/image_files.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr const char* kImageModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,3,6,6] image) => (float[N,3] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, activation = "relu"> (image)
  f = Flatten (c1)
  logits = leat.Dense <units = 3> (f)
}
)";

// 42 images of three classes, each bright in a colour of its own.
class ImageJob {
 public:
  ImageJob() : small(kImageModel) { write_image_files(small.path(), 42, 3); }

  Job job(const std::string& format, const std::vector<std::string>& set = {}) const {
    std::vector<std::string> all = {cat("data.train=", image_source(format)),
                                    "data.validation=null", "global_batch_size=12", "steps=11"};
    all.insert(all.end(), set.begin(), set.end());
    return small.job(all);
  }

  SmallJob small;
};

TEST_CASE("a job on images ends with the same weights though a runner is killed", "[cluster]") {
  const ImageJob images;
  ProcessCluster cluster(
      {.workers = 2, .data_path = images.small.path(), .master = {"--set", "chaos=true"}});
  const std::string expected = images.small.hash(images.job("webdataset"), "whole");
  Job job = images.job("webdataset", {"num_workers=2"});
  job.data.root = "data";
  const std::string path = images.small.path("submitted.yaml");
  std::ofstream(path) << print_job(job);
  const auto view = nlohmann::json::parse(cluster.run_with_fault(path, "kill=runner:1@step=7"));
  CHECK(view["weights_sha256"] == expected);
  CHECK(view["history"].size() == 1);
}

// The files of the images as bytes, which transforms decode.
std::string encoded_source() {
  return "{format: webdataset, files: 'shard-*.tar', columns: {image: {ext: png, bytes: 2000}, "
         "labels: {ext: cls, dtype: int64}}}";
}

TEST_CASE("a job that decodes images by transforms has the same weights on any workers") {
  const ImageJob images;
  const std::string transforms =
      "data.transforms=[{decode: rgb}, {random_resized_crop: 6}, {flip: horizontal}]";
  const auto job = [&](const std::vector<std::string>& more) {
    std::vector<std::string> set{cat("data.train=", encoded_source()),
                                 cat("data.validation=", encoded_source()), transforms};
    set.insert(set.end(), more.begin(), more.end());
    return images.job("webdataset", set);
  };
  Silent one, first, second;
  const TrainOutcome expected = images.small.train(job({}), "one", one);
  REQUIRE(expected.validation);
  for (const auto& [workers, threads] : std::vector<std::pair<int, int>>{{1, 3}, {3, 2}, {4, 4}}) {
    INFO(workers << " workers, " << threads << " threads");
    Silent watch;
    const TrainOutcome other = images.small.train(job({cat("num_workers=", workers)}),
                                                  cat("run-", workers), watch, threads);
    CHECK(other.weights_sha256 == expected.weights_sha256);
    CHECK(other.validation->loss == expected.validation->loss);
  }
  (void)images.small.train(job({}), "stopped", first, 1, false,
                           [&] { return first.losses.size() >= 5; });
  CHECK(images.small.train(job({"num_workers=2"}), "stopped", second, 2, true).weights_sha256 ==
        expected.weights_sha256);
  // Without anything random, both spellings are the same job.
  const std::string still = "optimizer={name: sgd, learning_rate: 0.01}";
  const std::string of_source =
      "{format: webdataset, files: 'shard-*.tar', columns: {image: {ext: png, size: 6, resize: "
      "area}, labels: {ext: cls, dtype: int64}}}";
  const std::string by_source =
      images.small.hash(images.job("webdataset", {cat("data.train=", of_source), still}), "source");
  CHECK(images.small.hash(
            images.job("webdataset",
                       {cat("data.train=", encoded_source()), still,
                        "data.transforms=[{decode: rgb}, {resize: {size: 6, mode: area}}]"}),
            "transforms") == by_source);
  CHECK(images.small.hash(
            images.job("webdataset", {cat("data.train=", encoded_source()), still,
                                      "data.transforms=[{decode: {size: 6, mode: area}}]"}),
            "at-once") == by_source);
}

TEST_CASE("a file that is longer than its column ends the job with its row") {
  const ImageJob images;
  const std::string cut =
      "{format: webdataset, files: 'shard-*.tar', columns: {image: {ext: png, bytes: 60}, labels: "
      "{ext: cls, dtype: int64}}}";
  const Job job =
      images.job("webdataset", {cat("data.train=", cut), "data.transforms=[{decode: {size: 6}}]"});
  const auto trainer = must(images.small.trainer(job, {images.small.path("cut"), false, 1}));
  Silent watch;
  const auto refused = trainer->run(watch, [] { return false; });
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("leat.DecodeImages"));
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("row 0: "));
}

TEST_CASE("a job leaves out damaged files of images that transforms decode, and counts them") {
  const ImageJob images;
  std::string shard;
  {
    std::ifstream in(images.small.path("shard-0.tar"), std::ios::binary);
    shard.assign(std::istreambuf_iterator<char>(in), {});
  }
  // In the pixels of the second image, behind its header.
  const size_t second = shard.find("101.png");
  REQUIRE(second != std::string::npos);
  shard[second + 512 + 60] = static_cast<char>(shard[second + 512 + 60] ^ 0x55);
  std::ofstream(images.small.path("shard-0.tar"), std::ios::binary) << shard;
  const auto job = [&](const std::string& more) {
    return images.job(
        "webdataset",
        {cat("data.train={format: webdataset, files: 'shard-*.tar', ", more,
             "columns: {image: {ext: png, bytes: 2000, holds: image}, labels: {ext: cls, dtype: "
             "int64}}}"),
         "data.transforms=[{decode: {size: 6}}]"});
  };
  Silent watch, skipping;
  const auto trainer = must(images.small.trainer(job(""), {images.small.path("fails"), false, 1}));
  const auto refused = trainer->run(watch, [] { return false; });
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("leat.DecodeImages"));
  const auto skips = must(
      images.small.trainer(job("on_bad_record: skip, "), {images.small.path("skips"), false, 1}));
  REQUIRE(!skips->notes().empty());
  CHECK_THAT(skips->notes()[0], Catch::StartsWith("left out 1 bad record of the data, first "
                                                  "'shard-0.tar': sample '101': "));
  CHECK(skips->run(skipping, [] { return false; }).ok());
}

TEST_CASE("a job says which class is which number, and leaves that in its folder") {
  const ImageJob images;
  const auto trainer = must(
      images.small.trainer(images.job("image_folder"), {images.small.path("notes"), false, 1}));
  REQUIRE(!trainer->notes().empty());
  CHECK(trainer->notes().back() ==
        "the classes of 'labels' are 0 'class-0', 1 'class-1', 2 'class-2'");
  (void)images.small.hash(images.job("image_folder", {"steps=1"}), "run");
  CHECK(must(read_class_names(real_files(), images.small.path("run"))) ==
        std::vector<std::string>{"class-0", "class-1", "class-2"});
}

TEST_CASE("a validation on a folder with other classes is refused") {
  const ImageJob images;
  Job job = images.job("image_folder");
  job.data.validation = job.data.train;
  job.data.validation->files = {"validation"};
  for (const char* name : {"class-0", "class-2"}) {
    std::filesystem::create_directories(images.small.path("validation"));
    std::filesystem::copy(images.small.path(cat("train/", name)),
                          images.small.path(cat("validation/", name)));
  }
  const auto trainer = images.small.trainer(job, {images.small.path("refused"), false, 1});
  CHECK(trainer.status().message().find("data.validation: expected the classes of data.train, "
                                        "class 1 is 'class-1' there and 'class-2' here") !=
        std::string::npos);
}

}  // namespace
}  // namespace leat
