// Tests leat.Save and leat.Restore.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ops/data/saved_files.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/job_testing.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using testing::TestJob;
using Texts = std::vector<std::string>;
namespace fs = std::filesystem;

// A job that saves below a folder of its own: two values, and the nodes around them.
struct SavingJob {
  explicit SavingJob(const std::string& folder, const std::string& path = "a/w.safetensors") {
    set_saved_files(job.resources, saved_files_in(real_files(), folder));
    x = job.input("x", DType::f32, {2, 2});
    n = job.input("n", DType::i64, {3});
    attrs = {{"path", path}, {"names", Texts{"x", "n"}}};
  }
  NodeId save(int64_t every = 1) {
    Attrs own = attrs;
    if (every != 1) own["every"] = every;
    return job.add_node("leat.Save", {x, n}, own);
  }
  std::vector<ValueId> restore(bool optional = false) {
    Attrs own = attrs;
    if (optional) own["optional"] = int64_t{1};
    return job.graph.node(job.add_node("leat.Restore", {x, n}, own, 2)).outputs;
  }

  TestJob job;
  ValueId x = kNone, n = kNone;
  Attrs attrs;
  const std::map<ValueId, Tensor> feeds() const {
    return {{x, Tensor::of<float>({2, 2}, {1, 2, 3, 4})}, {n, Tensor::of<int64_t>({3}, {5, 6, 7})}};
  }
  const std::map<ValueId, Tensor> zeros() const {
    return {{x, Tensor(DType::f32, {2, 2})}, {n, Tensor(DType::i64, {3})}};
  }
};

std::string message_of(const Result<std::vector<Tensor>>& result) {
  CHECK(!result.ok());
  return result.status().message();
}

TEST_CASE("a saved file has the values under their names, and restores them") {
  const TemporaryDirectory folder;
  SavingJob saving(folder / "job");
  const NodeId save = saving.save();
  saving.job.run(saving.feeds(), {}, {save});
  const auto file = must(read_safetensors(real_files(), folder / "job/a/w.safetensors"));
  REQUIRE(file.tensors.size() == 2);
  CHECK(file.tensors.at("x").identical(Tensor::of<float>({2, 2}, {1, 2, 3, 4})));
  CHECK(file.tensors.at("n").identical(Tensor::of<int64_t>({3}, {5, 6, 7})));
  // Nothing but the file is left.
  CHECK(std::distance(fs::directory_iterator(folder / "job/a"), fs::directory_iterator()) == 1);

  SavingJob restoring(folder / "job");
  const auto restored = restoring.restore();
  const auto values = restoring.job.run(restoring.zeros(), restored);
  CHECK(values[0].identical(Tensor::of<float>({2, 2}, {1, 2, 3, 4})));
  CHECK(values[1].identical(Tensor::of<int64_t>({3}, {5, 6, 7})));
}

TEST_CASE("a node saves after every so many steps") {
  const TemporaryDirectory folder;
  SavingJob saving(folder.path());
  const NodeId save = saving.save(2);
  saving.job.run(saving.feeds(), {}, {save});  // step 0, the first one
  CHECK_FALSE(fs::exists(folder / "a"));
}

TEST_CASE("a restore without its file fails, or keeps the values that it has") {
  const TemporaryDirectory folder;
  SavingJob saving(folder.path());
  CHECK(message_of(saving.job.try_run(saving.feeds(), saving.restore())).find("leat.Restore") !=
        std::string::npos);
  const auto kept = saving.job.run(saving.feeds(), saving.restore(true));
  CHECK(kept[0].identical(Tensor::of<float>({2, 2}, {1, 2, 3, 4})));
  CHECK(kept[1].identical(Tensor::of<int64_t>({3}, {5, 6, 7})));
}

TEST_CASE("a restore names all that is missing or of another type") {
  const TemporaryDirectory folder;
  SafeTensors other;
  other.tensors["x"] = Tensor(DType::f32, {4});
  other.tensors["m"] = Tensor(DType::i64, {3});
  fs::create_directories(folder / "a");
  must(write_safetensors(real_files(), folder / "a/w.safetensors", other));
  SavingJob saving(folder.path());
  const std::string error = message_of(saving.job.try_run(saving.feeds(), saving.restore(true)));
  CHECK(error.find("'x' is float[4], expected float[2,2]; 'n' is not there (did you mean 'm'?)") !=
        std::string::npos);
}

TEST_CASE("no path leads out of the folder, by its text or by a link") {
  const TemporaryDirectory folder;
  fs::create_directories(folder / "job");
  for (const std::string path :
       {"../w", "/etc/w", "", "a/../../w", ".", "a/", "w.tmp", "a.tmp/w"}) {
    INFO(path);
    SavingJob saving(folder / "job", path);
    CHECK(message_of(saving.job.try_run(saving.feeds(), {}, {saving.save()}))
              .find("expected that of a file below") != std::string::npos);
  }
  fs::create_directories(folder / "outside");
  fs::create_directory_symlink(folder / "outside", folder / "job/link");
  std::ofstream(folder / "outside/w") << "precious";
  fs::create_symlink(folder / "outside/w", folder / "job/file");
  for (const std::string path : {"link/w", "file", "link/new/w"}) {
    INFO(path);
    SavingJob saving(folder / "job", path);
    const std::string error = message_of(saving.job.try_run(saving.feeds(), {}, {saving.save()}));
    CHECK(error.find("links lead to") != std::string::npos);
    SavingJob restoring(folder / "job", path);
    CHECK(message_of(restoring.job.try_run(restoring.feeds(), restoring.restore()))
              .find("links lead to") != std::string::npos);
  }
  CHECK(fs::file_size(folder / "outside/w") == 8);
  CHECK_FALSE(fs::exists(folder / "outside/new"));
}

TEST_CASE("a host without a folder for the job refuses to save") {
  TestJob job;
  const ValueId x = job.input("x", DType::f32, {2});
  const NodeId save =
      job.add_node("leat.Save", {x}, {{"path", std::string("w")}, {"names", Texts{"x"}}});
  CHECK(message_of(job.try_run({{x, Tensor(DType::f32, {2})}}, {}, {save}))
            .find("this host has no folder for files of the job") != std::string::npos);
}

TEST_CASE("a save needs a different name for each value") {
  for (const Texts& names : {Texts{"a"}, Texts{"a", "a"}, Texts{"a", ""}}) {
    TestJob job;
    const ValueId x = job.input("x", DType::f32, {2});
    job.add_node("leat.Save", {x, x}, {{"path", std::string("w")}, {"names", names}});
    CHECK_FALSE(validate(job.graph).ok());
  }
}

}  // namespace
}  // namespace leat
