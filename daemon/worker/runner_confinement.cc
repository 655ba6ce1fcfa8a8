#include "daemon/worker/runner_confinement.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/process/config_checks.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

// A runner has some threads besides those that compute, a driver for GPUs has more, and libraries
// may have as many again.
constexpr uint64_t kThreadsBeside = 512;

// The paths of the data, without stores and without the name that stands for all paths.
std::vector<std::string> data_of(const WorkerConfig& config) {
  std::vector<std::string> paths;
  for (const auto& [name, path] : config.datasets) {
    if (!is_store_path(path)) paths.push_back(path);
  }
  return paths;
}

Status require(const std::vector<LayerState>& layers) {
  for (const LayerState& layer : layers) {
    if (layer.active || !is_mandatory(layer.layer)) continue;
    return failed_precondition(cat("runner.confine: expected '", name_of(layer.layer),
                                   "' for runners, which it requires, received none: ", layer.how,
                                   "; 'leat doctor' tells of all layers, and best_effort does with "
                                   "those that there are"));
  }
  return {};
}

}  // namespace

bool is_for_runner(std::string_view name, bool reads_stores) {
  constexpr std::string_view kNames[] = {"PATH",
                                         "LANG",
                                         "LANGUAGE",
                                         "TZ",
                                         "LD_PRELOAD",
                                         "NVIDIA",
                                         "LD_LIBRARY_PATH",
                                         "GLIBC_TUNABLES",
                                         "LEAT_PLUGINS",
                                         "LEAT_FAILPOINTS",
                                         "LEAT_GPU_PLAIN"};
  constexpr std::string_view kFamilies[] = {"LC_",     "OMP_",    "GOMP_", "DNNL_",  "ONEDNN_",
                                            "CUDA_",   "NVIDIA_", "NCCL_", "CUDNN_", "CUBLAS",
                                            "MALLOC_", "ASAN_",   "TSAN_", "UBSAN_", "LSAN_"};
  constexpr std::string_view kOfStores[] = {"AWS_", "SSL_CERT_", "CURL_"};
  const auto is = [&](std::string_view each) { return name == each; };
  const auto begins = [&](std::string_view each) { return name.starts_with(each); };
  if (std::any_of(std::begin(kNames), std::end(kNames), is)) return true;
  if (std::any_of(std::begin(kFamilies), std::end(kFamilies), begins)) return true;
  if (!reads_stores) return false;
  const bool is_proxy = name.ends_with("_proxy") || name.ends_with("_PROXY");
  return is_proxy || std::any_of(std::begin(kOfStores), std::end(kOfStores), begins);
}

Result<std::unique_ptr<RunnerConfinement>> RunnerConfinement::open(const WorkerConfig& config,
                                                                   const std::string& state_runners,
                                                                   const Logger& log) {
  std::unique_ptr<RunnerConfinement> made(new RunnerConfinement());
  made->folder_ = state_runners;
  const Confine mode = config.runner.confine;
  if (mode == Confine::insecure_off) {
    log.warning("runners are not confined: runner.confine is 'insecure_off'");
    return made;
  }
  const bool required =
      mode == Confine::required || (mode == Confine::automatic && !is_on_loopback(config));
  const UserRange range{static_cast<uint32_t>(config.runner.users.first),
                        static_cast<uint32_t>(config.runner.users.count)};
  const ConfineAbilities abilities = find_abilities(range);
  auto layers = expected_layers(abilities, config.local_paths);
  LayerState& user = layers.front();
  if (user.active) {
    const Status taken = made->take_users(range, config.state_dir);
    if (!taken.ok()) user = {ConfineLayer::user, false, taken.message()};
  }
  if (required) LEAT_RETURN_IF_ERROR(require(layers));
  Confinement& base = made->base_;
  base.is_on = true;
  base.required = required;
  base.has_namespaces = abilities.namespaces.ok();
  base.no_namespaces = abilities.namespaces.message();
  base.reads_all = config.local_paths;
  base.data = data_of(config);
  const CertificatePaths& certificate = config.security.certificate;
  for (const std::string& file :
       {config.security.secret_file, certificate.certificate, certificate.key}) {
    if (!file.empty()) base.hidden.push_back(file);
  }
  base.core_dumps = config.runner.core_dumps;
  base.most_file_bytes = cpu::CpuDevice(0, 1).memory_bytes();
  base.no_user = user.how;
  base.rooms = state_runners;
  if (made->users_) base.rooms = std::filesystem::path(made->folder_).parent_path().string();
  log.info("runners are ", layers_text(layers));
  return made;
}

Status RunnerConfinement::take_users(UserRange range, const std::string& state_folder) {
  LEAT_ASSIGN_OR_RETURN(const std::string shared, shared_folder());
  LEAT_ASSIGN_OR_RETURN(rooms_, make_rooms(shared, state_folder));
  LEAT_ASSIGN_OR_RETURN(users_, RunnerUsers::open(range, shared));
  folder_ = rooms_.path;
  return {};
}

RunnerConfinement::~RunnerConfinement() {
  std::error_code ignored;
  if (rooms_.path.empty()) return;
  std::filesystem::remove(rooms_.path, ignored);
  std::filesystem::remove(rooms_.path + ".lock", ignored);
}

Result<ConfinedRunner> RunnerConfinement::take(const RunnerOrder& order, uint32_t threads,
                                               const std::string& directory) {
  ConfinedRunner runner;
  if (!base_.is_on) return runner;
  runner.confinement = base_;
  Confinement& own = runner.confinement;
  own.directory = directory;
  own.opens_gpus = order.gpus > 0;
  own.most_threads = kThreadsBeside + 4 * std::max(threads, order.threads);
  if (!users_) return runner;
  LEAT_ASSIGN_OR_RETURN(runner.user, users_->take());
  own.user = runner.user.number();
  return runner;
}

}  // namespace leat
