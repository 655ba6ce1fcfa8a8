#include "ops/plugins.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "devices/base/text.h"
#include "ops/catalogue.h"

namespace leat {
namespace {

// The folder of the library that has this function.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || !info.dli_fname) return ".";
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

std::string path_of_plugin(const std::string& name) {
  const char* named = std::getenv("LEAT_PLUGINS");
  return cat(named && *named ? named : own_folder().c_str(), "/libleat_", name, ".so");
}

}  // namespace

bool has_device_plugin(const std::string& name) {
  std::error_code error;
  return std::filesystem::exists(path_of_plugin(name), error);
}

Catalogue catalogue_with_gpus() {
  Catalogue catalogue = standard_catalogue();
  if (const auto plugin = load_device_plugin(kGpuPlugin); plugin.ok())
    (*plugin)->add_kernels(catalogue);
  return catalogue;
}

Result<std::vector<std::unique_ptr<Device>>> open_gpus(size_t count, Catalogue& catalogue) {
  LEAT_ASSIGN_OR_RETURN(const DevicePlugin* plugin, load_device_plugin(kGpuPlugin));
  std::vector<std::unique_ptr<Device>> gpus;
  while (gpus.size() < count) {
    LEAT_ASSIGN_OR_RETURN(std::unique_ptr<Device> gpu, plugin->open(0));
    gpus.push_back(std::move(gpu));
  }
  plugin->add_kernels(catalogue);
  return gpus;
}

Result<const DevicePlugin*> load_device_plugin(const std::string& name) {
  const std::string path = path_of_plugin(name);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return unavailable(cat("plugin '", name, "': ", ::dlerror()));
  const auto entry = reinterpret_cast<const DevicePlugin* (*)()>(::dlsym(library, kPluginEntry));
  if (!entry) {
    return failed_precondition(cat("plugin '", name, "': expected the function ", kPluginEntry,
                                   " in ", path, ", received a library without it"));
  }
  const DevicePlugin* plugin = entry();
  if (std::strcmp(plugin->build, kPluginBuild) != 0) {
    return failed_precondition(cat("plugin '", name, "' in ", path, ": expected one of the build '",
                                   kPluginBuild, "', received one of '", plugin->build, "'"));
  }
  return plugin;
}

}  // namespace leat
