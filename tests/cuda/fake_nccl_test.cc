// The fake NCCL by its calls: what is in progress, what waits for the other rank, and its faults.
#include "tests/cuda_emulation/fake_nccl.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "devices/cuda/nccl.h"
#include "tests/catch.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

#if LEAT_HAS_NCCL

namespace leat {
namespace {

const cuda::NcclFunctions& nccl() {
  static const cuda::NcclFunctions functions = must(cuda::load_nccl());
  return functions;
}

ncclResult_t state_of(ncclComm_t communicator) {
  ncclResult_t state = ncclNumResults;
  const ncclResult_t result = nccl().async_error(communicator, &state);
  return result == ncclSuccess ? state : result;
}
// The state behind ncclInProgress.
ncclResult_t settled(ncclComm_t communicator) {
  ncclResult_t state = ncclInProgress;
  CHECK(eventually([&] { return (state = state_of(communicator)) != ncclInProgress; }));
  return state;
}

// A rank with a stream, an event and memory of the emulated GPU.
struct RankUnderTest {
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  char* memory = nullptr;
};

// Both ranks of a communicator in this process.
class TwoRanks {
 public:
  static constexpr size_t kBytes = 64;
  explicit TwoRanks(uint64_t seed = 0) {
    fake_cuda::reset(seed);
    fake_nccl::reset(seed);
    for (RankUnderTest* rank : {&receiver, &sender}) {
      REQUIRE(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking) == cudaSuccess);
      REQUIRE(cudaEventCreateWithFlags(&rank->event, cudaEventDisableTiming) == cudaSuccess);
      void* memory = nullptr;
      REQUIRE(cudaMalloc(&memory, kBytes) == cudaSuccess);
      rank->memory = static_cast<char*>(memory);
    }
    REQUIRE(nccl().get_unique_id(&id) == ncclSuccess);
  }
  ~TwoRanks() {
    // cudaFree() waits for all streams.
    for (RankUnderTest* rank : {&receiver, &sender}) abort(*rank);
    for (RankUnderTest* rank : {&receiver, &sender}) {
      (void)cudaStreamDestroy(rank->stream);
      (void)cudaEventDestroy(rank->event);
      (void)cudaFree(rank->memory);
    }
    fake_cuda::reset();
    fake_nccl::reset();
  }
  ncclResult_t init(RankUnderTest& rank, int blocking = 0, int ranks = 2) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    return nccl().init_rank(&rank.communicator, ranks, id, &rank == &sender ? 1 : 0, &config);
  }
  void connect() {
    for (RankUnderTest* rank : {&receiver, &sender}) REQUIRE(init(*rank) == ncclInProgress);
    for (RankUnderTest* rank : {&receiver, &sender})
      REQUIRE(settled(rank->communicator) == ncclSuccess);
  }
  void abort(RankUnderTest& rank) {
    if (rank.communicator)
      CHECK(nccl().abort(std::exchange(rank.communicator, nullptr)) == ncclSuccess);
  }
  ncclResult_t send(size_t count, ncclDataType_t type = ncclInt8) {
    return nccl().send(sender.memory, count, type, 0, sender.communicator, sender.stream);
  }
  ncclResult_t recv(size_t count, ncclDataType_t type = ncclInt8) {
    return nccl().recv(receiver.memory, count, type, 1, receiver.communicator, receiver.stream);
  }
  // Begins a transfer that is in its stream afterwards.
  void send_now(size_t count, ncclDataType_t type = ncclInt8) {
    (void)send(count, type);
    REQUIRE(settled(sender.communicator) == ncclSuccess);
  }
  void recv_now(size_t count, ncclDataType_t type = ncclInt8) {
    (void)recv(count, type);
    REQUIRE(settled(receiver.communicator) == ncclSuccess);
  }
  void fill(int byte) {
    REQUIRE(cudaMemsetAsync(sender.memory, byte, kBytes, sender.stream) == cudaSuccess);
  }
  std::string received(size_t bytes) {
    std::string text(bytes, 0);
    REQUIRE(cudaMemcpyAsync(text.data(), receiver.memory, bytes, cudaMemcpyDeviceToHost,
                            receiver.stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(receiver.stream) == cudaSuccess);
    return text;
  }

  RankUnderTest receiver, sender;
  ncclUniqueId id{};
};

// Whether the work in the stream is done. The fake has looked at it since the call.
bool is_done(RankUnderTest& rank) {
  REQUIRE(cudaEventRecord(rank.event, rank.stream) == cudaSuccess);
  cudaStream_t other = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(fake_cuda::enqueue(other, [] { return cudaSuccess; }) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(other) == cudaSuccess);
  return cudaEventQuery(rank.event) == cudaSuccess;
}

}  // namespace

TEST_CASE("the fake NCCL sends a value once the other rank wants it, and not before") {
  TwoRanks ranks(GENERATE(range(0, 10)));
  ranks.connect();
  ranks.fill(7);
  ranks.send_now(8);
  CHECK_FALSE(is_done(ranks.sender));
  CHECK(fake_nccl::counts().transfers == 0);
  ranks.recv_now(8);
  REQUIRE(cudaStreamSynchronize(ranks.sender.stream) == cudaSuccess);
  CHECK(ranks.received(8) == std::string(8, 7));
  CHECK(fake_nccl::counts().transfers == 2);
}

TEST_CASE("values of the fake NCCL come in the order of their calls") {
  TwoRanks ranks(GENERATE(range(0, 10)));
  ranks.connect();
  for (int i = 0; i < 4; ++i) {
    ranks.fill(i);
    ranks.send_now(TwoRanks::kBytes);
  }
  for (int i = 0; i < 4; ++i) {
    ranks.recv_now(TwoRanks::kBytes);
    CHECK(ranks.received(TwoRanks::kBytes) == std::string(TwoRanks::kBytes, static_cast<char>(i)));
  }
}

TEST_CASE("an event that is recorded while a call of NCCL is in progress does not wait for it") {
  bool was_early = false;
  for (uint64_t seed = 0; seed < 20 && !was_early; ++seed) {
    TwoRanks ranks(seed);
    ranks.connect();
    if (ranks.send(8) == ncclSuccess) continue;
    // Nor may the communicator be used meanwhile.
    CHECK(ranks.send(8) == ncclInvalidArgument);
    was_early = is_done(ranks.sender);
    CHECK(was_early);
    CHECK(settled(ranks.sender.communicator) == ncclSuccess);
    CHECK_FALSE(is_done(ranks.sender));
  }
  CHECK(was_early);
}

TEST_CASE("ranks of the fake NCCL whose sizes or types differ fail both") {
  TwoRanks ranks;
  ranks.connect();
  ranks.send_now(8);
  SECTION("in size") { ranks.recv_now(4); }
  SECTION("in type") { ranks.recv_now(8, ncclUint8); }
  for (RankUnderTest* rank : {&ranks.sender, &ranks.receiver}) {
    CHECK(eventually([&] { return state_of(rank->communicator) == ncclInvalidUsage; }));
    CHECK_THAT(nccl().last_error(rank->communicator), Catch::Contains("value 0: "));
    // It takes no more calls, and its streams are stuck until it is aborted.
    CHECK_FALSE(is_done(*rank));
  }
  CHECK(ranks.send(8) == ncclInvalidUsage);
  ranks.abort(ranks.sender);
  CHECK(cudaStreamSynchronize(ranks.sender.stream) == cudaSuccess);
  CHECK(fake_nccl::counts().transfers == 0);
}

TEST_CASE("a rank whose peer is gone learns of it, and its streams are stuck until it is aborted") {
  TwoRanks ranks;
  ranks.connect();
  ranks.recv_now(8);
  ranks.abort(ranks.sender);
  CHECK(eventually([&] { return state_of(ranks.receiver.communicator) == ncclRemoteError; }));
  CHECK_FALSE(is_done(ranks.receiver));
  CHECK(ranks.recv(8) == ncclRemoteError);
  const ncclComm_t aborted = ranks.receiver.communicator;
  ranks.abort(ranks.receiver);
  CHECK(cudaStreamSynchronize(ranks.receiver.stream) == cudaSuccess);
  CHECK(fake_nccl::counts().communicators == 0);
  CHECK(state_of(aborted) == ncclInvalidArgument);
  CHECK(nccl().abort(aborted) == ncclInvalidArgument);
}

TEST_CASE("the fake NCCL never connects ranks that a test lets hang, and aborts them") {
  TwoRanks ranks;
  fake_nccl::hang_init();
  for (RankUnderTest* rank : {&ranks.receiver, &ranks.sender})
    REQUIRE(ranks.init(*rank) == ncclInProgress);
  for (int i = 0; i < 100; ++i) CHECK(state_of(ranks.sender.communicator) == ncclInProgress);
  CHECK(ranks.send(8) == ncclInvalidArgument);
  ranks.abort(ranks.receiver);
  CHECK(fake_nccl::counts().communicators == 1);
}

TEST_CASE("a transfer of the fake NCCL hangs or fails when its turn comes") {
  TwoRanks ranks;
  ranks.connect();
  const bool hangs = GENERATE(true, false);
  if (hangs)
    fake_nccl::hang_transfer(3);
  else
    fake_nccl::fail_transfer(3);
  ranks.send_now(8);
  ranks.recv_now(8);
  REQUIRE(cudaStreamSynchronize(ranks.receiver.stream) == cudaSuccess);
  ranks.send_now(8);
  (void)ranks.recv(8);
  if (hangs) {
    CHECK(settled(ranks.receiver.communicator) == ncclSuccess);
  } else {
    (void)settled(ranks.receiver.communicator);
    CHECK(eventually([&] { return state_of(ranks.sender.communicator) == ncclSystemError; }));
  }
  CHECK_FALSE(is_done(ranks.sender));
  CHECK_FALSE(is_done(ranks.receiver));
  CHECK(fake_nccl::counts().transfers == 2);
}

TEST_CASE("the fake NCCL refuses calls that Leat does not make") {
  TwoRanks ranks;
  CHECK(ranks.init(ranks.receiver, 1) == ncclInvalidArgument);
  CHECK(ranks.init(ranks.receiver, 0, 3) == ncclInvalidArgument);
  ncclComm_t none = nullptr;
  CHECK(nccl().init_rank(&none, 2, {}, 0, nullptr) == ncclInvalidArgument);
  ranks.connect();
  CHECK(ranks.send(8, ncclFloat64) == ncclInvalidArgument);
  CHECK(nccl().send(ranks.sender.memory, 8, ncclInt8, 1, ranks.sender.communicator,
                    ranks.sender.stream) == ncclInvalidArgument);
  CHECK(nccl().send(nullptr, 8, ncclInt8, 0, ranks.sender.communicator, ranks.sender.stream) ==
        ncclInvalidArgument);
  CHECK(state_of(nullptr) == ncclInvalidArgument);
}

TEST_CASE(
    "the process that takes the device first has the fault of NCCL that the environment has") {
  const TemporaryDirectory folder;
  const std::string file = folder / "fault";
  std::ofstream(file) << "one";
  TwoRanks ranks;
  ::setenv("LEAT_FAKE_CUDA_FAULT", (file + " nccl hang 1").c_str(), 1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  ::unsetenv("LEAT_FAKE_CUDA_FAULT");
  CHECK_FALSE(std::filesystem::exists(file));
  ranks.connect();
  ranks.send_now(8);
  ranks.recv_now(8);
  CHECK_FALSE(is_done(ranks.sender));
}

TEST_CASE("the fake NCCL takes faults by their words") {
  fake_nccl::reset();
  for (const char* fault : {"init", "hang", "error"}) CHECK(fake_nccl::plant(fault, 1));
  CHECK_FALSE(fake_nccl::plant("other", 1));
  fake_nccl::reset();
}

}  // namespace leat

#endif
