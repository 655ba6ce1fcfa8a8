// Convolutions, products and pools of drawn shapes and attributes, and what they mean by the
// plainest loops: what inference accepts must be compiled, registered and trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat {

// A random call of an op: its operands' shapes and its attributes.
struct DrawnCall {
  std::string op;
  DType dtype = DType::f32;
  std::vector<Shape> inputs;  // data, weights, bias; some are absent at the end
  Attrs attrs;
  bool relu = false;  // a Relu follows
};

// A function of the seed alone. Inference may refuse the call.
DrawnCall draw_call(uint64_t seed);
// For messages, as the text form writes a node.
std::string text_of(const DrawnCall& call);

// Sums and the sums of their terms' magnitudes: how far rounding may move the former.
struct Sums {
  std::vector<double> sum, magnitude;
};
// The right output and gradients of a call.
struct Expected {
  Sums y;
  std::vector<Sums> gradients;  // of sum(y * dy), by input
};
// As ONNX defines the ops, in f64, one product at a time. REQUIRES: inputs and dy of f64, that fit;
// `dy` has the shape of the output. A Relu behind the call is left out.
Expected compute_plainly(const DrawnCall& call, const std::vector<Tensor>& inputs,
                         const Tensor& dy);
// About as many products of two numbers as that takes.
double products_of(const DrawnCall& call, const Shape& output);

}  // namespace leat
