// Tensors of ONNX files.
#pragma once

#include <cstdint>
#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat::onnx_wire {
class TensorProto;
}

namespace leat {

// The directory of external data; without `files`, there may be none.
struct OnnxExternal {
  Files* files = nullptr;
  std::string directory;
};

// The number of bytes that the tensor declares; 0 if that is impossible. No file is read for it,
// since any number of tensors may name the same bytes of another file.
uint64_t claimed_bytes(const onnx_wire::TensorProto& proto);

// Reads the tensor from whichever field holds it. Messages begin with its name.
Result<Tensor> tensor_of(const onnx_wire::TensorProto& proto, const OnnxExternal& external);

}  // namespace leat
