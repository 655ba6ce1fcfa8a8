// Tensors of ONNX files. Private to ops/onnx. A file may come from anywhere: sizes are checked
// before memory is allocated, and paths before they are opened.
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

// The directory of external data; without `files`, there may be none. `files` must outlive it.
struct OnnxExternal {
  Files* files = nullptr;
  // The directory of the model. Locations in the model are relative to it and must stay in it or
  // below it, also after symbolic links are followed.
  std::string directory;
};

// The number of bytes that the tensor declares; 0 if that is impossible. No file is read for it,
// since any number of tensors may name the same bytes of another file.
uint64_t claimed_bytes(const onnx_wire::TensorProto& proto);

// Reads the tensor from whichever field holds it: a file, raw_data, or the field of its type. The
// result has memory of its own. invalid_argument if the type is no number or bool (a string), if
// the shape is beyond the limits, if the number of elements or bytes is not that of the shape, if
// an element does not fit its type, and for external data without `files`, outside of the directory
// or past the end of its file. A byte other than 0 counts as true. Messages begin with the tensor's
// name; errors of opening a file are those of Files.
Result<Tensor> tensor_of(const onnx_wire::TensorProto& proto, const OnnxExternal& external);

}  // namespace leat
