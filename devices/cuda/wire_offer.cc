#include "devices/cuda/wire_offer.h"

#include <cstdint>
#include <cstring>

#include "devices/base/text.h"

namespace leat::cuda {
namespace {

uint32_t number_in(const char (&version)[4]) {
  uint32_t number = 0;
  for (size_t i = 0; i < sizeof version; ++i)
    number |= static_cast<uint32_t>(static_cast<unsigned char>(version[i])) << 8 * i;
  return number;
}

}  // namespace

Status check_offer(std::string_view offer, size_t bytes, const OfferHead& head,
                   std::string_view kind, std::string_view subject) {
  if (offer.size() != bytes) {
    return invalid_argument(
        cat(subject, ": expected an offer of ", bytes, " bytes, received ", offer.size()));
  }
  OfferHead received{};
  std::memcpy(&received, offer.data(), sizeof received);
  if (std::memcmp(received.magic, head.magic, sizeof head.magic) != 0) {
    return invalid_argument(
        cat(subject, ": expected an offer of a wire ", kind, ", received one of another kind"));
  }
  const uint32_t expected = number_in(head.version), version = number_in(received.version);
  if (version == expected) return {};
  return invalid_argument(
      cat(subject, ": expected an offer of version ", expected, ", received version ", version));
}

}  // namespace leat::cuda
