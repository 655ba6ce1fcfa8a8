#include "ops/plugins.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "devices/base/text.h"

namespace leat {
namespace {

// The folder of the library that has this function.
std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || !info.dli_fname) return ".";
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

}  // namespace

Result<const DevicePlugin*> load_device_plugin(const std::string& name) {
  const char* named = std::getenv("LEAT_PLUGINS");
  const std::string path =
      cat(named && *named ? named : own_folder().c_str(), "/libleat_", name, ".so");
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
