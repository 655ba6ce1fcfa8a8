#include "tests/cuda_emulation/fake_nccl.h"

#include "devices/cuda/nccl.h"

#if LEAT_HAS_NCCL

#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>

#include "tests/cuda_emulation/abstract_socket.h"
#include "tests/cuda_emulation/fake_rank.h"

struct ncclComm {
  std::shared_ptr<fake_nccl::Rank> rank;
};

namespace fake_nccl {
namespace {

constexpr char kIdMagic[] = "leat-fake-nccl-";

// The library as this process has it. Threads: any.
class Library {
 public:
  void reset(uint64_t seed) {
    const std::lock_guard lock(mutex_);
    random_.seed(seed);
    hidden_ = hangs_init_ = false;
    version_ = NCCL_VERSION_CODE;
    hangs_ = fails_ = 0;
    for (const auto& [name, listener] : listeners_) ::close(listener);
    listeners_.clear();
    transfers_done() = 0;
  }
  void hide() {
    const std::lock_guard lock(mutex_);
    hidden_ = true;
  }
  bool hidden() {
    const std::lock_guard lock(mutex_);
    return hidden_;
  }
  void set_version(int version) {
    const std::lock_guard lock(mutex_);
    version_ = version;
  }
  int version() {
    const std::lock_guard lock(mutex_);
    return version_;
  }
  void hang_init() {
    const std::lock_guard lock(mutex_);
    hangs_init_ = true;
  }
  void hang_transfer(uint64_t nth) {
    const std::lock_guard lock(mutex_);
    hangs_ = nth;
  }
  void fail_transfer(uint64_t nth) {
    const std::lock_guard lock(mutex_);
    fails_ = nth;
  }
  Counts counts() {
    const std::lock_guard lock(mutex_);
    return {transfers_done(), communicators_.size()};
  }

  ncclResult_t make_id(ncclUniqueId* id) {
    const std::string name = kIdMagic + std::to_string(fake_cuda::unique_number());
    const int listener = fake_cuda::listen_at(name);
    if (listener < 0) return ncclSystemError;
    *id = {};
    std::memcpy(id->internal, name.data(), name.size());
    const std::lock_guard lock(mutex_);
    listeners_[name] = listener;
    return ncclSuccess;
  }
  ncclResult_t make_rank(ncclComm_t* communicator, const ncclUniqueId& id, int number) {
    const std::string name(id.internal, ::strnlen(id.internal, sizeof id.internal));
    if (!name.starts_with(kIdMagic)) return ncclInvalidArgument;
    const std::lock_guard lock(mutex_);
    int listener = -1;
    if (number == 0) {
      // The rank that made the id takes its socket; Leat makes no other first rank.
      const auto at = listeners_.find(name);
      if (at == listeners_.end()) return ncclInvalidArgument;
      listener = at->second;
      listeners_.erase(at);
    }
    auto made = std::make_unique<ncclComm>();
    made->rank = std::make_shared<Rank>(Rank::Meeting{name, listener, number, hangs_init_});
    made->rank->start(draw_locked());
    *communicator = made.get();
    communicators_[made.get()] = std::move(made);
    return ncclInProgress;
  }
  // Null for a communicator that was aborted, or that never was.
  std::shared_ptr<Rank> find(ncclComm_t communicator) {
    const std::lock_guard lock(mutex_);
    const auto at = communicators_.find(communicator);
    return at == communicators_.end() ? nullptr : at->second->rank;
  }
  std::shared_ptr<Rank> remove(ncclComm_t communicator) {
    const std::lock_guard lock(mutex_);
    const auto at = communicators_.find(communicator);
    if (at == communicators_.end()) return nullptr;
    std::shared_ptr<Rank> rank = at->second->rank;
    communicators_.erase(at);
    return rank;
  }
  // For how many looks a call is in progress.
  int draw() {
    const std::lock_guard lock(mutex_);
    return draw_locked();
  }
  TransferFault next_fault() {
    const std::lock_guard lock(mutex_);
    if (hangs_ > 0 && --hangs_ == 0) return TransferFault::hangs;
    if (fails_ > 0 && --fails_ == 0) return TransferFault::fails;
    return TransferFault::none;
  }

 private:
  int draw_locked() { return static_cast<int>(random_() % 4); }

  std::mutex mutex_;
  std::mt19937_64 random_;
  bool hidden_ = false, hangs_init_ = false;
  int version_ = NCCL_VERSION_CODE;
  uint64_t hangs_ = 0, fails_ = 0;  // transfers until the fault; 0: there is none
  std::map<std::string, int> listeners_;
  std::map<ncclComm_t, std::unique_ptr<ncclComm>> communicators_;
};

// It outlives the threads of ranks that are never aborted.
Library& library() {
  static auto& it = *new Library;
  return it;
}

ncclResult_t fake_version(int* version) {
  *version = library().version();
  return ncclSuccess;
}
ncclResult_t fake_unique_id(ncclUniqueId* id) { return library().make_id(id); }
ncclResult_t fake_init(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                       ncclConfig_t* config) {
  const ncclConfig_t expected = NCCL_CONFIG_INITIALIZER;
  const bool is_right = config && config->size == expected.size &&
                        config->magic == expected.magic && config->blocking == 0;
  if (!is_right || ranks != 2 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  return library().make_rank(communicator, id, rank);
}
ncclResult_t fake_async_error(ncclComm_t communicator, ncclResult_t* state) {
  const auto rank = library().find(communicator);
  if (!rank) return ncclInvalidArgument;
  *state = rank->look();
  return ncclSuccess;
}
ncclResult_t fake_abort(ncclComm_t communicator) {
  const auto rank = library().remove(communicator);
  if (!rank) return ncclInvalidArgument;
  rank->abort();
  return ncclSuccess;
}
ncclResult_t fake_transfer(Transfer transfer, int peer, ncclComm_t communicator,
                           cudaStream_t stream) {
  const auto rank = library().find(communicator);
  if (!rank || peer != 1 - rank->number() || !transfer.memory) return ncclInvalidArgument;
  transfer.fault = library().next_fault();
  return rank->begin(std::move(transfer), stream, library().draw());
}
ncclResult_t fake_send(const void* from, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t communicator, cudaStream_t stream) {
  return fake_transfer({true, const_cast<void*>(from), count, type}, peer, communicator, stream);
}
ncclResult_t fake_recv(void* to, size_t count, ncclDataType_t type, int peer,
                       ncclComm_t communicator, cudaStream_t stream) {
  return fake_transfer({false, to, count, type}, peer, communicator, stream);
}
const char* fake_error_string(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}
const char* fake_last_error(ncclComm_t communicator) {
  thread_local std::string text;
  const auto rank = library().find(communicator);
  text = rank ? rank->last_error() : "";
  return text.c_str();
}

}  // namespace

void reset(uint64_t seed) { library().reset(seed); }
void hide() { library().hide(); }
void set_version(int version) { library().set_version(version); }
void hang_init() { library().hang_init(); }
void hang_transfer(uint64_t nth) { library().hang_transfer(nth); }
void fail_transfer(uint64_t nth) { library().fail_transfer(nth); }
bool plant(std::string_view fault, uint64_t nth) {
  if (fault == "init")
    hang_init();
  else if (fault == "hang")
    hang_transfer(nth);
  else if (fault == "error")
    fail_transfer(nth);
  else
    return false;
  return true;
}
Counts counts() { return library().counts(); }

}  // namespace fake_nccl

namespace leat::cuda {

Result<NcclFunctions> load_nccl() {
  if (fake_nccl::library().hidden())
    return unavailable("libnccl.so.2: cannot open shared object file: it is hidden");
  NcclFunctions found{};
  found.get_version = fake_nccl::fake_version;
  found.get_unique_id = fake_nccl::fake_unique_id;
  found.init_rank = fake_nccl::fake_init;
  found.async_error = fake_nccl::fake_async_error;
  found.abort = fake_nccl::fake_abort;
  found.send = fake_nccl::fake_send;
  found.recv = fake_nccl::fake_recv;
  found.error_string = fake_nccl::fake_error_string;
  found.last_error = fake_nccl::fake_last_error;
  return found;
}

}  // namespace leat::cuda

#else

namespace fake_nccl {

void reset(uint64_t) {}
bool plant(std::string_view, uint64_t) { return false; }

}  // namespace fake_nccl

#endif
