#include "devices/cuda/loaded_library.h"

#include <dlfcn.h>

#include "devices/base/text.h"

namespace leat::cuda {

Result<LoadedLibrary> LoadedLibrary::open(const std::vector<std::string>& paths) {
  std::string error;
  for (const std::string& path : paths) {
    if (void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
      return LoadedLibrary(path, handle);
    const char* why = ::dlerror();
    if (error.empty() && why) error = why;
  }
  return unavailable(error);
}

void* LoadedLibrary::address(const char* name) {
  void* found = ::dlsym(handle_, name);
  if (!found && missing_.empty()) missing_ = name;
  return found;
}

Status LoadedLibrary::status() const {
  if (missing_.empty()) return {};
  return unavailable(
      cat(path_, ": expected the function ", missing_, ", received a library without it"));
}

}  // namespace leat::cuda
