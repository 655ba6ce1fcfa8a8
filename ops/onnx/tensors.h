// Tensors of ONNX files.
#pragma once

#include <string>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/tensor.h"

namespace leat::onnx_wire {
class TensorProto;
}

namespace leat {

// Where external data may lie; no files: nowhere.
struct OnnxExternal {
  Files* files = nullptr;
  std::string directory;
};

// The tensor, whichever of the fields it is in. Messages begin with its name.
Result<Tensor> tensor_of(const onnx_wire::TensorProto& proto, const OnnxExternal& external);

}  // namespace leat
