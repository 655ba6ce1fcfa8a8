// The contract of a plugin that brings a kind of device: see ops/plugins.h, which loads it.
#pragma once

#include <memory>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "ops/graph/op.h"

namespace leat {

// A plugin's gifts. They are constant, and live as long as the process.
struct DevicePlugin {
  const char* build;  // of the code it was compiled with: kPluginBuild of the same build
  const char* kind;   // of its devices: "cuda"
  // The devices of the machine that this process may use; unavailable, with the reason, if the
  // driver does not answer. Begins nothing on them.
  Result<int> (*count)();
  // Opens a device of this process, with the number that its name gets. unavailable if there is
  // none.
  Result<std::unique_ptr<Device>> (*open)(int index);
  // Adds its kernels to the standard ops. Called once for each catalogue, before it is used.
  void (*add_kernels)(Catalogue& catalogue);
  // The architectures of GPUs that it has code for, as runs_on() reads them
  // (devices/base/cuda_architectures.h).
  const char* architectures = "";
};

// The plugin's one function of C: `extern "C" const DevicePlugin* leat_device_plugin()`.
inline constexpr const char* kPluginEntry = "leat_device_plugin";

// The version, compiler and options that a plugin must have in common with the program that loads
// it: their classes are the same then. The build defines it for the files of plugins.
#ifdef LEAT_PLUGIN_BUILD
inline constexpr const char* kPluginBuild = LEAT_PLUGIN_BUILD;
#endif

}  // namespace leat
