// The type of a value of the graph: its kind, its element type, and its shape. A size in a shape
// may be a symbol, such as the batch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"

namespace leat {

// The id of no node, no value or no symbol: an operand that is absent, the producer of a graph's
// input, the symbol of a constant size.
inline constexpr uint32_t kNone = 0xffffffff;
// Indices into the tables of one Graph, counted from 0 in the order of creation. They stay valid as
// long as the graph grows; a pass that makes a new graph gives new ids.
using NodeId = uint32_t;
using ValueId = uint32_t;
using SymbolId = uint32_t;

// One size: a constant, or factor x symbol. Two sizes with the same factor and symbol are equal;
// other symbolic sizes may or may not be equal.
struct Dim {
  // The size itself if it is constant. REQUIRES of a symbolic size: at least 1.
  int64_t factor = 0;
  // Of the graph that the value belongs to; kNone for a constant.
  SymbolId symbol = kNone;

  static Dim of(int64_t size) { return {size, kNone}; }
  static Dim of_symbol(SymbolId symbol, int64_t factor = 1) { return {factor, symbol}; }
  bool is_constant() const { return symbol == kNone; }
  bool operator==(const Dim&) const = default;
};

// The elements of a small integer tensor, in row-major order, as inference knows them: a constant
// of any sign, a size that is a symbol, or nothing.
using SizeValues = std::vector<std::optional<Dim>>;

// A shape of known rank whose sizes may be symbolic. A value of at most kMaxRank sizes, without
// memory on the heap. The symbols have a meaning only together with their graph:
// Graph::shape_text() shows them by name. The rank is always known; leat has no tensors of unknown
// rank.
class SymbolicShape {
 public:
  SymbolicShape() = default;
  SymbolicShape(const Shape& shape);  // NOLINT: implicit, every concrete shape is one
  // REQUIRES: at most kMaxRank sizes.
  SymbolicShape(std::initializer_list<Dim> dims);

  int rank() const { return rank_; }
  // REQUIRES, here and in set(): 0 <= i < rank().
  Dim operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  void set(int i, Dim dim) { dims_[static_cast<size_t>(i)] = dim; }
  // REQUIRES: rank() < kMaxRank.
  void push_back(Dim dim) { dims_[static_cast<size_t>(rank_++)] = dim; }
  // The sizes, outermost first; valid until the shape changes.
  std::span<const Dim> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  // True if no size is symbolic; so for a scalar.
  bool is_constant() const;
  // The shape if all of its sizes are constant; else nothing, also if a symbol has a bound.
  std::optional<Shape> concrete() const;
  bool operator==(const SymbolicShape& other) const;

 private:
  std::array<Dim, kMaxRank> dims_{};
  int rank_ = 0;
};

// True if two sizes, or two shapes, are constant and not equal. A symbolic size may turn out to be
// equal at run time: inference accepts it, and the op's kernel checks it.
template <typename SizeOrShape>
bool known_to_differ(const SizeOrShape& a, const SizeOrShape& b) {
  return a.is_constant() && b.is_constant() && !(a == b);
}

// The kind of data of a value. The signature of an op checks it before its rules run.
enum class ValueKind : uint8_t {
  tensor,    // dtype and shape
  rows,      // ids and values: the gradient of a table of which a step touches few rows
  resource,  // a variable or a queue: state that outlives the step
  token,     // carries order only, no data
};

// The type of a value in a graph. The default, a tensor of dtype invalid, is a type that inference
// has not found yet. A resource that is no variable (a queue, a step counter) has dtype invalid as
// well, and so has a token.
struct ValueType {
  ValueKind kind = ValueKind::tensor;
  DType dtype = DType::invalid;  // of the elements; for a variable, of what it holds
  SymbolicShape shape;
  bool operator==(const ValueType&) const = default;
};

// The order of a plan value's elements in memory. Edges, variables, feeds and fetches are always
// plain.
enum class Layout : uint8_t {
  plain,       // row-major
  // Of CPUs, nChw16c: [N, C/16, H, W, 16], for 4-D values whose C is a multiple of 16.
  channels16,
  // Of accelerators, NHWC: [N, H, W, C], for 4-D values.
  channels_last,
};

// The type of a value as a kernel sees it: all sizes are constant.
struct OperandType {
  DType dtype = DType::invalid;
  Shape shape;
  Layout layout = Layout::plain;
  ValueKind kind = ValueKind::tensor;
  bool present = false;  // false for an optional operand that is not there
  // The bytes of the elements, for a resource those of the variable. All layouts have as many.
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * dtype_size(dtype); }
};

}  // namespace leat
