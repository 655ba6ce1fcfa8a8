// Calls of most ops with drawn types, shapes, values and attributes, and their right results by the
// plainest loops. Sizes are 0 and 1 at times, axes negative, and now and then an argument is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "devices/core/tensor.h"
#include "ops/graph/attrs.h"
#include "tests/scheduler/draw.h"

namespace leat {

// An operand of a drawn call; the tensor is invalid where it is absent.
struct DrawnInput {
  Tensor value;
  bool constant = false;  // a Constant of the graph, not an input
};

// A right output in f64. Rounding may move an element by a few units of the last place of the
// larger one of its value and its scale; without a tensor the scale is 0.
struct PlainOutput {
  Tensor value, scale;
};

struct DrawnOp {
  std::string op;
  Attrs attrs;
  std::vector<DrawnInput> inputs;
  int outputs = 1;
  std::vector<size_t> gradient;   // inputs to differentiate by
  bool wrong = false;             // an argument is, and the call must be refused
  bool same_bits = true;          // compilation does not change the order of roundings
  double slack = 8;               // units of the last place
  DType result = DType::invalid;  // of output 0; invalid: that of input 0
  std::function<std::vector<PlainOutput>(const std::vector<Tensor>& inputs)> plain;  // takes f64

  DType dtype() const { return inputs[0].value.dtype(); }
  // Adds operands.
  void add(Tensor value, bool differentiable = false);
  void add_constant(Tensor value) { inputs.push_back({std::move(value), true}); }
  void add_absent() { inputs.push_back({}); }
  // One output from a function of the inputs.
  void returns(std::function<PlainOutput(const std::vector<Tensor>&)> f) {
    plain = [f = std::move(f)](const std::vector<Tensor>& in) { return std::vector{f(in)}; };
  }
};

// Draws what the families of ops have in common.
class Drawer : public Draw {
 public:
  // If the call is to be trained, floats are f64, tensors small, and no argument is wrong.
  Drawer(uint64_t seed, bool trains) : Draw(seed), trains_(trains) {}
  bool trains() const { return trains_; }
  DType dtype(DTypeSet allowed);
  int64_t size();  // of an axis
  Shape shape(int least_rank, int most_rank);
  int64_t axis(int rank, bool* drawn_wrong = nullptr);  // of either sign
  // Whole numbers if the type is one of integers.
  Tensor tensor(DType dtype, const Shape& shape, double low = -2, double high = 2);
  // A shape that broadcasts to `to`.
  Shape broadcast(const Shape& to);
  // Whether to draw a wrong argument; the call is marked then.
  bool wrong(DrawnOp& op);

 private:
  bool trains_;
};

// --- helpers of plain loops ----------------------------------------------------------------------

inline Sizes sizes_of(const Shape& shape) { return Sizes(shape.begin(), shape.end()); }
inline int64_t positive(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }
// The place of an element. An axis of size 1 is broadcast, and leading indices may be too many.
int64_t place(const Shape& shape, const Sizes& index);
// Calls f with the indices of each element, in order.
void for_each_index(const Shape& shape, const std::function<void(const Sizes&)>& f);
// Makes a tensor of f64 from a function of the indices.
Tensor elements(const Shape& shape, const std::function<double(const Sizes&)>& f);
inline double at(const Tensor& x, const Sizes& index) { return x.at(place(x.shape(), index)); }
inline Tensor i64s(const Sizes& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// --- the table -----------------------------------------------------------------------------------

struct DrawnFamily {
  const char* op;
  void (*draw)(Drawer&, DrawnOp&);
  bool trains = false;  // has a gradient
};
// Parts of it, by file.
std::vector<DrawnFamily> elementwise_families();
std::vector<DrawnFamily> reduction_families();
std::vector<DrawnFamily> movement_families();
std::vector<DrawnFamily> indexing_families();
std::vector<DrawnFamily> sequence_families();
std::vector<DrawnFamily> more_families();
const std::vector<DrawnFamily>& drawn_families();

DrawnOp draw_op(const DrawnFamily& family, uint64_t seed, bool trains);
// "Softmax <axis = -1> (float[2,3])".
std::string text_of(const DrawnOp& op);
// The names of the graph's inputs are in0, in1, ..., by operand, and of its outputs y0, y1, ...
// `more` are nodes behind the call, `fed` more inputs, and `fetched` the outputs in place of the y.
std::string graph_text(const DrawnOp& op, const std::string& fed = "", const std::string& more = "",
                       const std::string& fetched = "");

}  // namespace leat
