#include "transport/shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "devices/base/align.h"
#include "devices/base/crc32c.h"
#include "devices/base/text.h"

namespace leat::shm {
namespace {

constexpr size_t kLine = 64, kPage = 4096;
constexpr uint64_t kArenaMagic = 0x314D48535441454C;  // "LEATSHM1"

// The first bytes of an arena, as arena.h draws them. The size and the checksum of the edges show
// that both ends have the same layout.
struct Header {
  uint64_t magic, size, edges;
};

// A slot takes whole pages, so that a joined value can map them a second time.
size_t slot_bytes(const LinkEdge& edge) { return align_up(edge.bytes, kPage); }
// The header has one cache line, and each counter one of its own: the two ends write different
// lines.
size_t counters_end(size_t edges) { return align_up(kLine + edges * 2 * kLine, kPage); }

// CRC-32C over the index and the size of each edge, in order.
uint32_t checksum(const std::vector<LinkEdge>& edges) {
  uint32_t crc = 0;
  for (const LinkEdge& e : edges) {
    const uint64_t words[2] = {e.edge, e.bytes};
    crc = crc32c(std::as_bytes(std::span(words)), crc);
  }
  return crc;
}

// A slot in an arena. The arena stays mapped while any slot exists.
class SlotBuffer final : public Buffer {
 public:
  SlotBuffer(std::shared_ptr<MemoryFile> file, std::byte* data, size_t size)
      : file_(std::move(file)), data_(data), size_(size) {}
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  std::shared_ptr<MemoryFile> file_;
  std::byte* data_;
  size_t size_;
};

}  // namespace

Result<std::shared_ptr<MemoryFile>> MemoryFile::map(Descriptor file, size_t bytes) {
  // The pages are mapped in advance, because a page fault would cost time in the middle of a step.
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (data == MAP_FAILED)
    return resource_exhausted(
        cat("shared memory: expected room to map ", human_bytes(bytes), ", there is none"));
  return std::shared_ptr<MemoryFile>(
      new MemoryFile(std::move(file), static_cast<std::byte*>(data), bytes));
}

Result<std::shared_ptr<MemoryFile>> MemoryFile::create(const char* name, size_t bytes,
                                                       Writers writers) {
  // A memory file has no name that another process could open. It goes only where its descriptor
  // goes.
  Descriptor file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return system_error("shared memory", errno);
  // Allocates the pages now, because a page that is missing later raises SIGBUS.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return system_error(cat("shared memory of ", human_bytes(bytes)), error);
  LEAT_ASSIGN_OR_RETURN(auto mapped, map(std::move(file), bytes));
  const int writable = writers == Writers::all ? 0 : F_SEAL_FUTURE_WRITE;  // not this mapping
  if (::fcntl(mapped->descriptor(), F_ADD_SEALS,
              F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | writable) != 0)
    return system_error("sealing shared memory", errno);
  return mapped;
}

Result<std::shared_ptr<MemoryFile>> MemoryFile::open(Descriptor file, size_t bytes,
                                                     std::string_view peer) {
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  // A peer that could cut the file short would kill this process with SIGBUS.
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return invalid_argument(cat("shared memory of ", peer, ": expected a sealed memory file"));
  struct stat about {};
  if (::fstat(file.get(), &about) != 0 || static_cast<uint64_t>(about.st_size) != bytes) {
    return invalid_argument(
        cat("shared memory of ", peer, ": expected ", bytes, " bytes, received ", about.st_size));
  }
  return map(std::move(file), bytes);
}

MemoryFile::~MemoryFile() { ::munmap(data_, size_); }

size_t Arena::bytes_for(const std::vector<LinkEdge>& edges) {
  size_t bytes = counters_end(edges.size());
  for (const LinkEdge& edge : edges) bytes += kSlotDepth * slot_bytes(edge);
  return bytes;
}

Arena::Arena(std::shared_ptr<MemoryFile> file, std::vector<LinkEdge> edges)
    : file_(std::move(file)), edges_(std::move(edges)) {
  // Both ends compute the same offsets from the same edges, so none are sent.
  size_t offset = counters_end(edges_.size());
  for (const LinkEdge& edge : edges_) {
    offsets_.push_back(offset);
    offset += kSlotDepth * slot_bytes(edge);
  }
}

Result<Arena> Arena::create(const std::vector<LinkEdge>& edges) {
  LEAT_ASSIGN_OR_RETURN(auto file, MemoryFile::create("leat-slots", bytes_for(edges)));
  const Header header{kArenaMagic, file->size(), checksum(edges)};
  std::memcpy(file->data(), &header, sizeof header);
  return Arena(std::move(file), edges);
}

Result<Arena> Arena::open(Descriptor descriptor, const std::vector<LinkEdge>& edges,
                          std::string_view peer) {
  // The size is compared before the file is mapped, and the header before any counter is read.
  LEAT_ASSIGN_OR_RETURN(auto file, MemoryFile::open(std::move(descriptor), bytes_for(edges), peer));
  const Header expected{kArenaMagic, file->size(), checksum(edges)};
  if (std::memcmp(file->data(), &expected, sizeof expected) != 0)
    return invalid_argument(cat("shared memory of ", peer, ": it is for other edges"));
  return Arena(std::move(file), edges);
}

std::atomic<uint64_t>* Arena::counter(size_t i, size_t which) const {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  return reinterpret_cast<std::atomic<uint64_t>*>(file_->data() + kLine + (2 * i + which) * kLine);
}

std::byte* Arena::slot(size_t i, uint64_t turn) const {
  return file_->data() + offsets_[i] + turn % kSlotDepth * slot_bytes(edges_[i]);
}

void Arena::open_slots(SlotTable& slots) const {
  for (size_t i = 0; i < edges_.size(); ++i) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    // A token has counters and no slots.
    for (uint64_t parity = 0; edges_[i].bytes > 0 && parity < kSlotDepth; ++parity)
      buffers.push_back(std::make_unique<SlotBuffer>(file_, slot(i, parity), edges_[i].bytes));
    slots.open(edges_[i].edge, edges_[i].bytes, std::move(buffers));
  }
}

}  // namespace leat::shm
