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
#include "devices/cuda/nccl.h"
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

TEST_CASE("a peer that is killed fails what comes of its wires, and leaves the device usable") {
  const WireKind kind = GENERATE(WireKind::ipc, WireKind::nccl);
  INFO(name_of(kind));
  TwoGpus gpus(kind, 1000);
  must(gpus.make_wires());
  gpus.wires.in->done().when(20, [&](const Status&) { gpus.peer->signal(SIGKILL); });
  const Status exchanged = gpus.exchange(1000);
  INFO(exchanged);
  CHECK(exchanged.code() == Code::unavailable);
  if (kind == WireKind::nccl) {
    // Both ends learn of it by themselves.
    for (DeviceWire* end : {static_cast<DeviceWire*>(gpus.wires.in.get()),
                            static_cast<DeviceWire*>(gpus.wires.out.get())}) {
      const Status failed = end->done().wait(~uint64_t{0}, later());
      CHECK(failed.code() == Code::unavailable);
      CHECK_THAT(failed.message(), Catch::Contains(cat("NCCL ", cuda::nccl_version(), ": ")));
      CHECK_THAT(failed.message(), Catch::Contains("remote process exited"));
    }
  } else {
    gpus.wires.in->stop(exchanged);
    gpus.wires.out->stop(exchanged);
    for (Timeline* done : {&gpus.wires.in->done(), &gpus.wires.out->done()})
      CHECK(done->wait(~uint64_t{0}, later()).message() == exchanged.message());
  }
  CHECK(gpus.device_works());
  gpus.wires = {};
  CHECK(gpus.device->allocate(4096).ok());
}

TEST_CASE("memory that is freed while another process has it open stays until that closes it") {
  TwoGpus gpus(WireKind::ipc, 3);
  must(gpus.make_wires());
  for (int i = 0; i < 2; ++i) CHECK_THAT(must(gpus.talk->hear()), Catch::StartsWith("value "));
  gpus.wires.in.reset();
  gpus.wires.memory.reset();
  // The third value goes to the place of the first.
  for (int i = 0; i < 2; ++i) gpus.talk->say("taken");
  CHECK_THAT(must(gpus.talk->hear()), Catch::StartsWith("value "));
  gpus.talk->say("taken");
  auto from = must(gpus.device->allocate(testing::kLargestValue));
  for (uint64_t i = 0; i < 3; ++i) {
    const auto value = testing::draw_value(5, i);
    const std::string bytes = testing::draw_bytes(5, i, value.bytes);
    gpus.device->copy_to_device(from->data(), bytes.data(), bytes.size());
    must(gpus.device->queue(QueueFor::copies_in).settle(later()));
    gpus.wires.out->send(from->data(), value.offset, value.bytes);
    must(gpus.wires.out->done().wait(i + 1, later()));
    gpus.talk->say(cat("value ", value.offset, " ", value.bytes));
    CHECK(must(gpus.talk->hear()) == "taken");
  }
  gpus.talk->say("done");
  CHECK(gpus.peer->wait(kPatience) == 0);
  INFO(gpus.errors());
  CHECK(gpus.device_works());
}

TEST_CASE("a value beyond the memory of the other process is an error, and not a write") {
  TwoGpus gpus(WireKind::ipc, 1);
  must(gpus.make_wires());
  const size_t size = gpus.wires.memory->size();  // the other process has as much
  auto from = must(gpus.device->allocate(64));
  const auto [offset, bytes] =
      GENERATE_COPY(std::pair(size - 63, size_t{64}), std::pair(~size_t{0} - 1, size_t{64}),
                    std::pair(size_t{0}, size + 1));
  gpus.wires.out->send(from->data(), offset, bytes);
  const Status failed = gpus.wires.out->done().wait(1, later());
  CHECK(failed.code() == Code::invalid_argument);
  CHECK_THAT(failed.message(),
             Catch::Contains(cat("expected a value within ", size, " bytes of memory, received ",
                                 bytes, " bytes at ", offset)));
  gpus.wires.in->receive(offset, bytes);
  CHECK(gpus.wires.in->done().status().code() == Code::invalid_argument);
  CHECK(gpus.device_works());
}

TEST_CASE("a wire that fails does not carry what it is given later") {
  TwoGpus gpus(WireKind::ipc, 1);
  must(gpus.make_wires());
  auto from = must(gpus.device->allocate(64));
  gpus.wires.out->stop(cancelled("the first cause"));
  gpus.wires.out->stop(cancelled("the second cause"));
  gpus.wires.out->send(from->data(), 0, 64);
  gpus.wires.in->stop(cancelled("the first cause"));
  gpus.wires.in->receive(0, 64);
  for (Timeline* done : {&gpus.wires.out->done(), &gpus.wires.in->done()}) {
    CHECK(done->value() == 0);
    CHECK(done->wait(1, later()).message() == "the first cause");
  }
  CHECK(gpus.wires.out->connect(later()).message() == "the first cause");
}

TEST_CASE("an error of CUDA in the stream of a wire fails its device") {
  const auto* const function =
      GENERATE("cudaMemcpyAsync", "cudaEventCreateWithFlags", "cudaEventRecord", "cudaEventQuery");
  INFO(function);
  TwoGpus gpus(WireKind::ipc, 1);
  must(gpus.make_wires());
  auto from = must(gpus.device->allocate(64));
  fake_cuda::fail_call(function, 1, cudaErrorUnknown);
  gpus.wires.out->send(from->data(), 0, 64);
  const Status failed = gpus.wires.out->done().wait(1, later());
  CHECK_THAT(failed.message(), Catch::Contains("gpu:0: the sending end of a wire by CUDA IPC: ") &&
                                   Catch::Contains(cat(function)) &&
                                   Catch::Contains("cudaErrorUnknown"));
  CHECK(gpus.device->queue().timeline().status().message() == failed.message());
}

}  // namespace leat
