// The plugin for GPUs as a master needs it: it places the nodes of jobs for GPUs, so it has to know
// for which there are kernels. It needs no GPU.
#pragma once

#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"
#include "ops/plugins.h"

namespace leat {

// The error of load_device_plugin() for what `asked` has asked for. Threads: any.
inline Status check_gpu_plugin(std::string_view asked) {
  const Status loaded = load_device_plugin(kGpuPlugin).status();
  return loaded.while_doing(cat(asked, ": expected the plugin on the master's machine, too"));
}

}  // namespace leat
