// The conformance suite of the op catalogue: what every op must keep to, whoever wrote it. The
// cases are a table (conformance_cases.cc); an op that has none fails the suite.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat::testing {

// Dimension 0 of whatever is a batch in the cases, and of nothing else: inference is tried with a
// symbol in its place, and shards of 2 and 3 fit.
inline constexpr int64_t kBatch = 12;

// One op on given inputs. Tensors of f32 whose type is a type variable of the op are tried as every
// other dtype that it allows.
struct ConformanceCase {
  std::string op;
  std::vector<Tensor> inputs =
      {};  // an absent one is invalid; of a resource: what the variable holds
  Attrs attrs = {};
  int outputs = 1;
  std::vector<int> gradient =
      {};                  // inputs to check against finite differences; integers are constants
  uint32_t resources = 0;  // bit i: input i is a variable
  bool symbolic = true;    // inference knows the types when the batch is a symbol
  bool dtypes = true;      // tried as other dtypes
  bool shards = true;      // its attributes and constants fit every shard

  ConformanceCase&& grad(std::vector<int> of) && {
    return gradient = std::move(of), std::move(*this);
  }
  ConformanceCase&& known_batch() && { return symbolic = false, std::move(*this); }
  ConformanceCase&& one_dtype() && { return dtypes = false, std::move(*this); }
  ConformanceCase&& whole() && { return shards = false, std::move(*this); }
};

std::vector<ConformanceCase> conformance_cases();

// Ops that need no case, and why.
struct ExemptOp {
  const char* op;
  const char* reason;
};
std::vector<ExemptOp> exempt_ops();
// Ops whose gradient no case checks, and why.
std::vector<ExemptOp> exempt_gradients();

// How a case is run. The results must not depend on any of it.
struct Conditions {
  int64_t tile_rows = 0;  // forced; 0: the kernel's choice
  bool reverse = false;   // tiles last to first
  int threads = 0;        // that claim tiles; 0: only the calling one
  uint8_t before = 0;     // every byte of outputs, workspace and scratch beforehand
  bool all_known =
      true;  // every input's value is known when the kernel is made, or only the small ones'
  bool blocked = false;                       // operands as LayoutSupport says
  std::vector<std::pair<int, int>> in_place;  // (output, input) in the same memory
  int64_t first_row = 0;
  // Operands of rows lie where a chain may keep them: each tile's rows in memory of their own, and
  // garbage wherever the op must not look. With tile_rows.
  bool rows_apart = false;
};

const OpDef& op_of(const ConformanceCase& c);
// The concrete types, outputs as inferred. `attrs` (defaults filled in) must outlive them.
OpTypes types_of(const ConformanceCase& c, const Attrs& attrs);

// The outputs (tensors only), then what each written variable holds afterwards. Fails the test when
// the op does, or when it writes past an output.
std::vector<Tensor> run_case(const ConformanceCase& c, const Conditions& conditions = {});

// The case with f32 operands of type variables as another dtype; integers are small and not 0.
// Empty where the op does not allow it.
std::vector<ConformanceCase> dtype_variants(const ConformanceCase& c);

}  // namespace leat::testing
