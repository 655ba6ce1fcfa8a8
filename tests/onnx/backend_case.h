// ONNX's own conformance cases, as Debian's package libonnx-testdata lays them down: one folder a
// case, with model.onnx and test_data_set_N/{input,output}_M.pb.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"

namespace leat::testing {

inline constexpr char kBackendCases[] = "/usr/share/libonnx-testdata/data";

struct BackendData {
  std::string name;                     // "test_data_set_0"
  std::string folder;                   // absolute
  std::vector<Tensor> inputs, outputs;  // in the graph's order; an absent one is invalid
};

struct BackendCase {
  std::string name;    // "node/test_add"
  std::string folder;  // absolute
  Bytes model;
  std::set<std::string> ops;  // of every node, those of its regions and functions included
};

// Every case in data/{node,simple,pytorch-operator,pytorch-converted}, by name. Empty if the
// package is not there.
std::vector<BackendCase> backend_cases();

// The tensors of a case. An error for what is no tensor of numbers.
Result<std::vector<BackendData>> backend_data(const BackendCase& backend_case);

// The model with those of the data's inputs as initializers that say of what shape something is
// (axes, sizes, repeats): what runs compiled must know them before. `fed`: the inputs that remain.
struct FixedModel {
  Bytes model;
  std::vector<size_t> fed;
};
Result<FixedModel> fix_parameters(const BackendCase& backend_case, const BackendData& data);

// The cases have bfloat16 as its bits, in uint16: the tensor as `dtype` says.
Tensor retyped(const Tensor& tensor, DType dtype);

// As onnx.backend.test compares: same type and shape; floats within rtol 1e-3 and atol 1e-7, all
// else equal. Empty, or what differs first.
std::string difference(const Tensor& actual, const Tensor& expected);

}  // namespace leat::testing
