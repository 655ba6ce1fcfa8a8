// The first bytes of an encrypted file of a run (daemon/checkpoint/sealed_chunks.h). A master opens
// such files with its key, so it takes none from a client: it would decrypt a stolen one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"

namespace leat {

inline constexpr std::string_view kSealedMagic = "leatseal";

// True if a file that begins with these bytes is encrypted. `start` may be shorter than the magic.
inline bool begins_sealed(std::span<const std::byte> start) {
  return start.size() >= kSealedMagic.size() &&
         std::ranges::equal(start.first(kSealedMagic.size()),
                            std::as_bytes(std::span(kSealedMagic)));
}

// The refusal of an encrypted file that a client sends; `subject` names the file.
inline Status refuse_sealed(std::string_view subject) {
  return invalid_argument(cat(subject,
                              ": expected a file that is not encrypted, received one that "
                              "begins with '",
                              kSealedMagic, "'; export it first (leat checkpoint export)"));
}

}  // namespace leat
