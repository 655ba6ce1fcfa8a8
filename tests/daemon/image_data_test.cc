// Trains on images of a folder, of tar shards and of TFRecord. Their crops are random, and follow
// from the seed and the row's place: the weights are the same whatever reads them.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "daemon/training/class_names.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

constexpr const char* kImageModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,3,6,6] image) => (float[N,3] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, activation = "relu"> (image)
  f = Flatten (c1)
  logits = leat.Dense <units = 3> (f)
}
)";
constexpr const char* kFormats[] = {"image_folder", "webdataset", "tfrecord"};

// 42 images of three classes, each bright in a colour of its own.
class ImageJob {
 public:
  ImageJob() : small(kImageModel) {
    std::vector<std::pair<std::string, std::string>> shards[2];
    std::vector<std::string> records;
    for (int row = 0; row < 42; ++row) {
      const int label = row / 14;
      const std::string image =
          png_of(static_cast<uint32_t>(9 + row % 4), 8, [&](uint32_t x, uint32_t y, int c) {
            const auto noise = static_cast<uint32_t>(row * 37) + x * 11 + y * 23;
            return static_cast<uint8_t>(noise % 60 + (c == label ? 180 : 20));
          });
      const std::string name = std::to_string(100 + row), folder = cat("train/class-", label);
      std::filesystem::create_directories(small.path(folder));
      std::ofstream(small.path(cat(folder, "/", name, ".png")), std::ios::binary) << image;
      auto& shard = shards[row < 20 ? 0 : 1];
      shard.emplace_back(name + ".png", image);
      shard.emplace_back(name + ".cls", std::to_string(label));
      records.push_back(example_of(
          {feature_of("image", texts_of({image})), feature_of("labels", integers_of({label}))}));
    }
    for (const int i : {0, 1})
      std::ofstream(small.path(cat("shard-", i, ".tar")), std::ios::binary) << tar_of(shards[i]);
    std::ofstream(small.path("train.tfrecord"), std::ios::binary) << tfrecord_of(records);
  }

  Job job(const std::string& format, const std::vector<std::string>& set = {}) const {
    std::vector<std::string> all = {"global_batch_size=12", "steps=11"};
    all.insert(all.end(), set.begin(), set.end());
    Job job = small.job(all);
    job.data.validation.reset();
    job.data.train.format = format;
    job.data.train.files = {format == "image_folder" ? "train"
                            : format == "tfrecord"   ? "train.tfrecord"
                                                     : "shard-*.tar"};
    const std::vector<std::string> geometry = {"size=6", "crop=random_resized", "flip=0.5"};
    job.data.train.options = geometry;
    if (format == "image_folder") return job;
    const bool tar = format == "webdataset";
    job.data.train.options = {"columns:image="};
    if (tar) job.data.train.options.push_back("columns:image:ext=png");
    for (const std::string& each : geometry)
      job.data.train.options.push_back("columns:image:" + each);
    job.data.train.options.push_back("columns:labels=");
    if (tar) job.data.train.options.push_back("columns:labels:ext=cls");
    job.data.train.options.push_back("columns:labels:dtype=int64");
    return job;
  }

  SmallJob small;
};

TEST_CASE("images of any format train to the same weights on any workers and threads",
          "[cluster]") {
  const ImageJob images;
  Silent watch;
  const TrainOutcome one = images.small.train(images.job("image_folder"), "one", watch);
  CHECK(watch.losses.back() < watch.losses.front());
  int run = 0;
  for (const char* format : kFormats) {
    for (const int workers : {1, 2, 3}) {
      // 4 shards: any number of workers up to 4 shares them.
      const int threads = 1 + run++ % 3;
      INFO(format << ", workers " << workers << ", threads " << threads);
      Silent other;
      const TrainOutcome outcome =
          images.small.train(images.job(format, {cat("num_workers=", workers)}),
                             cat(format, "-", workers), other, threads);
      CHECK(other.losses == watch.losses);
      CHECK(outcome.weights_sha256 == one.weights_sha256);
    }
  }
  // Another seed gives other crops.
  CHECK(images.small.hash(images.job("image_folder", {"seed=8"}), "seed") != one.weights_sha256);
}

TEST_CASE("a job on images goes on after an interruption with the crops that it would have had") {
  const ImageJob images;
  const std::string expected = images.small.hash(images.job("image_folder"), "whole");
  for (const char* format : kFormats) {
    INFO(format);
    Silent first, second;
    const Job job = images.job(format);
    const TrainOutcome part =
        images.small.train(job, format, first, 2, false, [&] { return first.losses.size() >= 6; });
    CHECK(part.interrupted);
    const TrainOutcome rest =
        images.small.train(images.job(format, {"num_workers=2"}), format, second, 1, true);
    CHECK(second.first == part.steps);
    CHECK(rest.weights_sha256 == expected);
  }
}

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
