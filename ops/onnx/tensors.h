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

// Where external data may lie; no files: nowhere.
struct OnnxExternal {
  Files* files = nullptr;
  std::string directory;
};

// The bytes that the tensor claims; 0 if its claim is impossible. Nothing is read to find them: any
// number of tensors may name the same bytes of another file.
uint64_t claimed_bytes(const onnx_wire::TensorProto& proto);

// The tensor, whichever of the fields it is in. Messages begin with its name.
Result<Tensor> tensor_of(const onnx_wire::TensorProto& proto, const OnnxExternal& external);

}  // namespace leat
