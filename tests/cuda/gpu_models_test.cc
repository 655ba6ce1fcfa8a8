// The shipped models on a GPU: how their products and convolutions are computed, and trainings of
// two networks of full size, ResNet-50 and GPT-2. On an emulated GPU the networks are small. See
// deploy/gpu-check.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "daemon/hosts/local_hosts.h"
#include "devices/base/text.h"
#include "devices/core/kernel_ways.h"
#include "scheduler/runtime/kernel_notes.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/cuda/model_graphs.h"
#include "tests/cuda/shipped_models.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuTraining;
using testing::PlainWay;
using testing::ShippedModels;

bool uses_library(const std::string& op) {
  for (const char* each : {"MatMul", "leat.MatMul", "Gemm", "Attention", "leat.AttentionGrad",
                           "Conv", "ConvTranspose", "leat.ConvGradInput", "leat.ConvGradWeights"}) {
    if (op == each) return true;
  }
  return false;
}

// The part of the counts that is about one subject; "" if there is none.
std::string part_of(const std::string& ways, const std::string& subject) {
  const size_t begin = ways.find(subject + ": ");
  return begin == std::string::npos ? "" : ways.substr(begin, ways.find(';', begin) - begin);
}

// Makes the kernels of a model's products and convolutions, and returns how they compute.
std::string make_kernels(const Job& job) {
  const auto parts = must(testing::gpu_parts(testing::gpu_catalogue(), job));
  REQUIRE(!parts.empty());
  testing::prepare_gpu();
  const auto device = must(testing::open_gpu());
  for (const auto& part : parts) {
    for (const PlanInstruction& instruction : part.partition->instructions) {
      if (instruction.kind != PlanInstruction::Kind::kernel ||
          !uses_library(instruction.op->full_name()))
        continue;
      INFO(instruction.name);
      must(make_instruction_kernel(*part.partition, instruction, "cuda", device.get(), nullptr));
    }
  }
  return device->ways()->text();
}

// One network of full size, and a small one like it for an emulated GPU.
struct FullModel {
  const char* name;
  std::string graph;
  std::vector<testing::DataColumn> columns;
  int64_t batch, few;  // rows of a step, and of one that the CPU computes, too
};

class FullJob {
 public:
  explicit FullJob(FullModel model) : model_(std::move(model)) {
    std::ofstream(directory_ / "model.onnxtxt") << model_.graph;
    data_ = testing::write_data(directory_.path(), model_.columns, 2 * model_.batch, false);
    REQUIRE(!data_.empty());
  }

  Job job(int64_t batch, int64_t steps, const char* precision) const {
    return must(parse_job(
        cat("version: 1\nname: ", model_.name, "\nmodel: {graph: model.onnxtxt}\ndata: ", data_,
            "\nloss: cross_entropy\noptimizer: {name: sgd, learning_rate: 0.01, momentum: 0.9}\n",
            "global_batch_size: ", batch, "\nsteps: ", steps, "\nshards: 1\nprecision: ", precision,
            "\ncheckpoint: {every_steps: 1000}\n"),
        directory_ / "job.yaml"));
  }

  std::vector<double> on_cpu(const Job& job) const {
    Silent watch;
    const auto trainer = must(Trainer::create(testing::gpu_catalogue(), real_files(), job,
                                              {.folder = directory_ / "cpu"}));
    must(trainer->run(watch, [] { return false; }));
    return watch.losses;
  }

  // Trains until so many steps are done, or to the end if that is 0; `resume`: from there.
  GpuTraining on_gpu(const Job& job, const std::string& folder, size_t until = 0,
                     bool resume = false) {
    testing::prepare_gpu();
    const auto begun = std::chrono::steady_clock::now();
    const auto trainer =
        must(Trainer::create(testing::gpu_catalogue(), real_files(), job,
                             {.folder = directory_ / folder, .resume = resume, .threads = 1},
                             make_local_hosts(1, 1, real_files(), [this] { return open(); })));
    Silent watch;
    GpuTraining training;
    training.outcome =
        must(trainer->run(watch, [&] { return until > 0 && watch.losses.size() >= until; }));
    training.losses = watch.losses;
    training.warnings = watch.warnings;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    std::cout << R"({"training": ")" << model_.name << R"(", "folder": ")" << folder
              << R"(", "steps": )" << watch.losses.size() << R"(, "seconds": )" << took.count()
              << R"(, "weights_sha256": ")" << training.outcome.weights_sha256
              << R"(", "kernels": ")" << (ways_ ? ways_->text() : "") << "\"}" << std::endl;
    // The checkpoints of GPT-2 are large.
    if (until == 0) std::filesystem::remove_all(directory_ / folder);
    return training;
  }

  const FullModel& model() const { return model_; }
  const KernelWays& ways() const { return *ways_; }

 private:
  std::vector<std::unique_ptr<Device>> open() {
    std::vector<std::unique_ptr<Device>> devices;
    devices.push_back(must(testing::open_gpu()));
    ways_ = devices.back()->ways();
    return devices;
  }

  const FullModel model_;
  TemporaryDirectory directory_;
  std::string data_;
  std::shared_ptr<const KernelWays> ways_;
};

void check_full(FullModel of) {
  FullJob gpu(std::move(of));
  constexpr int64_t kFewSteps = 3, kSteps = 6;
  constexpr size_t kStopped = 3;
  constexpr double kNearFirst = 1e-4, kNearLater = 2e-2;
  const FullModel& model = gpu.model();
  {
    const Job few = gpu.job(model.few, kFewSteps, "float32");
    const std::vector<double> expected = gpu.on_cpu(few);
    const std::vector<double> losses = gpu.on_gpu(few, "few").losses;
    REQUIRE(losses.size() == expected.size());
    // A few rows and a large step let small differences grow.
    for (size_t i = 0; i < losses.size(); ++i) {
      INFO("step " << i);
      CHECK(losses[i] == Approx(expected[i]).epsilon(i == 0 ? kNearFirst : kNearLater));
    }
  }
  std::vector<const char*> precisions{"float32"};
  // cuda_hashes_test.cc has trainings in 16 bits on an emulated GPU.
  if (!testing::gpu_is_emulated()) precisions.push_back("bfloat16");
  for (const char* precision : precisions) {
    INFO(precision);
    const Job job = gpu.job(model.batch, kSteps, precision);
    const auto folder = [&](const char* name) { return cat(name, "-", precision); };
    const GpuTraining whole = gpu.on_gpu(job, folder("whole"));
    CHECK(std::all_of(whole.losses.begin(), whole.losses.end(),
                      [](double loss) { return std::isfinite(loss); }));
    CHECK(gpu.ways().count("rows of kernels", "graphs") > 0);
    const GpuTraining again = gpu.on_gpu(job, folder("again"));
    CHECK(again.outcome.weights_sha256 == whole.outcome.weights_sha256);
    CHECK(again.losses == whole.losses);
    {
      const PlainWay way("graphs");
      CHECK(gpu.on_gpu(job, folder("launches")).outcome.weights_sha256 ==
            whole.outcome.weights_sha256);
      CHECK(gpu.ways().count("rows of kernels", "graphs") == 0);
    }
    CHECK(gpu.on_gpu(job, folder("parts"), kStopped).outcome.interrupted);
    CHECK(gpu.on_gpu(job, folder("parts"), 0, true).outcome.weights_sha256 ==
          whole.outcome.weights_sha256);
  }
}

FullModel full_resnet() {
  const auto columns = [](int64_t image) {
    return std::vector<testing::DataColumn>{{"image", DType::u8, {3, image, image}},
                                            {"labels", DType::i64}};
  };
  if (testing::gpu_is_emulated())
    return {"resnet", testing::resnet_graph({16, 10, 4, {1, 1}}), columns(16), 4, 4};
  return {"resnet50", testing::resnet_graph({}), columns(224), 64, 4};
}

FullModel full_gpt() {
  const bool small = testing::gpu_is_emulated();
  const testing::GptSize size = small ? testing::GptSize{32, 16, 16, 1, 2} : testing::GptSize{};
  return {small ? "gpt" : "gpt2",
          testing::gpt_graph(size),
          {{"tokens", DType::i64, {size.context}}, {"labels", DType::i64, {size.context}}},
          small ? 2 : 8,
          1};
}

}  // namespace

// With LEAT_CUBLASLT_ANSWERS the library's answers are in that file.
TEST_CASE("the kernels of the shipped models take the ways that the GPU's libraries allow") {
  ShippedModels models;
  const bool emulated = testing::gpu_is_emulated();
  std::vector<const char*> settings{"precision=bfloat16", "matmul_precision=tf32"};
  // An emulated GPU has sanitizers, with which a plan takes long. These have no other kernels
  // there.
  if (!emulated) settings.insert(settings.end(), {"precision=float32", "precision=float16"});
  for (const std::string& name : ShippedModels::names()) {
    for (const char* setting : settings) {
      INFO(name << " " << setting);
      const auto job = models.job(name, {setting});
      REQUIRE(job.status().message() == "");
      const std::string ways = make_kernels(*job);
      std::cout << R"({"model": ")" << name << R"(", "set": ")" << setting << R"(", "kernels": ")"
                << ways << "\"}" << std::endl;
      CHECK_FALSE(ways.empty());
      // The fake refuses none of them; table_mlp has a product of one column.
      if (emulated) CHECK_THAT(part_of(ways, "products"), !Catch::Contains("by Leat"));
    }
  }
}

TEST_CASE("ResNet-50 trains on the GPU to the same weights each time, by graphs and in parts") {
  check_full(full_resnet());
}

TEST_CASE("GPT-2 trains on the GPU to the same weights each time, by graphs and in parts") {
  check_full(full_gpt());
}

}  // namespace leat
