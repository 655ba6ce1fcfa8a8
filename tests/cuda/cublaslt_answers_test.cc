// The answers of cuBLASLt in a file, and the ways of kernels that follow from them. The only
// library that these tests have is the fake: no file of a real one exists yet.
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "devices/base/text.h"
#include "devices/core/kernel_ways.h"
#include "scheduler/runtime/kernel_notes.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/cuda/shipped_models.h"
#include "tests/cuda_emulation/fake_cublaslt.h"
#include "tests/daemon/leat_process.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;

const std::string kRecordedOfFake = cat(LEAT_SOURCE_DIR, "/tests/cuda/data/fake_cublaslt.jsonl");

std::vector<nlohmann::json> lines_of_file(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

void write_lines(const std::string& path, const std::vector<nlohmann::json>& lines) {
  std::ofstream file(path);
  for (const auto& line : lines) file << line.dump() << "\n";
}

// Records the answers for its life.
class Recorded {
 public:
  explicit Recorded(const std::string& path) { ::setenv("LEAT_CUBLASLT_ANSWERS", path.c_str(), 1); }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { ::unsetenv("LEAT_CUBLASLT_ANSWERS"); }
};

// The products of a shipped MLP's training step on a GPU.
class PlannedProducts {
 public:
  PlannedProducts()
      : parts_(must(
            testing::gpu_parts(testing::gpu_catalogue(), must(models_.job("fashion_mnist_mlp"))))) {
    testing::prepare_gpu();
    device_ = must(testing::open_gpu());
    for (const auto& part : parts_) {
      for (const PlanInstruction& each : part.partition->instructions) {
        if (each.kind != PlanInstruction::Kind::kernel || !is_product(each.op->full_name()))
          continue;
        kernels_.push_back(
            must(make_instruction_kernel(*part.partition, each, "cuda", device_.get(), nullptr)));
      }
    }
  }
  uint64_t by(std::string_view way) const { return device_->ways()->count("products", way); }
  uint64_t workspaces() const {
    uint64_t bytes = 0;
    for (const auto& kernel : kernels_) bytes += kernel->workspace_bytes();
    return bytes;
  }

 private:
  static bool is_product(const std::string& op) {
    return op == "Gemm" || op == "MatMul" || op == "leat.MatMul";
  }

  testing::ShippedModels models_;
  std::vector<testing::GpuPart> parts_;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

}  // namespace

TEST_CASE("the answers of cuBLASLt are recorded, a line for each product") {
  const TemporaryDirectory folder;
  {
    const Recorded recorded(folder / "answers");
    const PlannedProducts products;
    CHECK(products.by("cuBLASLt") > 0);
    CHECK(products.by("Leat") == 0);
  }
  const auto lines = lines_of_file(folder / "answers");
  REQUIRE(lines.size() > 1);
  CHECK_THAT(lines[0].value("gpu", ""), Catch::StartsWith("Emulated GPU"));
  CHECK(lines[0].value("library", "") == "cuBLASLt 13.1.0");
  // The file in the tree was made so. If the form has changed, these lines are the new one.
  std::ostringstream text;
  text << std::ifstream(folder / "answers").rdbuf();
  INFO(text.str());
  CHECK(lines == lines_of_file(kRecordedOfFake));
}

TEST_CASE("a product that cuBLASLt cannot even describe is recorded with the library's status") {
  const TemporaryDirectory folder;
  constexpr int64_t kRefused = 784;
  fake_cublaslt::refuse_layouts(kRefused);
  {
    const Recorded recorded(folder / "answers");
    const PlannedProducts products;
    CHECK(products.by("Leat") > 0);
  }
  fake_cublaslt::refuse_layouts(0);
  int refused = 0;
  for (const auto& line : lines_of_file(folder / "answers")) {
    if (line.value("status", 0) == 0) continue;
    ++refused;
    CHECK(line.at("status") == 3);  // CUBLAS_STATUS_ALLOC_FAILED
    CHECK(line.at("found") == 0);
    CHECK(line.at("accepted") == false);
    CHECK((line.at("k") == kRefused || line.at("n") == kRefused));
  }
  CHECK(refused > 0);
}

TEST_CASE("the fake cuBLASLt answers as a recorded library, in workspaces and refusals") {
  const TemporaryDirectory folder;
  auto lines = lines_of_file(kRecordedOfFake);
  REQUIRE(lines.size() > 2);
  const auto replayed = [&] {
    write_lines(folder / "answers", lines);
    REQUIRE(fake_cublaslt::replay(folder / "answers") == static_cast<int>(lines.size()) - 1);
    const uint64_t before = fake_cublaslt::replayed();
    auto products = std::make_unique<PlannedProducts>();
    CHECK(fake_cublaslt::replayed() > before);
    CHECK(fake_cublaslt::replay("") == 0);
    return products;
  };
  const auto as_recorded = replayed();
  CHECK(as_recorded->by("Leat") == 0);
  constexpr uint64_t kWanted = 1 << 20;
  lines[1]["workspace"] = kWanted + lines[1].at("workspace").get<uint64_t>();
  CHECK(replayed()->workspaces() == as_recorded->workspaces() + kWanted);
  // The library found an algorithm that it would not run after all.
  lines[1]["accepted"] = false;
  CHECK(replayed()->by("Leat") == 1);
  lines[1]["accepted"] = true;
  CHECK(replayed()->by("Leat") == 0);
  lines[1]["status"] = 15;  // CUBLAS_STATUS_NOT_SUPPORTED
  lines[1]["found"] = 0;
  const auto refused = replayed();
  CHECK(refused->by("Leat") == 1);
  CHECK(refused->by("cuBLASLt") == as_recorded->by("cuBLASLt") - 1);
  CHECK(fake_cublaslt::replay(folder / "none") == -1);
  CHECK(fake_cublaslt::replay("") == 0);
}

TEST_CASE("the fake cuBLASLt refuses malformed files of answers, and keeps what it has") {
  const TemporaryDirectory folder;
  const auto whole = lines_of_file(kRecordedOfFake);
  REQUIRE(fake_cublaslt::replay(kRecordedOfFake) == static_cast<int>(whole.size()) - 1);
  const auto refused = [&](const auto& change) {
    auto lines = whole;
    change(lines.back());
    write_lines(folder / "answers", lines);
    return fake_cublaslt::replay(folder / "answers") == -1;
  };
  for (const char* name :
       {"m", "status", "found", "workspace", "accepted", "trans_a", "stride_d"}) {
    INFO(name);
    CHECK(refused([&](auto& line) { line.erase(name); }));
    CHECK(refused([&](auto& line) { line[name] = "1"; }));
    CHECK(refused([&](auto& line) { line[name] = 1.5; }));
  }
  CHECK(refused([](auto& line) { line = 7; }));
  std::ofstream(folder / "answers", std::ios::app) << R"({"type": 0, "m")";
  CHECK(fake_cublaslt::replay(folder / "answers") == -1);
  const uint64_t before = fake_cublaslt::replayed();
  CHECK(PlannedProducts().by("Leat") == 0);
  CHECK(fake_cublaslt::replayed() > before);
  CHECK(fake_cublaslt::replay("") == 0);
}

TEST_CASE("leat train counts the ways of a GPU's kernels, those of a library that refuses, too") {
  const GpuJob gpu(testing::kMlp);
  Silent watch;
  gpu.small.train(gpu.small.job({"steps=12"}), "cpu", watch);
  const std::string answers = gpu.small.path("answers");
  std::string err;
  const auto train = [&](const std::string& output, const std::string& variable) {
    const Finished done = run_program(
        leat_binary(), gpu.small.path(),
        {"train", "cpu/job.yaml", "--gpu", "--workers", "1", "--output", output, "--json"},
        {cat("LEAT_PLUGINS=", LEAT_EMULATED_PLUGINS), variable});
    INFO(done.err);
    REQUIRE(done.exit_code == 0);
    err = done.err;
    const std::string last = done.out.substr(done.out.rfind('\n', done.out.size() - 2) + 1);
    const std::string ways = nlohmann::json::parse(last).value("gpu_kernels", "");
    CHECK_THAT(done.err, Catch::Contains(cat("GPU kernels: ", ways)));
    return ways;
  };
  const std::string all = train("all", cat("LEAT_CUBLASLT_ANSWERS=", answers));
  CHECK_THAT(all, Catch::StartsWith("products: "));
  CHECK_THAT(all, Catch::Contains(" by cuBLASLt; rows of kernels: "));
  CHECK_THAT(all, Catch::EndsWith(" by graphs"));
  CHECK_THAT(all, !Catch::Contains("Leat"));
  auto lines = lines_of_file(answers);
  for (auto& line : lines) {
    if (line.contains("m")) line["found"] = 0;
  }
  write_lines(answers, lines);
  const std::string none = train("none", cat("LEAT_FAKE_CUBLASLT_ANSWERS=", answers));
  CHECK_THAT(none, Catch::StartsWith("products: "));
  CHECK_THAT(none, Catch::Contains(" by Leat; rows of kernels: "));
  CHECK_THAT(none, !Catch::Contains("cuBLASLt"));
  // A recording that ends does not end the training, and says so once.
  CHECK(train("full", "LEAT_CUBLASLT_ANSWERS=/dev/full") == all);
  const std::string ended = "LEAT_CUBLASLT_ANSWERS: No space left on device: no more answers";
  REQUIRE_THAT(err, Catch::Contains(ended));
  CHECK(err.find(ended, err.find(ended) + 1) == std::string::npos);
  CHECK_THAT(train("launches", "LEAT_GPU_PLAIN=graphs"), Catch::EndsWith(" by single launches"));
}

}  // namespace leat
