// ONNX's own conformance cases, as Debian's package libonnx-testdata installs them: one folder for
// each case, with model.onnx and test_data_set_N/{input,output}_M.pb.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/text/fix_inputs.h"

namespace leat::testing {

// The folder of the cases: that of the package, or LEAT_ONNX_CASES, in the same form.
std::string backend_folder();
// True for cases of other versions of ONNX than the package's (LEAT_ONNX_CASES).
bool has_other_cases();

// One data set of a case.
struct BackendData {
  std::string name;                     // "test_data_set_0"
  std::string folder;                   // absolute
  std::vector<Tensor> inputs, outputs;  // in the graph's order; an absent one is invalid
};

struct BackendCase {
  std::string name;    // "node/test_add"
  std::string folder;  // absolute
  Bytes model;
  std::set<std::string> ops;  // of all nodes, also in regions and functions
};

// Returns every case in data/{node,simple,pytorch-operator,pytorch-converted}, by name. Empty if
// the package is not installed.
std::vector<BackendCase> backend_cases();

// Returns the tensors of a case. An error if an operand is no tensor of numbers.
Result<std::vector<BackendData>> backend_data(const BackendCase& backend_case);

// How many inputs are fixed at import (ops/text/fix_inputs.h), because a plan needs to know them.
enum class Fixing {
  none,
  parameters,  // operands of nodes that determine sizes: axes, sizes, repeats
  sources,     // those, and all that they are computed from
};

// The values of those inputs, and the indices of the inputs that remain to be fed.
struct FixedCase {
  FixedInputs fixed;
  std::vector<size_t> fed;
};
FixedCase fix_parameters(const BackendCase& backend_case, const BackendData& data, Fixing fixing);

// The cases store bfloat16 as its bits in uint16. Returns the tensor with the type `dtype`.
Tensor retyped(const Tensor& tensor, DType dtype);

// Compares as onnx.backend.test does: same type and shape; floats within rtol 1e-3 (types of 16
// bits: two units in the last place) and atol 1e-7, all else equal. Returns the first difference,
// "" if there is none.
std::string difference(const Tensor& actual, const Tensor& expected);

}  // namespace leat::testing
