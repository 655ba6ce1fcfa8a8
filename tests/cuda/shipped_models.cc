#include "tests/cuda/shipped_models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <type_traits>
#include <utility>

#include "daemon/hosts/described_device.h"
#include "daemon/training/trainer.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "scheduler/graph/device_name.h"
#include "tests/cuda/model_graphs.h"

namespace leat::testing {
namespace {

using Columns = std::vector<DataColumn>;

DataColumn image(std::vector<int64_t> row) { return {"image", DType::u8, std::move(row)}; }
DataColumn ids(const char* name, std::vector<int64_t> row = {}) {
  return {name, DType::i64, std::move(row)};
}

// The data of the jobs in configs/jobs.
const std::map<std::string, Columns>& columns_of_jobs() {
  static const std::map<std::string, Columns> columns = {
      {"char_gpt", {ids("tokens", {64}), ids("labels", {64})}},
      {"char_lstm", {ids("tokens", {64}), ids("labels", {64})}},
      {"clicks_dlrm",
       {ids("user"), ids("item"), {"dense", DType::f32, {2}}, {"click", DType::f32}}},
      {"dates_seq2seq", {ids("source", {20}), ids("target", {10}), ids("labels", {10})}},
      {"fashion_autoencoder", {image({1, 28, 28})}},
      {"fashion_gan", {image({1, 28, 28})}},
      {"fashion_mnist_cnn", {image({1, 28, 28}), ids("labels")}},
      {"fashion_mnist_cnn_bn", {image({1, 28, 28}), ids("labels")}},
      {"fashion_mnist_mlp", {image({1, 28, 28}), ids("labels")}},
      {"images_resnet18", {image({3, 32, 32}), ids("labels")}},
      {"shapes_unet", {image({1, 32, 32}), ids("labels", {32, 32})}},
      {"table_mlp", {{"numbers", DType::f32, {4}}, ids("region"), ids("plan"), ids("labels")}},
      {"text_classifier", {ids("text", {256}), ids("labels")}}};
  return columns;
}

// The networks that have no job file.
struct Network {
  std::string graph;
  Columns columns;
  int64_t batch;
};
std::map<std::string, Network> networks() {
  const GptSize gpt;
  return {
      {"gpt2", {gpt_graph(gpt), {ids("tokens", {gpt.context}), ids("labels", {gpt.context})}, 8}},
      {"mobilenet_v2", {mobilenet_graph(), {image({3, 224, 224}), ids("labels")}, 64}},
      {"resnet50", {resnet_graph({}), {image({3, 224, 224}), ids("labels")}, 64}}};
}

}  // namespace

std::string configs_folder() {
  const char* named = std::getenv("LEAT_CONFIGS");
  return named && *named ? named : LEAT_SOURCE_DIR "/configs";
}

std::string write_data(const std::string& folder, const Columns& columns, int64_t rows,
                       bool validates) {
  std::string files;
  for (const DataColumn& column : columns) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), column.row.begin(), column.row.end());
    Tensor values(column.dtype, Shape(std::span<const int64_t>(sizes)));
    uint32_t noise = 12345;
    dispatch_dtype(column.dtype, [&](auto element) {
      using T = decltype(element);
      for (T& each : values.span<T>()) {
        noise = noise * 1664525 + 1013904223;
        if constexpr (std::is_arithmetic_v<T>) each = static_cast<T>(noise >> 31);
      }
    });
    const std::string file = cat(column.name, ".npy");
    if (!write_npy(real_files(), cat(folder, "/", file), values).ok()) return "";
    files += cat(files.empty() ? "" : ", ", column.name, ": ", file);
  }
  const std::string set = cat("{format: npy, files: {", files, "}}");
  return cat("{root: ", folder, ", train: ", set, validates ? cat(", validation: ", set) : "", "}");
}

std::vector<std::string> ShippedModels::names() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(configs_folder() + "/jobs"))
    names.push_back(file.path().stem().string());
  for (const auto& [name, network] : networks()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<ShippedModels::Prepared> ShippedModels::prepare(const std::string& name) const {
  const std::string folder = directory_ / name;
  std::filesystem::create_directories(folder);
  const std::string path = cat(configs_folder(), "/jobs/", name, ".yaml");
  if (const auto at = columns_of_jobs().find(name); at != columns_of_jobs().end()) {
    LEAT_ASSIGN_OR_RETURN(const Job as_shipped, load_job(path));
    const bool validates = as_shipped.data.validation.has_value();
    const std::string data =
        write_data(folder, at->second, as_shipped.global_batch_size, validates);
    return Prepared{path, {cat("data=", data), "num_workers=1", "shards=1"}};
  }
  const auto known = networks();
  const auto of = known.find(name);
  if (of == known.end()) {
    return invalid_argument(
        cat("the model '", name,
            "': expected it in tests/cuda/shipped_models.cc, with the data that its "
            "job reads, found nothing"));
  }
  const Network& network = of->second;
  std::ofstream(folder + "/model.onnxtxt") << network.graph;
  std::ofstream(folder + "/job.yaml")
      << "version: 1\nname: " << name << "\nmodel: {graph: model.onnxtxt}\ndata: "
      << write_data(folder, network.columns, network.batch, false)
      << "\nloss: cross_entropy\noptimizer: {name: sgd, learning_rate: 0.01, "
         "momentum: 0.9}\nglobal_batch_size: "
      << network.batch << "\nepochs: 1\nshards: 1\n";
  return Prepared{folder + "/job.yaml", {}};
}

Result<Job> ShippedModels::job(const std::string& name, const std::vector<std::string>& set) {
  auto at = prepared_.find(name);
  if (at == prepared_.end()) {
    LEAT_ASSIGN_OR_RETURN(Prepared prepared, prepare(name));
    at = prepared_.emplace(name, std::move(prepared)).first;
  }
  JobOverrides overrides;
  overrides.set = at->second.set;
  overrides.set.insert(overrides.set.end(), set.begin(), set.end());
  return load_job(at->second.path, overrides);
}

Result<std::vector<GpuPart>> gpu_parts(const Catalogue& catalogue, const Job& job) {
  TrainOptions options;
  options.threads = 1;
  options.accelerators = [] {
    std::vector<std::unique_ptr<Device>> gpu;
    gpu.push_back(std::make_unique<DescribedDevice>("cuda", "gpu:0"));
    return gpu;
  };
  LEAT_ASSIGN_OR_RETURN(const auto trainer,
                        Trainer::create(catalogue, real_files(), job, std::move(options)));
  LEAT_ASSIGN_OR_RETURN(const auto plans, trainer->plan_training());
  std::vector<GpuPart> parts;
  for (const auto& plan : plans) {
    for (const Partition& partition : plan->partitions) {
      if (matches_device("*/gpu", partition.device)) parts.push_back({plan, &partition});
    }
  }
  return parts;
}

}  // namespace leat::testing
