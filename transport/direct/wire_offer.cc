#include "transport/direct/wire_offer.h"

#include <cstring>

#include "devices/base/text.h"
#include "transport/direct/announcement.h"

namespace leat::direct {
namespace {

constexpr size_t kMemoryAt = 0, kLengthAt = 8, kOfferAt = 16, kCountAt = kOfferAt + kMostOfferBytes,
                 kClosedAt = kCountAt + 8;

void put_number(std::byte* at, uint64_t number) {
  const Announcement bytes(number);
  std::memcpy(at, bytes.bytes.data(), bytes.bytes.size());
}

}  // namespace

std::array<std::byte, kOfferBytes> WireOffer::written() const {
  std::array<std::byte, kOfferBytes> out{};
  put_number(out.data() + kMemoryAt, memory);
  put_number(out.data() + kLengthAt, offer.size());
  std::memcpy(out.data() + kOfferAt, offer.data(), offer.size());
  put_number(out.data() + kCountAt, closed.size());
  for (size_t i = 0; i < closed.size(); ++i) put_number(out.data() + kClosedAt + 8 * i, closed[i]);
  return out;
}

Result<WireOffer> WireOffer::read(const void* at) {
  const auto* in = static_cast<const std::byte*>(at);
  const uint64_t length = Announcement::read(in + kLengthAt);
  const uint64_t count = Announcement::read(in + kCountAt);
  if (length > kMostOfferBytes || count > WireMemory::kMostTold) {
    return invalid_argument(cat("expected the offer of a wire of at most ", kMostOfferBytes,
                                " bytes, with at most ", WireMemory::kMostTold,
                                " closed memories, received ", length, " and ", count));
  }
  WireOffer offer;
  offer.memory = Announcement::read(in + kMemoryAt);
  offer.offer.assign(reinterpret_cast<const char*>(in) + kOfferAt, length);
  for (size_t i = 0; i < count; ++i)
    offer.closed.push_back(Announcement::read(in + kClosedAt + 8 * i));
  return offer;
}

}  // namespace leat::direct
