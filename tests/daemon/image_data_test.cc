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
