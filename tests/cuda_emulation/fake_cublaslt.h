// A fake of cuBLASLt for the emulated GPU. It checks what it is given, refuses what it believes
// that the library refuses, and computes with plain loops.
#pragma once

#include <cstdint>
#include <string>

namespace fake_cublaslt {

// The machine has no such library from now on, or has it again.
void hide(bool hidden);
// From now on there is no layout for a matrix of so many rows; with 0 there are all again.
void refuse_layouts(uint64_t rows);
// Products that were enqueued so far.
uint64_t products();

// From now on the fake answers a product as the library has that wrote this file (ProductAnswers in
// ops/cuda/product_answers.h): with the same refusal, or the same workspace. An algorithm that was
// found, and not accepted, is a refusal. Its algorithms stay the fake's own, and so do the answers
// to products that the file does not have. Returns the number of products in the file, or -1 if it
// cannot be read or is malformed, which changes nothing; "" ends it. A process that a test starts
// takes the file that LEAT_FAKE_CUBLASLT_ANSWERS names. REQUIRES: no device is open.
int replay(const std::string& path);
// Products that were answered from the file so far.
uint64_t replayed();

}  // namespace fake_cublaslt
