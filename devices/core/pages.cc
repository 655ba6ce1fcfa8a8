#include "devices/core/pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "devices/base/text.h"

namespace leat {
namespace {

size_t whole_pages(size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

// A range of addresses, unmapped by the destructor. The memory itself goes with its last mapping.
class Mapping final : public Buffer {
 public:
  Mapping(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~Mapping() override {
    if (bytes_ > 0) ::munmap(data_, whole_pages(bytes_));
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void* data() const override { return data_; }
  size_t size() const override { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

Status no_room(size_t bytes) {
  return resource_exhausted(
      cat("memory in pages: expected room for ", human_bytes(bytes), ", there is none"));
}

}  // namespace

Result<std::unique_ptr<Buffer>> allocate_pages(size_t bytes) {
  if (bytes == 0) return std::unique_ptr<Buffer>(std::make_unique<Mapping>(nullptr, 0));
  // Only shared memory can be shown at a second address.
  void* data = ::mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (data == MAP_FAILED) return no_room(bytes);
  return std::unique_ptr<Buffer>(std::make_unique<Mapping>(data, bytes));
}

Result<std::unique_ptr<Buffer>> join_pages(std::span<const Pages> pieces) {
  // Only the last piece may end within a page.
  size_t bytes = 0;
  for (const Pages& piece : pieces) {
    if (reinterpret_cast<uintptr_t>(piece.data) % kPageBytes != 0 || piece.bytes == 0 ||
        bytes % kPageBytes != 0)
      return internal_error("joining pages: expected pieces of whole pages");
    bytes += piece.bytes;
  }
  if (bytes == 0) return std::unique_ptr<Buffer>(std::make_unique<Mapping>(nullptr, 0));
  // Reserves the addresses. The loop below puts one piece after the other there.
  void* const data = ::mmap(nullptr, whole_pages(bytes), PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return no_room(bytes);
  auto joined = std::make_unique<Mapping>(data, bytes);
  auto* at = static_cast<std::byte*>(data);
  for (const Pages& piece : pieces) {
    const size_t length = whole_pages(piece.bytes);
    // With an old size of 0 the old range stays, and its pages get a second address: see mremap(2).
    if (::mremap(piece.data, 0, length, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
      return resource_exhausted(
          cat("showing ", human_bytes(piece.bytes), " of memory twice: ", std::strerror(errno)));
#ifdef MADV_POPULATE_WRITE
    // Otherwise the first use of each page takes a fault. Pieces of a peer may be read-only.
    if (::madvise(at, length, MADV_POPULATE_WRITE) != 0)
      (void)::madvise(at, length, MADV_POPULATE_READ);
#endif
    at += length;
  }
  return std::unique_ptr<Buffer>(std::move(joined));
}

}  // namespace leat
