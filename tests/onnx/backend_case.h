// ONNX's own conformance cases, as Debian's package libonnx-testdata lays them down: one folder a
// case, with model.onnx and test_data_set_N/{input,output}_M.pb.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/tensor.h"

namespace leat::testing {

inline constexpr char kBackendCases[] = "/usr/share/libonnx-testdata/data";

struct BackendData {
  std::string name;  // "test_data_set_0"
  std::vector<Tensor> inputs, outputs;  // in the graph's order; an absent one is invalid
};

struct BackendCase {
  std::string name;    // "node/test_add"
  std::string folder;  // absolute
  Bytes model;
  std::set<std::string> ops;  // of every node, those of its regions and functions included
};

// Every case in data/{node,simple,pytorch-operator,pytorch-converted}, by name. Empty if the package
// is not there.
std::vector<BackendCase> backend_cases();

// The tensors of a case. An error for what is no tensor of numbers.
Result<std::vector<BackendData>> backend_data(const BackendCase& backend_case);

// As onnx.backend.test compares: same type and shape; floats within rtol 1e-3 and atol 1e-7, all else
// equal. Empty, or what differs first.
std::string difference(const Tensor& actual, const Tensor& expected);

}  // namespace leat::testing
