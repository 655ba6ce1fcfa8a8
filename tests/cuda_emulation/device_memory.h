// The memory of the fake runtime's device, and memory of the same kind of other processes that was
// opened here. Each piece ends at a page that no thread may touch, as far as the alignment allows,
// and holds NaNs at first. A handle names a piece for other processes: a thread gives them its
// descriptor over a socket.
//
// Threads: one at a time, but for fetch().
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace fake_cuda {

class MemoryServer;

class DeviceMemory {
 public:
  DeviceMemory();
  ~DeviceMemory();

  // Null if the host has no memory.
  void* allocate(size_t bytes);
  // The size of what was freed; no piece of an allocation begins with any other address: 0.
  size_t free(void* data);
  // All of it can be read and written from now on, or none.
  void set_open(bool open);
  // Whether a piece has all of these bytes, or any of them or of a page that nothing may touch.
  bool contains(const void* data, size_t bytes) const;
  bool touches(const void* data, size_t bytes) const;
  size_t bytes_in_use() const;

  cudaError_t share(const void* data, cudaIpcMemHandle_t* handle);
  // The descriptor of memory that another process has shared, for open(); -1 with the error. Waits
  // for that process. Threads: any.
  int fetch(const cudaIpcMemHandle_t& handle, cudaError_t* error) const;
  // Takes the descriptor. Memory that is open already has the same address again, and must be
  // closed as often.
  cudaError_t open(void** data, const cudaIpcMemHandle_t& handle, int descriptor);
  cudaError_t close(void* data);

 private:
  struct Piece {
    std::byte* pages;  // without the guard page behind them
    size_t mapped, bytes;
    int descriptor;         // of an allocation; -1: it cannot be shared
    uint64_t id = 0;        // by which it was shared; 0: it was not
    uint64_t owner = 0;     // the process that shares it; 0: this one
    size_t times_open = 0;  // memory of another process
  };
  // Maps so many bytes of the file, or of none, and returns their address.
  std::byte* map(size_t bytes, int descriptor, Piece& piece) const;
  const Piece* piece_of(const void* data) const;
  void unmap(std::map<std::byte*, Piece>::iterator at);

  std::map<std::byte*, Piece> pieces_;  // by the address that callers know
  bool open_ = false;
  std::unique_ptr<MemoryServer> server_;
};

}  // namespace fake_cuda
