// Wires between the emulated GPUs of two processes, and the ends of wires that fail.
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "devices/cuda/cuda_device.h"
#include "devices/cuda/ipc_wire.h"
#include "tests/catch.h"
#include "tests/cuda/wire_traffic.h"
#include "tests/cuda_emulation/fake_nccl.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/daemon/child_process.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using testing::Talk;
using testing::WirePair;

constexpr auto kPatience = std::chrono::seconds(60);

std::chrono::steady_clock::time_point later() {
  return std::chrono::steady_clock::now() + kPatience;
}

// A GPU of this process, and one of another process.
class TwoGpus {
 public:
  TwoGpus(WireKind kind, uint64_t count, const std::vector<std::string>& fault = {}) : kind_(kind) {
    fake_cuda::reset(5);
    fake_nccl::reset(5);
    device = must(cuda::CudaDevice::open(0));
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    talk = std::make_unique<Talk>(ends[0]);
    std::vector<std::string> arguments = {std::string(name_of(kind)), "6", "5", cat(count)};
    arguments.insert(arguments.end(), fault.begin(), fault.end());
    ChildProcess::Options options;
    options.err = errors_ / "errors";
    options.fd_3 = ends[1];
    peer = std::make_unique<ChildProcess>(WIRE_PEER, arguments, options);
    ::close(ends[1]);
  }
  ~TwoGpus() {
    peer.reset();
    wires = {};
    device.reset();
    fake_cuda::reset();
  }
  Status make_wires() {
    auto made = testing::make_wires(*device, kind_, *talk, true);
    if (!made.ok()) return made.status();
    wires = std::move(made).value();
    return {};
  }
  Status exchange(uint64_t count) {
    return testing::exchange_values(*device, wires, *talk, {kind_, 5, 6, count});
  }
  std::string errors() const { return contents_of(errors_ / "errors"); }
  // A device that has failed computes no more.
  bool device_works() {
    return device->queue().settle(later()).ok() &&
           device->queue(QueueFor::copies_in).settle(later()).ok();
  }

  std::unique_ptr<cuda::CudaDevice> device;
  std::unique_ptr<Talk> talk;
  std::unique_ptr<ChildProcess> peer;
  WirePair wires;

 private:
  const WireKind kind_;
  TemporaryDirectory errors_;
};

}  // namespace

TEST_CASE("a wire carries 1000 values of any size bit for bit, in both directions at once") {
  const WireKind kind = GENERATE(WireKind::ipc, WireKind::nccl);
  INFO(name_of(kind));
  TwoGpus gpus(kind, 1000);
  must(gpus.make_wires());
  const Status exchanged = gpus.exchange(1000);
  INFO(exchanged << "; the other process: " << gpus.errors());
  REQUIRE(exchanged.ok());
  gpus.talk->say("done");
  CHECK(gpus.peer->wait(kPatience) == 0);
  CHECK(gpus.device_works());
}

}  // namespace leat
