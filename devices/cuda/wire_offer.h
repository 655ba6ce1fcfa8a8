// The head of every offer of a wire of a GPU, by which one of another kind or version is refused.
#pragma once

#include <cstddef>
#include <string_view>

#include "devices/base/status.h"

namespace leat::cuda {

// The first bytes of an offer. Threads: a value.
struct OfferHead {
  char magic[4];    // of the kind
  char version[4];  // little-endian
};

// Ok if `offer` has `bytes` bytes and begins with that head; else invalid_argument. `kind` names
// the wire in messages ("by NCCL"), and `subject` the end that reads the offer.
Status check_offer(std::string_view offer, size_t bytes, const OfferHead& head,
                   std::string_view kind, std::string_view subject);

}  // namespace leat::cuda
