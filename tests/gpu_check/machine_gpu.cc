// The GPU of the machine, by the plugin beside this program's libraries: see deploy/gpu-check.
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "ops/catalogue.h"
#include "ops/plugins.h"
#include "tests/cuda/gpu_under_test.h"

namespace leat::testing {
namespace {

const DevicePlugin& plugin() {
  static const DevicePlugin* loaded = [] {
    const auto found = load_device_plugin("cuda");
    if (!found.ok()) {
      std::cerr << "gpu_check: " << found.status().message() << "\n";
      std::exit(2);
    }
    return *found;
  }();
  return *loaded;
}

}  // namespace

// A plugin may have an emulated GPU in it, by which this program is tested itself.
bool gpu_is_emulated() {
  static const bool emulated = [] {
    const auto device = plugin().open(0);
    return device.ok() && (*device)->description().starts_with("Emulated GPU");
  }();
  return emulated;
}

const Catalogue& gpu_catalogue() {
  static const Catalogue catalogue = [] {
    Catalogue all = standard_catalogue();
    plugin().add_kernels(all);
    return all;
  }();
  return catalogue;
}

Result<std::unique_ptr<Device>> open_gpu() { return plugin().open(0); }

void prepare_gpu(uint64_t, bool) {}

}  // namespace leat::testing
