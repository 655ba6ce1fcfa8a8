// Helpers that the fuzz targets share. A target returns 0. A broken property aborts, which
// libFuzzer and the replay both report as a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "devices/base/status.h"
#include "devices/base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace leat {

// Checks a property. Unlike assert, it also works in release builds.
inline void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "broken property: %s\n", property);
  std::abort();
}

// Checks that an error has a message that can be printed, whatever it quotes.
inline void require_message(const Status& status) {
  require(!status.message().empty(), "an error has a message");
  require(is_utf8(status.message()), "a message is UTF-8");
}

inline std::span<const std::byte> bytes_of_input(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

}  // namespace leat
