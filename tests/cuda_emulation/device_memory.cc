#include "tests/cuda_emulation/device_memory.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "tests/cuda_emulation/abstract_socket.h"

namespace fake_cuda {
namespace {

constexpr size_t kAlignment = 256;

// The bytes of a cudaIpcMemHandle_t.
struct SharedName {
  char magic[8];
  uint64_t process, id, bytes;
};
constexpr char kMagic[8] = {'f', 'a', 'k', 'e', 'I', 'P', 'C', '1'};
static_assert(sizeof(SharedName) <= sizeof(cudaIpcMemHandle_t));

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}
size_t up_to(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::string server_name(uint64_t process) { return "leat-fake-cuda-" + std::to_string(process); }

size_t mapped_bytes(size_t bytes) { return up_to(up_to(bytes, kAlignment), page_bytes()); }
// Pages that the file lacks cannot be touched.
bool has_size(int descriptor, size_t bytes) {
  struct stat about {};
  return ::fstat(descriptor, &about) == 0 &&
         static_cast<size_t>(about.st_size) == mapped_bytes(bytes);
}

// One byte with a descriptor, or without one: -1.
void send_descriptor(int socket, int descriptor) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  (void)::sendmsg(socket, &message, MSG_NOSIGNAL);
}
int receive_descriptor(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

}  // namespace

// Gives other processes the descriptors of what this one has shared. Threads: any.
class MemoryServer {
 public:
  MemoryServer() : process_(unique_number()), listener_(listen_at(server_name(process_))) {
    if (listener_ < 0) return;
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] { serve(); });
  }
  ~MemoryServer() {
    if (!thread_.joinable()) return;
    const uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
    ::close(stop_);
    ::close(listener_);
  }
  uint64_t process() const { return process_; }
  bool serves() const { return listener_ >= 0; }
  void add(uint64_t id, int descriptor) {
    const std::lock_guard lock(mutex_);
    descriptors_[id] = descriptor;
  }
  void remove(uint64_t id) {
    const std::lock_guard lock(mutex_);
    descriptors_.erase(id);
  }

 private:
  void serve() {
    while (true) {
      pollfd waits[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0 && errno != EINTR) return;
      if (waits[1].revents) return;
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      uint64_t id = 0;
      if (::recv(client, &id, sizeof id, MSG_WAITALL) == sizeof id) {
        // It is not closed before it is sent.
        const std::lock_guard lock(mutex_);
        const auto at = descriptors_.find(id);
        send_descriptor(client, at == descriptors_.end() ? -1 : at->second);
      }
      ::close(client);
    }
  }

  const uint64_t process_;
  const int listener_;
  int stop_ = -1;
  std::mutex mutex_;
  std::map<uint64_t, int> descriptors_;  // by id
  std::thread thread_;
};

DeviceMemory::DeviceMemory() = default;
DeviceMemory::~DeviceMemory() = default;

std::byte* DeviceMemory::map(size_t bytes, int descriptor, Piece& piece) const {
  const size_t page = page_bytes(), aligned = up_to(bytes, kAlignment);
  const size_t mapped = mapped_bytes(bytes);
  // First all of it as pages that nothing may touch, so that one of them stays behind.
  void* pages = ::mmap(nullptr, mapped + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  const int flags = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  if (::mmap(pages, mapped, PROT_READ | PROT_WRITE, flags | MAP_FIXED, descriptor, 0) != pages) {
    ::munmap(pages, mapped + page);
    return nullptr;
  }
  piece.pages = static_cast<std::byte*>(pages);
  piece.mapped = mapped;
  piece.bytes = bytes;
  // The end is at the guard page.
  return piece.pages + mapped - aligned;
}

void* DeviceMemory::allocate(size_t bytes) {
  int descriptor = ::memfd_create("leat-fake-cuda", MFD_CLOEXEC);
  const size_t mapped = mapped_bytes(bytes);
  if (descriptor >= 0 && ::ftruncate(descriptor, static_cast<off_t>(mapped)) != 0) {
    ::close(descriptor);
    descriptor = -1;
  }
  Piece piece{};
  piece.descriptor = descriptor;
  std::byte* user = map(bytes, descriptor, piece);
  if (!user) {
    if (descriptor >= 0) ::close(descriptor);
    return nullptr;
  }
  std::memset(piece.pages, 0xff, piece.mapped);
  if (!open_) ::mprotect(piece.pages, piece.mapped, PROT_NONE);
  pieces_[user] = piece;
  return user;
}

void DeviceMemory::unmap(std::map<std::byte*, Piece>::iterator at) {
  const Piece& piece = at->second;
  if (piece.owner == 0 && piece.id != 0) server_->remove(piece.id);
  if (piece.descriptor >= 0) ::close(piece.descriptor);
  ::munmap(piece.pages, piece.mapped + page_bytes());
  pieces_.erase(at);
}

size_t DeviceMemory::free(void* data) {
  const auto at = pieces_.find(static_cast<std::byte*>(data));
  if (at == pieces_.end() || at->second.owner != 0) return 0;
  const size_t bytes = at->second.bytes;
  unmap(at);
  return bytes;
}

void DeviceMemory::set_open(bool open) {
  if (open_ == open) return;
  open_ = open;
  for (const auto& [at, piece] : pieces_)
    ::mprotect(piece.pages, piece.mapped, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

const DeviceMemory::Piece* DeviceMemory::piece_of(const void* data) const {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(data));
  const auto at = pieces_.upper_bound(begin);
  return at == pieces_.begin() ? nullptr : &std::prev(at)->second;
}

bool DeviceMemory::contains(const void* data, size_t bytes) const {
  const Piece* piece = piece_of(data);
  if (!piece) return false;
  const auto* user = piece->pages + piece->mapped - up_to(piece->bytes, kAlignment);
  return static_cast<const std::byte*>(data) + bytes <= user + piece->bytes;
}

bool DeviceMemory::touches(const void* data, size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& entry) {
    const Piece& piece = entry.second;
    return begin < piece.pages + piece.mapped + page_bytes() && begin + bytes > piece.pages;
  });
}

size_t DeviceMemory::bytes_in_use() const {
  size_t bytes = 0;
  for (const auto& [at, piece] : pieces_) bytes += piece.owner == 0 ? piece.bytes : 0;
  return bytes;
}

cudaError_t DeviceMemory::share(const void* data, cudaIpcMemHandle_t* handle) {
  const auto at = pieces_.find(static_cast<std::byte*>(const_cast<void*>(data)));
  if (at == pieces_.end() || at->second.owner != 0) return cudaErrorInvalidValue;
  if (!server_) server_ = std::make_unique<MemoryServer>();
  Piece& piece = at->second;
  if (piece.descriptor < 0 || !server_->serves()) return cudaErrorNotSupported;
  if (piece.id == 0) {
    piece.id = unique_number();
    server_->add(piece.id, piece.descriptor);
  }
  SharedName name{{}, server_->process(), piece.id, piece.bytes};
  std::memcpy(name.magic, kMagic, sizeof kMagic);
  *handle = {};
  std::memcpy(handle, &name, sizeof name);
  return cudaSuccess;
}

int DeviceMemory::fetch(const cudaIpcMemHandle_t& handle, cudaError_t* error) const {
  SharedName name{};
  std::memcpy(&name, &handle, sizeof name);
  *error = cudaErrorInvalidValue;
  if (std::memcmp(name.magic, kMagic, sizeof kMagic) != 0) return -1;
  *error = cudaErrorMapBufferObjectFailed;
  const int socket = connect_to(server_name(name.process));
  if (socket < 0) return -1;
  const bool asked = ::send(socket, &name.id, sizeof name.id, MSG_NOSIGNAL) == sizeof name.id;
  const int descriptor = asked ? receive_descriptor(socket) : -1;
  ::close(socket);
  if (descriptor >= 0) *error = cudaSuccess;
  return descriptor;
}

cudaError_t DeviceMemory::open(void** data, const cudaIpcMemHandle_t& handle, int descriptor) {
  SharedName name{};
  std::memcpy(&name, &handle, sizeof name);
  cudaError_t error = cudaErrorMapBufferObjectFailed;
  Piece piece{};
  piece.descriptor = -1;
  piece.id = name.id;
  piece.owner = name.process;
  piece.times_open = 1;
  const auto known = std::find_if(pieces_.begin(), pieces_.end(), [&](const auto& entry) {
    return entry.second.id == name.id && entry.second.owner == name.process;
  });
  if (server_ && server_->process() == name.process) {
    error = cudaErrorDeviceUninitialized;  // as CUDA calls memory of the same process
  } else if (known != pieces_.end()) {
    ++known->second.times_open;
    *data = known->first;
    error = cudaSuccess;
  } else if (std::byte* user =
                 has_size(descriptor, name.bytes) ? map(name.bytes, descriptor, piece) : nullptr) {
    if (!open_) ::mprotect(piece.pages, piece.mapped, PROT_NONE);
    pieces_[user] = piece;
    *data = user;
    error = cudaSuccess;
  }
  ::close(descriptor);
  return error;
}

cudaError_t DeviceMemory::close(void* data) {
  const auto at = pieces_.find(static_cast<std::byte*>(data));
  if (at == pieces_.end() || at->second.owner == 0) return cudaErrorInvalidValue;
  if (--at->second.times_open == 0) unmap(at);
  return cudaSuccess;
}

}  // namespace fake_cuda
