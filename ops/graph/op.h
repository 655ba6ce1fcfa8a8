// The definition of an op: its signature, its inference, its gradient, its sharding rule, its
// kernels. Each (domain, name) has one OpDef, which the file of its op family makes and
// ops/catalogue.cc lists. An op family such as ops/definitions/softmax.cc is the place to look at
// for a complete example.
//
// The rules infer, gradient, sharding, tiling and layouts are functions of their arguments alone:
// several threads may call one at the same time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"
#include "ops/graph/kernel.h"
#include "ops/graph/resource.h"
#include "ops/graph/types.h"

namespace leat {

// ---------------------------------------------------------------------------------------------
// Inference: from the types of the inputs (and the values that are known at compile time) to the
// types of the outputs.

// The view of one node that infer() gets. Its inputs have passed the checks of the signature:
// arity, kinds, dtypes. It lives during the call alone. A rule returns context.error() if the
// operands do not fit, and must accept symbolic sizes that may turn out to fit: the kernel checks
// them again.
//
//   Status infer_transposed(InferContext& ctx) {
//     const SymbolicShape& x = ctx.shape(0);
//     if (x.rank() != 2) return ctx.error(cat("expected a matrix, received ", ctx.text(x)));
//     ctx.set_tensor(0, ctx.dtype(0), {x[1], x[0]});
//     return {};
//   }
class InferContext {
 public:
  virtual ~InferContext() = default;

  virtual int inputs() const = 0;  // as written; absent optional inputs at the end do not count
  // The outputs that the node has, with the places of those that it does not want.
  virtual int outputs() const = 0;
  // These two accept any i >= 0, and return false past the end.
  virtual bool has_input(int i) const = 0;
  virtual bool wants_output(int i) const = 0;
  virtual const ValueType& input(int i) const = 0;  // REQUIRES: has_input(i)
  // The value of input i if it is known at compile time (small tensors only), else null.
  virtual const Tensor* constant(int i) const = 0;
  // The elements of input i if some of them are symbolic sizes, such as those of a Shape; else
  // empty.
  virtual const SizeValues& sizes(int i) const = 0;
  virtual const Attrs& attrs() const = 0;  // defaults filled in

  // The rule must set every wanted output; it may set others, which are ignored. validate() refuses
  // sizes out of range.
  virtual void set_output(int i, ValueType type) = 0;
  // Sets the value of output i, if it is known at compile time (Shape's output, arithmetic on small
  // integers).
  virtual void set_constant(int i, Tensor value) = 0;
  // Sets the elements of output i as far as they are known, where set_constant() cannot. REQUIRES:
  // as many as the output has, at most limits::kSizeInference.
  virtual void set_sizes(int i, SizeValues values) = 0;
  // A symbol for a size that nothing else is known of. Each call makes another one.
  virtual SymbolId fresh_symbol() = 0;
  // "[N,10]", with the names of the graph's symbols.
  virtual std::string text(const SymbolicShape& shape) const = 0;

  // An invalid_argument error: "MatMul 'l2/mm': " + message.
  virtual Status error(std::string_view message) const = 0;

  // Short forms of the calls above. They REQUIRE has_input(i); a resource has the dtype and shape
  // of its variable.
  DType dtype(int i) const { return input(i).dtype; }
  const SymbolicShape& shape(int i) const { return input(i).shape; }
  void set_tensor(int i, DType dtype, SymbolicShape shape) {
    set_output(i, ValueType{ValueKind::tensor, dtype, std::move(shape)});
  }
};

// Checked arithmetic on sizes. Each function returns nothing on overflow.
std::optional<Dim> multiply(Dim a, Dim b);  // symbol x symbol needs a new symbol: nothing
// The size if it is no symbol.
std::optional<int64_t> constant_of(Dim d);
// The shape of a numpy broadcast. A symbolic size is compatible with itself, with 1, and with a
// constant, which is then the result (the symbol must turn out to be that constant or 1). Two
// different symbols may turn out to be equal or 1: the result is another symbol. Nothing if the
// shapes are not compatible.
std::optional<SymbolicShape> broadcast(InferContext& ctx, const SymbolicShape& a,
                                       const SymbolicShape& b);
// Maps an axis in [-rank, rank) to [0, rank); else the error names the axis.
Result<int> normalize_axis(const InferContext& ctx, int64_t axis, int rank);

// Inference rules that many ops share.
Status infer_same_as_first(InferContext& ctx);   // output 0 has input 0's type
Status infer_broadcast(InferContext& ctx);       // elementwise over all inputs, input 0's dtype
Status infer_broadcast_bool(InferContext& ctx);  // the same, to bool

// ---------------------------------------------------------------------------------------------
// Gradients: built from ops.

// The view of one node that gradient() gets. The rule emits nodes and sets the gradient of each
// differentiable input; an input that the rule does not set has no gradient. It lives during the
// call alone. Errors of the calls stick: the rule may go on with the values that they return, and
// add_gradients() returns the first error.
//
//   Status grad_of_mul(GradientContext& ctx) {   // y = a * b
//     if (ctx.needs(0)) {
//       const ValueId da = ctx.emit("Mul", {ctx.grad(0), ctx.input(1)});
//       ctx.set_grad(0, ctx.unbroadcast(da, ctx.input(0)));
//     } ...
class GradientContext {
 public:
  virtual ~GradientContext() = default;

  virtual const Node& node() const = 0;
  virtual ValueId input(int i) const = 0;  // kNone if absent
  virtual ValueId output(int i) const = 0;
  // The gradient of output i; kNone if y does not depend on that output.
  virtual ValueId grad(int i) const = 0;
  // The forward node's optional output i (a mask, saved statistics). It is added to the node if it
  // is absent.
  virtual ValueId optional_output(int i) = 0;
  // True if the gradient of this input leads to an x. set_grad() ignores the others, so that
  // needs() only saves nodes that nothing reads.
  virtual bool needs(int input) const = 0;
  virtual const ValueType& type(ValueId value) const = 0;

  // Adds a node (domain "" or "leat") on the device of the forward node, infers its types, and
  // returns output 0. Attributes are as in ONNX.
  virtual ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) = 0;
  // The same with all of `outputs` outputs.
  virtual std::vector<ValueId> emit_n(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                      int outputs) = 0;
  // Adds a constant: the first form of any shape, the second a scalar of the dtype of `like`.
  virtual ValueId constant(Tensor value) = 0;
  virtual ValueId scalar(double value, DType dtype) = 0;
  // Sums `grad` down to the shape of `like`: the reverse of a broadcast. Returns grad if the shapes
  // are equal.
  virtual ValueId unbroadcast(ValueId grad, ValueId like) = 0;

  // Adds `grad` to the gradient of an input: it must have the shape of that input. kNone is
  // ignored, and so is an input that needs no gradient. REQUIRES: called at most once for each
  // input, unless the sum of the calls is meant.
  virtual void set_grad(int input, ValueId grad) = 0;
  // An invalid_argument error with the node as its subject.
  virtual Status error(std::string_view message) const = 0;
};

// ---------------------------------------------------------------------------------------------
// Sharding: which split of the inputs gives which split of the outputs. Strategies know nothing
// else about ops.

// The state of one operand over the shards: whole on each, split along an axis, or partial sums.
struct Spread {
  enum Kind : uint8_t { whole, split, partial_sum } kind = whole;
  int axis = 0;
  static Spread on(int axis) { return {split, axis}; }
  static Spread sum() { return {partial_sum, 0}; }
  bool operator==(const Spread&) const = default;
};

// One legal combination: if the inputs are spread as `inputs` says, the op applied on each shard
// gives outputs spread as `outputs` says. "All whole" is always legal and not listed. The lists
// have an entry for each operand of the node.
struct ShardingRule {
  std::vector<Spread> inputs;
  std::vector<Spread> outputs;
  bool operator==(const ShardingRule&) const = default;
};

// ---------------------------------------------------------------------------------------------
// The op.

// A formal operand of a signature.
struct Operand {
  std::string name;
  // A type variable ("T"), a dtype's name ("int64"), "resource", "token" or "any". Operands of one
  // type variable have one dtype. "any" takes every kind of value; the op's rule checks it.
  std::string type;
  bool optional = false;
  bool variadic = false;  // the last one only; one or more
  bool mixed = false;     // variadic operands may differ in dtype
};

// An attribute of a signature. One without default that is not required may be absent. validate()
// refuses attributes that the signature lacks.
struct AttrDef {
  std::string name;
  std::string kind;              // a result of attr_kind()
  std::optional<Attr> fallback;  // the default
  bool required = false;
};

// A complete definition. The catalogue owns it; its address is the identity of the op. Kernels may
// be added while the catalogue is built; nothing changes afterwards.
struct OpDef {
  std::string domain;  // "" is the domain of ONNX
  std::string name;
  int since = 1;  // the opset version that this definition follows
  std::vector<Operand> inputs, outputs;
  std::vector<AttrDef> attributes;
  std::map<std::string, DTypeSet, std::less<>> types;  // type variables

  // Effects and traits.
  // Reads or writes state or the outside: never folded, merged or pruned as pure.
  bool stateful = false;
  // Draws random numbers: keyed by Node::source, never merged.
  bool random = false;
  // Its rows depend on the shard: Node::first_row; never merged across shards.
  bool per_shard = false;
  // Inputs (resources) that it writes, and those that it reads.
  std::vector<int> writes;
  std::vector<int> reads;
  // Inputs of which it reads at most as many elements as it writes, for the estimate of its time.
  std::vector<int> picks;
  // Output 0 has the bytes of input 0 under another shape (plain layout). A plan may give both one
  // address.
  bool view = false;
  // The outputs have elements of the inputs, unchanged: of those whose type variable is that of
  // output 0. The values of the others decide which.
  bool moves = false;
  // The two inputs may be exchanged without a change of the result.
  bool commutative = false;
  // (output, input): may share memory if that is the input's last use. The kernels of all devices
  // must be correct then.
  std::vector<std::pair<int, int>> in_place;

  // Every op has this rule; the following ones may be empty.
  std::function<Status(InferContext&)> infer;
  // Empty: not differentiable. A rule that sets no gradient means a gradient of zero.
  std::function<Status(GradientContext&)> gradient;
  // Output 0 may be of integers or a narrow type, and has a gradient all the same: that of the
  // floats that its elements stand for, of a float type.
  bool stands_for_floats = false;
  std::function<std::vector<ShardingRule>(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>& outputs, const Attrs&)>
      sharding;
  // The floating-point operations of a call, two for each multiply-add, of ops that multiply
  // matrices; empty: few, so that the time depends on memory. ops/graph/cost.h has the users.
  std::function<double(const OpTypes&)> flops;
  std::function<Tiling(const OpTypes&)> tiling;          // empty: no row tiles
  std::function<LayoutSupport(const OpTypes&)> layouts;  // of CPUs; empty: plain only
  // The same for kernels of other kinds of devices, whose other layout is channels_last.
  std::map<std::string, std::function<LayoutSupport(const OpTypes&)>, std::less<>> device_layouts;
  std::map<std::string, KernelFactory, std::less<>> kernels;  // by device kind
  // By device kind, if its kernel lacks some dtypes or operands: whether it has these.
  std::map<std::string, KernelSupport, std::less<>> supports;
  // Only for ops whose output 0 is a resource: finds the resource in setup.resources, or makes it.
  // Such a node is no instruction; its output is the resource's address.
  std::function<Result<Resource*>(const KernelSetup&)> make_resource;

  // True if the outputs are a function of the inputs and attributes alone: such nodes may be
  // folded, merged and dropped.
  bool pure() const { return !stateful && !random && !make_resource; }
  // "Relu", "leat.Read".
  std::string full_name() const { return domain.empty() ? name : domain + "." + name; }
};

// Builds an OpDef in the order of its documentation:
//   catalogue.add(Op("MatMul", 13).input("A", "T").input("B", "T").output("Y", "T")
//                     .type("T", kNumbers).infer(...).gradient(...).kernel("cpu", ...));
// Each call returns the object itself. Inputs and outputs are in the order of the calls; optional
// ones follow the required ones, and a variadic one is the last. Traits are described at OpDef.
class Op {
 public:
  explicit Op(std::string_view name, int since = 1);  // "Relu", or "leat.Read"
  Op& input(std::string name, std::string type);
  Op& optional_input(std::string name, std::string type);
  Op& variadic_input(std::string name, std::string type, bool mixed = false);
  Op& output(std::string name, std::string type);
  Op& optional_output(std::string name, std::string type);
  Op& variadic_output(std::string name, std::string type, bool mixed = false);
  Op& type(std::string variable, DTypeSet allowed);
  Op& attr(std::string name, Attr fallback);  // optional attribute with a default
  Op& attr_required(std::string name, std::string kind);
  Op& attr_optional(std::string name, std::string kind);  // optional attribute without a default
  Op& stateful();
  Op& random();
  Op& per_shard();
  // Makes the op stateful, too. reads() does not.
  Op& writes(int input);
  Op& reads(int input);
  Op& picks(int input);
  Op& view();
  Op& moves();
  Op& commutative();
  Op& in_place(int output, int input);
  Op& infer(std::function<Status(InferContext&)> f);
  Op& gradient(std::function<Status(GradientContext&)> f, bool stands_for_floats = false);
  Op& sharding(decltype(OpDef::sharding) f);
  Op& flops(std::function<double(const OpTypes&)> f);
  Op& tiling(std::function<Tiling(const OpTypes&)> f);
  Op& layouts(std::function<LayoutSupport(const OpTypes&)> f);
  Op& kernel(std::string device_kind, KernelFactory f);
  Op& resource(std::function<Result<Resource*>(const KernelSetup&)> f);
  operator OpDef() const { return def_; }  // NOLINT: implicit, this is its purpose

 private:
  OpDef def_;
};

// All ops known to a process. main builds it once; it does not change afterwards. Graphs and nodes
// point to its OpDefs, which stay at their addresses: it outlives every graph. Threads: one while
// it is built, any afterwards.
class Catalogue {
 public:
  // REQUIRES: (domain, name) is new.
  void add(OpDef op);
  // Adds a kernel of an op; the plugins of devices call it. REQUIRES: the op is in the catalogue.
  // A node that the kernel does not support is computed by another device.
  void add_kernel(std::string_view full_name, std::string device_kind, KernelFactory factory,
                  KernelSupport supports = {});
  // Says which operands that kernel takes in Layout::channels_last. REQUIRES: as above.
  void add_layouts(std::string_view full_name, std::string device_kind,
                   std::function<LayoutSupport(const OpTypes&)> layouts);
  // The op, or null if there is none. `full_name` is "Relu" or "leat.Read". The domain "ai.onnx" is
  // the same as "".
  const OpDef* find(std::string_view full_name) const;
  const OpDef* find(std::string_view domain, std::string_view name) const;
  // All ops, ascending by full name.
  std::vector<const OpDef*> all() const;
  // The nearest known op for messages: " (did you mean 'Relu'?)", or "".
  std::string suggestion(std::string_view full_name) const;

 private:
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops_;
};

}  // namespace leat
