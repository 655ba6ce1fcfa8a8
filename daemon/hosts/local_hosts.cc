#include "daemon/hosts/local_hosts.h"

#include "scheduler/runtime/device_host.h"

namespace leat {
namespace {

// The devices of a host and the handle that drives them.
struct OwnedHost {
  OwnedHost(int task, int threads, Files& files, const MakeAccelerators& accelerators,
            std::shared_ptr<RecordedSteps> recorded)
      : devices(task, threads,
                accelerators ? accelerators() : std::vector<std::unique_ptr<Device>>()),
        handle(devices, files, std::move(recorded)) {}
  DeviceHost devices;
  LocalHost handle;
};

}  // namespace

std::unique_ptr<HostGroup> make_local_hosts(int hosts, int threads, Files& files,
                                            const MakeAccelerators& accelerators,
                                            std::shared_ptr<RecordedSteps> recorded) {
  std::vector<std::shared_ptr<HostHandle>> handles;
  for (int task = 0; task < hosts; ++task) {
    const auto owned = std::make_shared<OwnedHost>(task, threads, files, accelerators, recorded);
    // The pointer is to the handle, and keeps the devices alive with it.
    handles.emplace_back(owned, &owned->handle);
  }
  return std::make_unique<HostGroup>(std::move(handles));
}

}  // namespace leat
