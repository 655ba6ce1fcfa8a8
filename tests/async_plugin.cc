// A plugin whose device needs no GPU: what runs with it runs the same code as with one, from the
// worker that looks for GPUs to the runner that computes on one.
//
// LEAT_TEST_GPUS is how many there are: "2"; "none" has the driver find none, "silent" has it not
// answer. If LEAT_TEST_GPU_FAILS names a file, the next runner that opens a GPU removes the file,
// and the GPU fails after some work.
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "devices/base/text.h"
#include "ops/graph/device_plugin.h"
#include "tests/async_device.h"

namespace leat::testing {
namespace {

Result<int> count() {
  const char* value = std::getenv("LEAT_TEST_GPUS");
  const std::string wanted = value ? value : "1";
  if (wanted == "none") return unavailable("expected a GPU, received none");
  if (wanted == "silent") ::poll(nullptr, 0, -1);
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return visible ? 1 : std::atoi(wanted.c_str());
}

Result<std::unique_ptr<Device>> open(int index) {
  AsyncDeviceOptions options;
  options.index = index;
  options.most_turns_given_way = 10;
  const char* fails = std::getenv("LEAT_TEST_GPU_FAILS");
  if (fails && std::remove(fails) == 0) options.failing_work = 1000;
  return std::unique_ptr<Device>(std::make_unique<AsyncDevice>(options));
}

void add_kernels(Catalogue& catalogue) { add_async_kernels(catalogue); }

constexpr DevicePlugin kPlugin = {kPluginBuild, "async", count, open, add_kernels, "90-real"};

}  // namespace
}  // namespace leat::testing

extern "C" __attribute__((visibility("default"))) const leat::DevicePlugin* leat_device_plugin() {
  return &leat::testing::kPlugin;
}
