// Narrow types in ONNX files: elements of 6, 4 and 2 bits follow each other without gaps there,
// from the low bits of each byte to the high ones. In memory each is a byte
// (devices/base/narrow.h). Private to ops/onnx.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "devices/core/tensor.h"

namespace leat {

// The bytes of so many elements in a file. REQUIRES: elements >= 0, at most limits::kElements.
uint64_t stored_bytes(DType dtype, int64_t elements);

// Fills `tensor`, of a narrow type, from the bytes of a file. Bits that are left over are not read.
// REQUIRES: stored has stored_bytes() of the tensor.
void unpack(std::span<const std::byte> stored, Tensor& tensor);

// The bytes for a file: the tensor itself if its type is not narrow, else a vector of uint8.
Tensor packed(const Tensor& tensor);

// The first opset in which ONNX's op takes and gives values of a narrow type; 0 if none has it, 1
// for other types.
int64_t opset_with(std::string_view op, DType dtype);

}  // namespace leat
