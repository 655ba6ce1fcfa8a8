#include "tests/cuda_emulation/fake_rank.h"

#if LEAT_HAS_NCCL

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tests/cuda_emulation/abstract_socket.h"
#include "tests/cuda_emulation/fake_runtime.h"

namespace fake_nccl {
namespace {

enum FrameKind : uint32_t { kHello, kWant, kValue, kMismatch };

// 0 for a type that Leat sends nothing of.
size_t nccl_type_bytes(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

std::atomic<uint64_t>& transfers_done() {
  static std::atomic<uint64_t> count{0};
  return count;
}

Rank::Rank(Meeting meeting)
    : meeting_(std::move(meeting)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Rank::~Rank() {
  if (thread_.joinable()) abort();
  ::close(wake_);
}

void Rank::start(int looks) {
  looks_left_ = looks;
  thread_ = std::thread([this] { serve(); });
}

ncclResult_t Rank::look() {
  std::function<ncclResult_t()> work;
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != ncclSuccess) return failure_;
    if (!connected_) return ncclInProgress;
    if (looks_left_ > 0) {
      --looks_left_;
      return ncclInProgress;
    }
    work = std::exchange(deferred_, nullptr);
  }
  return work ? work() : ncclSuccess;
}

std::string Rank::last_error() {
  const std::lock_guard lock(mutex_);
  return reason_;
}

ncclResult_t Rank::begin(Transfer transfer, cudaStream_t stream, int looks) {
  auto shared = std::make_shared<Transfer>(std::move(transfer));
  auto work = [rank = shared_from_this(), shared, stream] {
    const cudaError_t error = fake_cuda::enqueue_when(
        stream, [rank, shared] { return rank->is_ready(*shared); },
        [rank, shared] { return rank->run(*shared); });
    return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  };
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != ncclSuccess) return failure_;
    // "Attempt to use communicator before the previous operation returned ncclSuccess".
    if (!connected_ || looks_left_ > 0 || deferred_) return ncclInvalidArgument;
    if (nccl_type_bytes(shared->type) == 0) return ncclInvalidArgument;
    shared->number = shared->sends ? sends_++ : receives_++;
    if (looks > 0) {
      looks_left_ = looks - 1;
      deferred_ = work;
      return ncclInProgress;
    }
  }
  return work();
}

void Rank::abort() {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    deferred_ = nullptr;
    wake();
  }
  fake_cuda::look_again();
  if (thread_.joinable()) thread_.join();
}

// A rank that has failed leaves its transfers in their streams until it is aborted.
bool Rank::is_ready(Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return true;
  if (failure_ != ncclSuccess || transfer.fault == TransferFault::hangs) return false;
  if (!transfer.sends && !std::exchange(transfer.wanted, true)) {
    put({kWant, static_cast<uint32_t>(transfer.type), transfer.number, transfer.count, 0});
    wake();
  }
  const auto wanted = wanted_.find(transfer.number);
  if (transfer.sends ? wanted == wanted_.end() : values_.count(transfer.number) == 0) return false;
  if (transfer.fault == TransferFault::fails) {
    fail(ncclSystemError, "the fault of a test");
    return false;
  }
  if (transfer.sends && (wanted->second.count != transfer.count ||
                         wanted->second.type != static_cast<uint32_t>(transfer.type))) {
    fail(ncclInvalidUsage, "value " + std::to_string(transfer.number) + ": this rank sends " +
                               std::to_string(transfer.count) + " elements of type " +
                               std::to_string(transfer.type) + ", the other one receives " +
                               std::to_string(wanted->second.count) + " of type " +
                               std::to_string(wanted->second.type));
    put({kMismatch, 0, transfer.number, 0, 0});
    wake();
    return false;
  }
  return true;
}

cudaError_t Rank::run(const Transfer& transfer) {
  const size_t bytes = transfer.count * nccl_type_bytes(transfer.type);
  std::string value;
  if (transfer.sends) value.assign(static_cast<const char*>(transfer.memory), bytes);
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return cudaSuccess;
    if (transfer.sends) {
      wanted_.erase(transfer.number);
      put({kValue, static_cast<uint32_t>(transfer.type), transfer.number, transfer.count, bytes},
          value.data());
      wake();
    } else {
      value = std::move(values_.extract(transfer.number).mapped());
    }
  }
  if (!transfer.sends) std::memcpy(transfer.memory, value.data(), bytes);
  ++transfers_done();
  return cudaSuccess;
}

void Rank::serve() {
  const int socket = meet();
  if (socket >= 0) {
    {
      const std::lock_guard lock(mutex_);
      put({kHello, 0, static_cast<uint64_t>(meeting_.number), 0, 0});
    }
    while (exchange(socket)) {
    }
    ::close(socket);
  }
  if (meeting_.listener >= 0) ::close(meeting_.listener);
  const std::lock_guard lock(mutex_);
  if (!aborted_) fail(ncclRemoteError, "the other rank is gone");
}

// The socket to the other rank; -1 if this one was aborted before, or there is no other.
int Rank::meet() {
  if (meeting_.listener < 0 && !meeting_.hangs) return fake_cuda::connect_to(meeting_.name);
  while (true) {
    pollfd waits[] = {{wake_, POLLIN, 0}, {meeting_.hangs ? -1 : meeting_.listener, POLLIN, 0}};
    if (::poll(waits, 2, -1) < 0 && errno != EINTR) return -1;
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) return -1;
    }
    if (waits[1].revents) return ::accept4(meeting_.listener, nullptr, nullptr, SOCK_CLOEXEC);
  }
}

// Reads and writes what the socket takes and has. False at its end, and once the rank is aborted.
bool Rank::exchange(int socket) {
  bool writes = false;
  {
    const std::lock_guard lock(mutex_);
    writes = !outgoing_.empty();
  }
  const short events = writes ? POLLIN | POLLOUT : POLLIN;
  pollfd waits[] = {{wake_, POLLIN, 0}, {socket, events, 0}};
  if (::poll(waits, 2, -1) < 0 && errno != EINTR) return false;
  uint64_t woken = 0;
  (void)!::read(wake_, &woken, sizeof woken);
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return false;
    if (!outgoing_.empty()) {
      const ssize_t sent =
          ::send(socket, outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent > 0) outgoing_.erase(0, static_cast<size_t>(sent));
    }
  }
  char bytes[1 << 16];
  const ssize_t received = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
  if (received == 0 || (received < 0 && errno != EAGAIN)) return false;
  if (received > 0) incoming_.append(bytes, static_cast<size_t>(received));
  return received < 0 || read_frames();
}

bool Rank::read_frames() {
  bool moved = false;
  size_t at = 0;
  for (Frame frame{}; incoming_.size() - at >= sizeof frame; moved = true) {
    std::memcpy(&frame, incoming_.data() + at, sizeof frame);
    if (incoming_.size() - at - sizeof frame < frame.bytes) break;
    if (!take_frame(frame, incoming_.data() + at + sizeof frame)) return false;
    at += sizeof frame + frame.bytes;
  }
  incoming_.erase(0, at);
  if (moved) fake_cuda::look_again();
  return true;
}

bool Rank::take_frame(const Frame& frame, const char* bytes) {
  const std::lock_guard lock(mutex_);
  switch (frame.kind) {
    case kHello:
      if (frame.number != static_cast<uint64_t>(1 - meeting_.number)) {
        fail(ncclInvalidUsage, "both ranks have the same number");
        return false;
      }
      connected_ = true;
      return true;
    case kWant:
      wanted_[frame.number] = {frame.count, frame.type};
      return true;
    case kValue:
      values_[frame.number].assign(bytes, frame.bytes);
      return true;
    case kMismatch:
      fail(ncclInvalidUsage, "value " + std::to_string(frame.number) +
                                 ": the other rank sends another type or another size");
      return true;
    default:
      return false;
  }
}

void Rank::put(const Frame& frame, const char* bytes) {
  outgoing_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  if (bytes) outgoing_.append(bytes, frame.bytes);
}

void Rank::fail(ncclResult_t result, std::string reason) {
  if (failure_ != ncclSuccess) return;
  failure_ = result;
  reason_ = std::move(reason);
}

void Rank::wake() {
  const uint64_t one = 1;
  (void)!::write(wake_, &one, sizeof one);
}

}  // namespace fake_nccl

#endif
