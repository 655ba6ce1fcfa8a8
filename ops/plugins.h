// Kinds of devices that this build can do without: a library beside the others brings the device
// and the kernels for it. Nothing else links CUDA, so that a machine without it needs none of its
// parts.
#pragma once

#include <string>

#include "devices/base/status.h"
#include "ops/graph/device_plugin.h"

namespace leat {

// Loads libleat_<name>.so from the folder that LEAT_PLUGINS names, or else from the folder of this
// build's own libraries. It stays loaded. unavailable, with the loader's reason, if it is not there
// or needs a library that is not; failed_precondition if it is of another build. Threads: any.
Result<const DevicePlugin*> load_device_plugin(const std::string& name);

}  // namespace leat
