// The refusals of wires of a GPU, and ends of wires by NCCL that fail, with both ranks in this
// process.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>

#include "devices/base/text.h"
#include "devices/cuda/cuda_device.h"
#include "devices/cuda/nccl.h"
#include "devices/cuda/nccl_wire.h"
#include "tests/catch.h"
#include "tests/cuda_emulation/fake_nccl.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/must.h"

namespace leat {
namespace {

using cuda::CudaDevice;

// No test waits so long, unless it fails.
constexpr auto kLongStall = std::chrono::milliseconds(60'000);
constexpr auto kShortStall = std::chrono::milliseconds(50);

std::chrono::steady_clock::time_point in_a_minute() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

// A GPU, and memory of it for both ends of a wire.
class OneGpu {
 public:
  static constexpr size_t kBytes = 4096;
  OneGpu() {
    fake_cuda::reset();
    fake_nccl::reset();
    device = must(CudaDevice::open(0));
    from = must(device->allocate(kBytes));
    into = must(device->allocate(kBytes));
  }
  ~OneGpu() {
    sender.reset();
    receiver.reset();
    from.reset();
    into.reset();
    device.reset();
    fake_cuda::reset();
    fake_nccl::reset();
  }
  void make_ends(std::chrono::milliseconds stall) {
    receiver = must(cuda::make_nccl_receiver(*device, *into, stall));
    sender = must(cuda::make_nccl_sender(*device, receiver->offer(), stall));
  }
  void connect(std::chrono::milliseconds stall = kLongStall) {
    make_ends(stall);
    auto other = std::async(std::launch::async, [&] { return receiver->connect(in_a_minute()); });
    must(sender->connect(in_a_minute()));
    must(other.get());
  }
  void fill(const std::string& bytes) {
    device->copy_to_device(from->data(), bytes.data(), bytes.size());
    must(device->queue(QueueFor::copies_in).settle(in_a_minute()));
  }
  std::string received(size_t bytes) {
    std::string text(bytes, 0);
    device->copy_to_host(text.data(), into->data(), bytes);
    must(device->queue(QueueFor::copies_out).settle(in_a_minute()));
    return text;
  }
  // A new wire carries a value, so that nothing is left of what failed.
  void check_usable() {
    sender.reset();
    receiver.reset();
    connect();
    fill("after the failure");
    sender->send(from->data(), 0, 17);
    receiver->receive(0, 17);
    must(sender->done().wait(1, in_a_minute()));
    must(receiver->done().wait(1, in_a_minute()));
    CHECK(received(17) == "after the failure");
    CHECK(device->queue().settle(in_a_minute()).ok());
  }

  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Buffer> from, into;
  std::unique_ptr<WireReceiver> receiver;
  std::unique_ptr<WireSender> sender;
};

// A variable of the environment, for the time of a test.
class WordsOfGpu {
 public:
  explicit WordsOfGpu(const char* words) { ::setenv("LEAT_GPU_PLAIN", words, 1); }
  ~WordsOfGpu() { ::unsetenv("LEAT_GPU_PLAIN"); }
};

std::string other_offer(std::string offer, size_t at) {
  offer[at] ^= 1;
  return offer;
}

}  // namespace

TEST_CASE("a GPU has no wires that the environment turns off or that it lacks the means for") {
  OneGpu gpu;
  CHECK(gpu.device->has_wires(WireKind::ipc).ok());
  const auto refusal = [&](WireKind kind) {
    const Status status = gpu.device->has_wires(kind);
    CHECK(status.code() == Code::unavailable);
    CHECK(gpu.device->make_wire_receiver(kind, *gpu.into).status().message() == status.message());
    CHECK(gpu.device->make_wire_sender(kind, "").status().message() == status.message());
    return status.message();
  };
  SECTION("by a word") {
    const WordsOfGpu plain("graphs,ipc,nccl");
    CHECK_THAT(refusal(WireKind::ipc), Catch::Contains("LEAT_GPU_PLAIN"));
    CHECK_THAT(refusal(WireKind::nccl), Catch::Contains("LEAT_GPU_PLAIN"));
  }
  SECTION("without IPC") {
    fake_cuda::share_memory(false);
    CHECK_THAT(refusal(WireKind::ipc), Catch::Contains("gpu:0: expected a GPU with "));
  }
  SECTION("when CUDA refuses to tell") {
    fake_cuda::fail_call("cudaDeviceGetAttribute", 1, cudaErrorNotSupported);
    CHECK_THAT(gpu.device->has_wires(WireKind::ipc).message(),
               Catch::Contains("cudaErrorNotSupported"));
  }
#if LEAT_HAS_NCCL
  SECTION("without NCCL") {
    fake_nccl::hide();
    CHECK_THAT(refusal(WireKind::nccl), Catch::Contains("gpu:0: no NCCL: libnccl.so.2"));
    CHECK(cuda::nccl_version() == "none");
  }
  SECTION("with an old NCCL") {
    fake_nccl::set_version(21304);
    CHECK_THAT(refusal(WireKind::nccl),
               Catch::Contains("expected NCCL 2.14.0 or newer, received 2.13.4"));
  }
  CHECK(gpu.device->queue().settle(in_a_minute()).ok());
#endif
}

TEST_CASE("a wire by CUDA IPC needs memory of another process") {
  OneGpu gpu;
  const auto receiver = must(gpu.device->make_wire_receiver(WireKind::ipc, *gpu.into));
  CHECK(receiver->offer().size() <= kMostOfferBytes);
  const auto refused = gpu.device->make_wire_sender(WireKind::ipc, receiver->offer()).status();
  CHECK(refused.code() == Code::unavailable);
  CHECK_THAT(refused.message(),
             Catch::Contains("expected memory of another process that this GPU reaches") &&
                 Catch::Contains("cudaErrorDeviceUninitialized"));
  // As between two GPUs without a way between them.
  fake_cuda::fail_call("cudaIpcOpenMemHandle", 1, cudaErrorPeerAccessUnsupported);
  CHECK_THAT(gpu.device->make_wire_sender(WireKind::ipc, receiver->offer()).status().message(),
             Catch::Contains("cudaErrorPeerAccessUnsupported"));
  fake_cuda::fail_call("cudaIpcGetMemHandle", 1, cudaErrorNotSupported);
  CHECK_THAT(gpu.device->make_wire_receiver(WireKind::ipc, *gpu.into).status().message(),
             Catch::Contains("cudaIpcGetMemHandle"));
  CHECK(gpu.device->queue().settle(in_a_minute()).ok());
}

TEST_CASE("an offer of another kind, version or size is refused") {
  OneGpu gpu;
  const std::string ipc = must(gpu.device->make_wire_receiver(WireKind::ipc, *gpu.into))->offer();
  const auto refuse = [&](WireKind kind, const std::string& offer, const std::string& why) {
    const Status status = gpu.device->make_wire_sender(kind, offer).status();
    INFO(status);
    CHECK(status.code() == Code::invalid_argument);
    CHECK_THAT(status.message(), Catch::Contains(why));
  };
  refuse(WireKind::ipc, other_offer(ipc, 0), "another kind");
  refuse(WireKind::ipc, other_offer(ipc, 4), "version 0");
  refuse(WireKind::ipc, ipc + "x", "expected an offer of 80 bytes, received 81");
  refuse(WireKind::ipc, "", "received 0");
#if LEAT_HAS_NCCL
  const std::string nccl = must(gpu.device->make_wire_receiver(WireKind::nccl, *gpu.into))->offer();
  CHECK(nccl.size() <= kMostOfferBytes);
  refuse(WireKind::nccl, other_offer(nccl, 0), "another kind");
  refuse(WireKind::nccl, other_offer(nccl, 4), "version");
  refuse(WireKind::nccl, nccl.substr(1), "expected an offer of 136 bytes, received 135");
  refuse(WireKind::nccl, ipc, "expected an offer of 136 bytes, received 80");
#endif
}

TEST_CASE("a copy to the device may come from memory that a wire has filled") {
  OneGpu gpu;
  gpu.fill("from one place of the device");
  gpu.device->copy_to_device(gpu.into->data(), gpu.from->data(), 28);
  must(gpu.device->queue(QueueFor::copies_in).settle(in_a_minute()));
  CHECK(gpu.received(28) == "from one place of the device");
}

#if LEAT_HAS_NCCL

TEST_CASE("values wait for no other work of their device") {
  std::atomic<bool> ready = false;  // the GPU asks for it to the end
  OneGpu gpu;
  gpu.connect();
  gpu.fill("in time");
  REQUIRE(fake_cuda::enqueue_when(
              gpu.device->stream(), [&] { return ready.load(); }, [] { return cudaSuccess; }) ==
          cudaSuccess);
  gpu.sender->send(gpu.from->data(), 0, 7);
  gpu.receiver->receive(0, 7);
  CHECK(gpu.receiver->done().wait(1, in_a_minute()).ok());
  CHECK(gpu.received(7) == "in time");
  CHECK(gpu.device->queue().timeline().value() == 0);
  ready = true;
  fake_cuda::look_again();
  CHECK(gpu.device->queue().settle(in_a_minute()).ok());
}

TEST_CASE(
    "a wire that stops while a transfer hangs leaves its memory alone, and the device goes on") {
  OneGpu gpu;
  gpu.connect();
  bool of_sender = GENERATE(true, false);
  DeviceWire& end = of_sender ? static_cast<DeviceWire&>(*gpu.sender) : *gpu.receiver;
  if (of_sender)
    gpu.sender->send(gpu.from->data(), 0, 64);
  else
    gpu.receiver->receive(0, 64);
  end.stop(cancelled("the step is aborted"));
  // It fails when its device leaves the memory alone.
  CHECK(end.done().wait(1, in_a_minute()).message() == "the step is aborted");
  CHECK(end.done().value() == 0);
  // The other end learns of it.
  DeviceWire& other = of_sender ? static_cast<DeviceWire&>(*gpu.receiver) : *gpu.sender;
  CHECK(other.done().wait(1, in_a_minute()).code() == Code::unavailable);
  gpu.check_usable();
}

TEST_CASE("a wire may be stopped by what waits for its values") {
  OneGpu gpu;
  gpu.connect();
  gpu.receiver->done().when(1,
                            [&](const Status&) { gpu.receiver->stop(cancelled("one is enough")); });
  gpu.receiver->receive(0, 64);
  for (int i = 0; i < 3; ++i) gpu.sender->send(gpu.from->data(), 0, 64);
  CHECK(gpu.receiver->done().wait(2, in_a_minute()).message() == "one is enough");
  CHECK(gpu.sender->done().wait(3, in_a_minute()).code() == Code::unavailable);
  gpu.check_usable();
}

TEST_CASE("a value that stalls fails its wire with the end, the values and the bytes") {
  OneGpu gpu;
  SECTION("at the sending end, which no receiver takes part in") {
    gpu.connect(kShortStall);
    gpu.sender->send(gpu.from->data(), 0, 64);
    gpu.sender->send(gpu.from->data(), 64, 16);
    const Status failed = gpu.sender->done().wait(1, in_a_minute());
    CHECK(failed.code() == Code::unavailable);
    CHECK(failed.message() ==
          cat("gpu:0: the sending end of a wire by NCCL ", cuda::nccl_version(),
              ": expected a value to be done within 50 ms, received none; 2 of 2 values are "
              "missing, 80 bytes"));
  }
  SECTION("at the receiving end, whose second transfer hangs") {
    fake_nccl::hang_transfer(3);
    gpu.connect(kShortStall);
    for (int i = 1; i <= 2; ++i) {
      gpu.sender->send(gpu.from->data(), 0, 64);
      if (i == 2) break;
      gpu.receiver->receive(0, 64);
      must(gpu.receiver->done().wait(1, in_a_minute()));
    }
    gpu.receiver->receive(0, 64);
    const Status failed = gpu.receiver->done().wait(2, in_a_minute());
    CHECK(failed.code() == Code::unavailable);
    CHECK_THAT(failed.message(), Catch::Contains("the receiving end"));
  }
  gpu.check_usable();
}

TEST_CASE("a wire by NCCL whose other end never comes is not connected in time") {
  OneGpu gpu;
  SECTION("because NCCL hangs") {
    fake_nccl::hang_init();
    gpu.make_ends(kLongStall);
  }
  SECTION("because it does not connect") { gpu.make_ends(kLongStall); }
  const Status failed = gpu.receiver->connect(std::chrono::steady_clock::now() + kShortStall);
  CHECK(failed.code() == Code::deadline_exceeded);
  CHECK_THAT(failed.message(), Catch::Contains("gpu:0: the receiving end of a wire by NCCL"));
  fake_nccl::reset();
  gpu.check_usable();
}

TEST_CASE("an error that NCCL reports fails the wire with NCCL's words, and not the device") {
  OneGpu gpu;
  // Each value is a transfer at either end.
  fake_nccl::fail_transfer(7);
  gpu.connect();
  for (uint64_t i = 1; i <= 3; ++i) {
    gpu.sender->send(gpu.from->data(), 0, 64);
    gpu.receiver->receive(0, 64);
    must(gpu.receiver->done().wait(i, in_a_minute()));
    must(gpu.sender->done().wait(i, in_a_minute()));
  }
  gpu.sender->send(gpu.from->data(), 0, 64);
  gpu.receiver->receive(0, 64);
  // It is the fault of one end; the sending one may be done before the other fails.
  const Status sent = gpu.sender->done().wait(4, in_a_minute());
  const Status received = gpu.receiver->done().wait(4, in_a_minute());
  // It is no error that names the other end.
  CHECK((sent.code() == Code::internal || received.code() == Code::internal));
  CHECK_THAT(sent.message() + received.message(),
             Catch::Contains("unhandled system error: the fault of a test"));
  gpu.check_usable();
}

TEST_CASE("ends of a wire that were given values of other sizes fail both") {
  OneGpu gpu;
  gpu.connect();
  gpu.sender->send(gpu.from->data(), 0, 64);
  gpu.receiver->receive(0, 63);
  // The end that looks later may only hear that the other one is gone.
  for (Timeline* done : {&gpu.sender->done(), &gpu.receiver->done()}) {
    const Code code = done->wait(1, in_a_minute()).code();
    CHECK((code == Code::internal || code == Code::unavailable));
  }
  gpu.check_usable();
}

TEST_CASE("the receiving end of a wire by NCCL takes no value beyond its memory") {
  OneGpu gpu;
  gpu.connect();
  gpu.receiver->receive(OneGpu::kBytes - 63, 64);
  const Status failed = gpu.receiver->done().wait(1, in_a_minute());
  CHECK(failed.code() == Code::invalid_argument);
  CHECK_THAT(failed.message(), Catch::Contains("expected a value within 4096 bytes of memory"));
  gpu.check_usable();
}

TEST_CASE("a wire by NCCL whose offer leads nowhere is not connected") {
  OneGpu gpu;
  gpu.make_ends(kLongStall);
  const std::string offer = gpu.receiver->offer();
  const auto lost = must(gpu.device->make_wire_sender(WireKind::nccl, other_offer(offer, 30)));
  const Status failed = lost->connect(in_a_minute());
  CHECK(failed.code() == Code::unavailable);
  CHECK_THAT(failed.message(), Catch::Contains("the other rank is gone"));
  gpu.check_usable();
}

#endif

}  // namespace leat
