// A rank of a communicator of the fake NCCL: a socket to the other rank, a thread that reads and
// writes it, and the transfers that wait for that in streams of the fake GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "devices/cuda/nccl.h"

#if LEAT_HAS_NCCL

namespace fake_nccl {

enum class TransferFault : uint8_t { none, hangs, fails };

struct Transfer {
  bool sends;
  void* memory;  // of the device
  size_t count;
  ncclDataType_t type;
  TransferFault fault = TransferFault::none;
  uint64_t number = 0;  // among those of its direction
  bool wanted = false;  // the other rank was told that this one receives
};

// Transfers that were done in this process.
std::atomic<uint64_t>& transfers_done();

// Threads: any.
class Rank : public std::enable_shared_from_this<Rank> {
 public:
  // How the ranks find each other. The first one owns a socket that waits for the other.
  struct Meeting {
    std::string name;
    int listener;  // -1: not the first
    int number;
    bool hangs;  // it never meets the other one
  };
  explicit Rank(Meeting meeting);
  ~Rank();

  int number() const { return meeting_.number; }
  // Begins to meet the other rank, which takes so many looks at least.
  void start(int looks);
  // The result of the last call, or ncclInProgress; the failure of the rank, if there was one.
  ncclResult_t look();
  std::string last_error();
  // Puts the transfer into the stream after so many looks.
  ncclResult_t begin(Transfer transfer, cudaStream_t stream, int looks);
  // Transfers in streams are done at once from now on, and do nothing. Waits for the thread.
  void abort();

 private:
  struct Wanted {
    uint64_t count;
    uint32_t type;
  };
  struct Frame {
    uint32_t kind, type;
    uint64_t number, count, bytes;  // of what follows
  };

  // On the thread of the GPU; see fake_cuda::enqueue_when().
  bool is_ready(Transfer& transfer);
  cudaError_t run(const Transfer& transfer);
  // On the rank's thread.
  void serve();
  int meet();
  bool exchange(int socket);
  bool read_frames();
  bool take_frame(const Frame& frame, const char* bytes);

  // With the lock.
  void put(const Frame& frame, const char* bytes = nullptr);
  void fail(ncclResult_t result, std::string reason);
  void wake();

  const Meeting meeting_;
  const int wake_;  // an eventfd
  std::mutex mutex_;
  bool connected_ = false, aborted_ = false;
  int looks_left_ = 0;
  std::function<ncclResult_t()> deferred_;  // the work of the call in progress, or none
  ncclResult_t failure_ = ncclSuccess;
  std::string reason_;
  uint64_t sends_ = 0, receives_ = 0;       // that began
  std::map<uint64_t, Wanted> wanted_;       // by number: what the other rank receives
  std::map<uint64_t, std::string> values_;  // by number: what came from the other rank
  std::string outgoing_;
  std::string incoming_;  // of the thread
  std::thread thread_;
};

}  // namespace fake_nccl

#endif
