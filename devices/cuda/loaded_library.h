// A library that is found at run time, so that a machine may lack it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "devices/base/status.h"

namespace leat::cuda {

// It is never unloaded: those of NVIDIA cannot be unloaded safely. Threads: one at a time.
class LoadedLibrary {
 public:
  // The first of `paths` that can be loaded. unavailable if there is none, with the first reason.
  static Result<LoadedLibrary> open(const std::vector<std::string>& paths);

  // Sets `function` to the library's function of that name, or to null.
  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(address(name));
  }
  // unavailable if a function was not found.
  Status status() const;

 private:
  LoadedLibrary(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {}
  void* address(const char* name);

  std::string path_;
  void* handle_;
  std::string missing_;  // the first function that was not found
};

}  // namespace leat::cuda
