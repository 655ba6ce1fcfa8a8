// Kinds of devices that this build can do without: a library beside the others brings the device
// and the kernels for it. Nothing else links CUDA, so that a machine without it needs none of its
// parts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/device.h"
#include "ops/graph/device_plugin.h"

namespace leat {

// Loads libleat_<name>.so from the folder that LEAT_PLUGINS names, or else from the folder of this
// build's own libraries. It stays loaded. unavailable, with the loader's reason, if it is not there
// or needs a library that is not; failed_precondition if it is of another build. Threads: any.
Result<const DevicePlugin*> load_device_plugin(const std::string& name);
// True if the library's file is where load_device_plugin() looks for it.
bool has_device_plugin(const std::string& name);

// The plugin for GPUs.
inline constexpr const char* kGpuPlugin = "cuda";

// The standard ops, with the kernels of the plugin for GPUs if it can be loaded: for a process that
// makes plans for devices that it does not have.
Catalogue catalogue_with_gpus();
// Opens the GPU of this process `count` times, each as "gpu:0" of another host, and adds the
// kernels to the catalogue. The errors of load_device_plugin() and of DevicePlugin::open().
Result<std::vector<std::unique_ptr<Device>>> open_gpus(size_t count, Catalogue& catalogue);

}  // namespace leat
