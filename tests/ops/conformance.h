// The conformance suite of the op catalogue: the rules for every op. The cases are a table
// (conformance_cases.cc). An op without a case fails the suite.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devices/core/tensor.h"
#include "ops/graph/op.h"

namespace leat::testing {

// The size of dimension 0 of batches in the cases, and of nothing else. Inference is tried with a
// symbol in its place, and shards of 2 and 3 divide it.
inline constexpr int64_t kBatch = 12;

// One op on given inputs. If the type of f32 tensors is a type variable of the op, every other
// dtype that the op allows is tried, too.
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

// An op that needs no case, and the reason.
struct ExemptOp {
  const char* op;
  const char* reason;
};
std::vector<ExemptOp> exempt_ops();
// The ops whose gradient no case checks, with the reasons.
std::vector<ExemptOp> exempt_gradients();

// The conditions of a run. Results must not depend on any of them.
struct Conditions {
  int64_t tile_rows = 0;  // forced; 0: the kernel's choice
  bool reverse = false;   // the last tile first
  int threads = 0;        // threads that claim tiles; 0: the caller only
  uint8_t before = 0;     // the initial value of each byte of outputs, workspace and scratch
  bool all_known =
      true;  // every input's value is known when the kernel is made, or only the small ones'
  bool blocked = false;                       // operands as LayoutSupport says
  std::vector<std::pair<int, int>> in_place;  // (output, input) in the same memory
  int64_t first_row = 0;
  // Operands of rows have the places that a chain may give them: each tile's rows in memory of
  // their own, and garbage wherever the op must not look. Needs tile_rows.
  bool rows_apart = false;
};

const OpDef& op_of(const ConformanceCase& c);
// Returns the concrete types, with inferred outputs. `attrs` (defaults filled in) must outlive
// them.
OpTypes types_of(const ConformanceCase& c, const Attrs& attrs);

// Returns the outputs (tensors only), and then the final content of each written variable. Fails
// the test if the op fails, or writes past an output.
std::vector<Tensor> run_case(const ConformanceCase& c, const Conditions& conditions = {});

// Returns the case with its f32 operands of type variables as each other dtype; integers are small
// and not 0. Empty if the op allows no other.
std::vector<ConformanceCase> dtype_variants(const ConformanceCase& c);

}  // namespace leat::testing
