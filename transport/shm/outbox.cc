#include "transport/shm/outbox.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "devices/base/align.h"
#include "devices/base/text.h"

namespace leat::shm {
namespace {

constexpr uint64_t kSlotAlignment = 4096;              // a page
constexpr uint64_t kOutboxMagic = 0x3154554F5441454C;  // "LEATOUT1"

// The first bytes that an end sends. `places` places follow, and with them the file, if there are
// any.
struct Head {
  uint64_t magic = kOutboxMagic, places = 0;
};
struct Place {
  uint64_t edge = 0, offset = 0;
};

// A slot in a peer's file. It maps its own pages and nothing else of the file.
class SharedSlot final : public Buffer {
 public:
  SharedSlot(void* data, size_t bytes) : data_(data), bytes_(bytes) {}
  ~SharedSlot() override { ::munmap(data_, align_up(bytes_, kSlotAlignment)); }
  SharedSlot(const SharedSlot&) = delete;
  SharedSlot& operator=(const SharedSlot&) = delete;
  void* data() const override { return data_; }
  size_t size() const override { return bytes_; }

 private:
  void* data_;
  size_t bytes_;
};

// Sends our message: the head, the places of the edges to this peer, and the file with the first
// place.
Status tell(int socket, const Outbox* mine, const LinkSetup& setup, Deadline deadline,
            std::string_view subject) {
  std::vector<Place> places;
  for (const LinkEdge& edge : setup.outgoing)
    if (mine && mine->has(edge.edge)) places.push_back({edge.edge, mine->offset(edge.edge)});
  const Head head{kOutboxMagic, places.size()};
  const auto bytes = std::as_bytes(std::span(&head, 1));
  if (places.empty()) return send_all(socket, bytes, deadline, subject);
  const int files[] = {mine->descriptor()};
  LEAT_RETURN_IF_ERROR(send_all(socket, bytes, deadline, subject));
  const auto first = std::as_bytes(std::span(places)).first(sizeof(Place));
  LEAT_RETURN_IF_ERROR(send_descriptors(socket, first, files, deadline, subject));
  return send_all(socket, std::as_bytes(std::span(places)).subspan(sizeof(Place)), deadline,
                  subject);
}

// Maps the kSlotDepth slots of an edge, which begin at the place's offset in the peer's file.
Result<std::vector<std::unique_ptr<Buffer>>> map_slots(int file, uint64_t file_bytes,
                                                       const Place& place, uint64_t bytes,
                                                       std::string_view subject) {
  const uint64_t stride = align_up(bytes, kSlotAlignment);
  // The peer says where the slots are, so each number is compared with the file's size. The
  // subtraction comes after the comparison, and cannot wrap.
  if (bytes == 0 || place.offset % kSlotAlignment != 0 || place.offset > file_bytes ||
      file_bytes - place.offset < kSlotDepth * stride)
    return invalid_argument(cat(subject, ": edge ", place.edge, ": expected slots of ", bytes,
                                " bytes, received them at ", place.offset, " of ", file_bytes));
  std::vector<std::unique_ptr<Buffer>> slots;
  for (uint64_t parity = 0; parity < kSlotDepth; ++parity) {
    void* const data = ::mmap(nullptr, stride, PROT_READ, MAP_SHARED | MAP_POPULATE, file,
                              static_cast<off_t>(place.offset + parity * stride));
    if (data == MAP_FAILED)
      return resource_exhausted(cat(subject, ": expected room to map ", human_bytes(bytes)));
    slots.push_back(std::make_unique<SharedSlot>(data, bytes));
  }
  return slots;
}

// The size of a peer's file, if the file cannot shrink any more.
Result<uint64_t> sealed_bytes(int file, std::string_view subject) {
  const int seals = ::fcntl(file, F_GET_SEALS);
  struct stat about {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(file, &about) != 0)
    return invalid_argument(cat(subject, ": expected a sealed memory file"));
  return static_cast<uint64_t>(about.st_size);
}

}  // namespace

Result<std::shared_ptr<const Outbox>> Outbox::create(const std::vector<Value>& values) {
  uint64_t bytes = 0;
  for (const Value& value : values) bytes += kSlotDepth * align_up(value.bytes, kSlotAlignment);
  LEAT_ASSIGN_OR_RETURN(auto file, MemoryFile::create("leat-outbox", bytes, Writers::this_mapping));
  std::shared_ptr<Outbox> outbox(new Outbox(std::move(file)));
  uint64_t at = 0;
  for (const Value& value : values) {
    const uint64_t stride = align_up(value.bytes, kSlotAlignment);
    // All edges of the value name the same slots.
    for (uint32_t edge : value.edges) outbox->offsets_[edge] = {at, stride};
    at += kSlotDepth * stride;
  }
  return std::shared_ptr<const Outbox>(std::move(outbox));
}

std::byte* Outbox::slot(uint32_t edge, uint64_t turn) const {
  const auto& [first, stride] = offsets_.at(edge);
  return file_->data() + first + turn % kSlotDepth * stride;
}

std::vector<LinkEdge> edges_outside(const std::vector<LinkEdge>& edges, const Outbox* outbox) {
  std::vector<LinkEdge> outside = edges;
  for (LinkEdge& edge : outside)
    // Such an edge keeps its counters in the receiver's arena.
    if (outbox && outbox->has(edge.edge)) edge.bytes = 0;
  return outside;
}

void ShownSlots::open_slots(SlotTable& slots) && {
  for (Edge& shown : shown_) slots.open(shown.edge.edge, shown.edge.bytes, std::move(shown.slots));
  shown_.clear();
}

Result<ShownSlots> exchange_outboxes(int socket, const Outbox* mine, const LinkSetup& setup,
                                     Deadline deadline) {
  const std::string subject =
      cat("link ", setup.self, " to ", setup.peer, ": what it shows to several");
  LEAT_RETURN_IF_ERROR(tell(socket, mine, setup, deadline, subject));
  Head head;
  LEAT_RETURN_IF_ERROR(
      receive_all(socket, std::as_writable_bytes(std::span(&head, 1)), deadline, subject));
  // The number is judged before memory is taken for the places.
  if (head.magic != kOutboxMagic || head.places > setup.incoming.size())
    return invalid_argument(cat(subject, ": expected places of ", setup.incoming.size(),
                                " edges at most, received ", head.places));
  ShownSlots shown;
  shown.edges_ = setup.incoming;
  if (head.places == 0) return shown;
  std::vector<Place> places(head.places);
  const auto into = std::as_writable_bytes(std::span(places));
  LEAT_ASSIGN_OR_RETURN(
      const std::vector<Descriptor> files,
      receive_descriptors(socket, into.first(sizeof(Place)), 1, deadline, subject));
  LEAT_RETURN_IF_ERROR(receive_all(socket, into.subspan(sizeof(Place)), deadline, subject));
  LEAT_ASSIGN_OR_RETURN(const uint64_t bytes, sealed_bytes(files[0].get(), subject));
  auto edge = shown.edges_.begin();  // both lists ascend by edge
  for (const Place& place : places) {
    while (edge != shown.edges_.end() && edge->edge < place.edge) ++edge;
    if (edge == shown.edges_.end() || edge->edge != place.edge)
      return invalid_argument(cat(subject, ": edge ", place.edge, ": it does not come from there"));
    LEAT_ASSIGN_OR_RETURN(auto slots,
                          map_slots(files[0].get(), bytes, place, edge->bytes, subject));
    shown.shown_.push_back({*edge, std::move(slots)});
    // A second place for the same edge is refused, since it now has no bytes.
    edge->bytes = 0;
  }
  return shown;
}

}  // namespace leat::shm
