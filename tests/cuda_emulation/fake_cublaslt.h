// A fake of cuBLASLt for the emulated GPU. It checks what it is given, refuses what it believes
// that the library refuses, and computes with plain loops.
#pragma once

#include <cstdint>

namespace fake_cublaslt {

// The machine has no such library from now on, or has it again.
void hide(bool hidden);
// Products that were enqueued so far.
uint64_t products();

}  // namespace fake_cublaslt
