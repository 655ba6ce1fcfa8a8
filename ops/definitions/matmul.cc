// MatMul and Gemm as in ONNX, and leat.MatMul: a MatMul with transposed operands and a bias, which
// gradients and fusion use.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/definitions/activation.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/product.h"
#include "ops/graph/cost.h"

namespace leat {
namespace {

constexpr DTypeSet kProducts =
    kFloats | DTypeSet::of(DType::i32, DType::i64, DType::u32, DType::u64);

// The axes before the matrix: none for a matrix or a vector.
SymbolicShape batch_of(const SymbolicShape& shape) {
  SymbolicShape batch;
  for (int i = 0; i + 2 < shape.rank(); ++i) batch.push_back(shape[i]);
  return batch;
}

Status infer_matmul(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_fused_activation(ctx));
  const SymbolicShape &a = ctx.shape(0), &b = ctx.shape(1);
  if (a.rank() == 0 || b.rank() == 0) {
    return ctx.error(
        cat("expected operands of rank 1 or more, received ", ctx.text(a), " and ", ctx.text(b)));
  }
  // A vector cannot be transposed: as A it is a row, as B a column, and that axis leaves the
  // output.
  const bool trans_a = a.rank() > 1 && attr_int(ctx.attrs(), "transA") != 0;
  const bool trans_b = b.rank() > 1 && attr_int(ctx.attrs(), "transB") != 0;
  const Dim a_inner = a[a.rank() - (trans_a ? 2 : 1)];
  const Dim b_inner = b.rank() == 1 ? b[0] : b[b.rank() - (trans_b ? 1 : 2)];
  if (known_to_differ(a_inner, b_inner)) {
    return ctx.error(cat("inner sizes differ, a is ", ctx.text(a), ", b is ", ctx.text(b)));
  }
  const auto batch = broadcast(ctx, batch_of(a), batch_of(b));
  if (!batch)
    return ctx.error(cat("batches do not broadcast, a is ", ctx.text(a), ", b is ", ctx.text(b)));
  SymbolicShape out = *batch;
  if (a.rank() > 1) out.push_back(a[a.rank() - (trans_a ? 1 : 2)]);
  if (b.rank() > 1) out.push_back(b[b.rank() - (trans_b ? 2 : 1)]);
  if (ctx.has_input(2) && b.rank() == 1)
    return ctx.error("bias: expected a matrix as B, received a vector");
  if (ctx.has_input(2) && (ctx.shape(2).rank() != 1 || out.rank() == 0 ||
                           known_to_differ(ctx.shape(2)[0], out[out.rank() - 1]))) {
    return ctx.error(cat("bias: expected one value for each column of ", ctx.text(out),
                         ", received ", ctx.text(ctx.shape(2))));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

Status infer_gemm(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_fused_activation(ctx));
  const SymbolicShape &a = ctx.shape(0), &b = ctx.shape(1);
  if (a.rank() != 2 || b.rank() != 2) {
    return ctx.error(cat("expected matrices, received ", ctx.text(a), " and ", ctx.text(b)));
  }
  const int trans_a = attr_int(ctx.attrs(), "transA") != 0,
            trans_b = attr_int(ctx.attrs(), "transB") != 0;
  if (known_to_differ(a[1 - trans_a], b[trans_b])) {
    return ctx.error(cat("inner sizes differ, a is ", ctx.text(a), ", b is ", ctx.text(b),
                         ", transA ", trans_a, ", transB ", trans_b));
  }
  const SymbolicShape out{a[trans_a], b[1 - trans_b]};
  // C broadcasts to the output in one direction: each of its sizes is 1 or the output's, from the
  // end.
  if (ctx.has_input(2)) {
    const SymbolicShape& c = ctx.shape(2);
    bool fits = c.rank() <= 2;
    for (int i = 0; fits && i < c.rank(); ++i) {
      const Dim size = c[c.rank() - 1 - i];
      fits = size == Dim::of(1) || !known_to_differ(size, out[1 - i]);
    }
    if (!fits)
      return ctx.error(cat("C does not broadcast to ", ctx.text(out), ", it is ", ctx.text(c)));
  }
  ctx.set_tensor(0, ctx.dtype(0), out);
  return {};
}

// --- gradients ---------------------------------------------------------------------------------

// The operands that both gradients of a product need, with rank 2 or more.
struct Factors {
  ValueId a, b, dy;
  bool trans_a, trans_b;
  double alpha;
};

// alpha * op(a) * op(b), as a Gemm if both are matrices.
ValueId multiply(GradientContext& ctx, ValueId a, ValueId b, bool trans_a, bool trans_b,
                 double alpha) {
  const bool matrices = ctx.type(a).shape.rank() == 2 && ctx.type(b).shape.rank() == 2;
  return ctx.emit(matrices ? "Gemm" : "leat.MatMul", {a, b},
                  {{"transA", int64_t{trans_a}}, {"transB", int64_t{trans_b}}, {"alpha", alpha}});
}

// Y = op(A) op(B), so that the gradient of op(A) is dY op(B)^T. If A is transposed, the product is
// transposed as a whole: op(B) dY^T.
ValueId grad_a(GradientContext& ctx, const Factors& f) {
  const ValueId da = f.trans_a ? multiply(ctx, f.b, f.dy, f.trans_b, true, f.alpha)
                               : multiply(ctx, f.dy, f.b, false, !f.trans_b, f.alpha);
  return ctx.unbroadcast(da, f.a);
}

// A view of [..., columns] as [rows, columns].
ValueId flatten_rows(GradientContext& ctx, ValueId value, int64_t columns) {
  return ctx.emit("Reshape", {value, ctx.constant(Tensor::of<int64_t>({2}, {-1, columns}))});
}

// The gradient of op(B) is op(A)^T dY; of a transposed B it is dY^T op(A).
ValueId grad_b(GradientContext& ctx, Factors f) {
  const SymbolicShape a = ctx.type(f.a).shape, b = ctx.type(f.b).shape, dy = ctx.type(f.dy).shape;
  const auto k = constant_of(a[a.rank() - 1]), n = constant_of(dy[dy.rank() - 1]);
  if (b.rank() == 2 && a.rank() > 2 && !f.trans_a && k && n && *k > 0 && *n > 0) {
    f.a =
        flatten_rows(ctx, f.a, *k);  // the batch is part of the contraction: one product and no sum
    f.dy = flatten_rows(ctx, f.dy, *n);
  }
  const ValueId db = f.trans_b ? multiply(ctx, f.dy, f.a, true, f.trans_a, f.alpha)
                               : multiply(ctx, f.a, f.dy, !f.trans_a, false, f.alpha);
  return ctx.unbroadcast(db, f.b);
}

ValueId with_axis(GradientContext& ctx, std::string_view op, ValueId value, int64_t axis) {
  return ctx.emit(op, {value, ctx.constant(Tensor::of<int64_t>({1}, {axis}))});
}

Status check_unfused(GradientContext& ctx) {
  if (attr_string(ctx.node().attrs, "leat_activation").empty()) return {};
  return ctx.error("expected gradients to be taken before activations are fused");
}

Status matmul_gradient(GradientContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_unfused(ctx));
  const Attrs attrs = ctx.node().attrs;
  Factors f{ctx.input(0),
            ctx.input(1),
            ctx.grad(0),
            attr_int(attrs, "transA") != 0,
            attr_int(attrs, "transB") != 0,
            attr_float(attrs, "alpha", 1)};
  const bool vector_a = ctx.type(f.a).shape.rank() == 1, vector_b = ctx.type(f.b).shape.rank() == 1;
  // A vector is a matrix of one row (A) or of one column (B).
  if (vector_b) f.dy = with_axis(ctx, "Unsqueeze", f.dy, -1);
  if (vector_a) f.dy = with_axis(ctx, "Unsqueeze", f.dy, -2);
  if (vector_a) f.a = with_axis(ctx, "Unsqueeze", f.a, 0);
  if (vector_b) f.b = with_axis(ctx, "Unsqueeze", f.b, 1);
  f.trans_a = f.trans_a && !vector_a;
  f.trans_b = f.trans_b && !vector_b;
  if (ctx.needs(0)) {
    const ValueId da = grad_a(ctx, f);
    ctx.set_grad(0, vector_a ? with_axis(ctx, "Squeeze", da, 0) : da);
  }
  if (ctx.needs(1)) {
    const ValueId db = grad_b(ctx, f);
    ctx.set_grad(1, vector_b ? with_axis(ctx, "Squeeze", db, 1) : db);
  }
  if (ctx.needs(2)) ctx.set_grad(2, ctx.unbroadcast(ctx.grad(0), ctx.input(2)));
  return {};
}

Status gemm_gradient(GradientContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_unfused(ctx));
  const Attrs attrs = ctx.node().attrs;
  const Factors f{ctx.input(0),
                  ctx.input(1),
                  ctx.grad(0),
                  attr_int(attrs, "transA") != 0,
                  attr_int(attrs, "transB") != 0,
                  attr_float(attrs, "alpha", 1)};
  if (ctx.needs(0)) ctx.set_grad(0, grad_a(ctx, f));
  if (ctx.needs(1)) ctx.set_grad(1, grad_b(ctx, f));
  if (ctx.needs(2)) {
    ValueId dc = ctx.unbroadcast(f.dy, ctx.input(2));
    const double beta = attr_float(attrs, "beta", 1);
    if (beta != 1) dc = ctx.emit("Mul", {dc, ctx.scalar(beta, ctx.type(dc).dtype)});
    ctx.set_grad(2, dc);
  }
  return {};
}

// --- sharding ------------------------------------------------------------------------------------

// A split of A's rows splits the rows of Y, a split of B's columns splits the columns of Y, and a
// split of the inner size gives partial sums. The last rule needs a product without C and
// activation, since those must apply to the whole sum.
std::vector<ShardingRule> matrix_rules(const std::vector<OperandType>& in, const OperandType& y,
                                       const Attrs& attrs, bool trans_a, bool trans_b) {
  const int a = in[0].shape.rank(), b = in[1].shape.rank(), last = y.shape.rank() - 1;
  const bool has_c = in.size() > 2 && in[2].present;
  const auto rule = [&](Spread of_a, Spread of_b, Spread of_y, int along) {
    ShardingRule made{{of_a, of_b}, {of_y}};
    if (in.size() > 2) made.inputs.push_back({});
    if (!has_c || of_y.kind != Spread::split) return made;
    const int axis = in[2].shape.rank() - along;  // the axis of C that belongs to the split axis
    if (axis >= 0 && in[2].shape[axis] != 1) made.inputs[2] = Spread::on(axis);
    return made;
  };
  std::vector<ShardingRule> rules;
  if (a > 1) {
    const int y_axis = b > 1 ? last - 1 : last;
    rules.push_back(rule(Spread::on(a - (trans_a ? 1 : 2)), {}, Spread::on(y_axis), 2));
  }
  if (b > 1) rules.push_back(rule({}, Spread::on(b - (trans_b ? 2 : 1)), Spread::on(last), 1));
  if (!has_c && attr_string(attrs, "leat_activation").empty()) {
    const int b_axis = b == 1 ? 0 : b - (trans_b ? 1 : 2);
    rules.push_back(
        rule(Spread::on(a == 1 ? 0 : a - (trans_a ? 2 : 1)), Spread::on(b_axis), Spread::sum(), 0));
  }
  return rules;
}

std::vector<ShardingRule> matmul_sharding(const std::vector<OperandType>& in,
                                          const std::vector<OperandType>& out, const Attrs& attrs) {
  const Shape &a = in[0].shape, &b = in[1].shape, &y = out[0].shape;
  auto rules = matrix_rules(in, out[0], attrs, a.rank() > 1 && attr_int(attrs, "transA") != 0,
                            b.rank() > 1 && attr_int(attrs, "transB") != 0);
  // A split of a batch axis splits every operand that has the axis.
  const int batch = std::max({0, a.rank() - 2, b.rank() - 2});
  for (int axis = 0; axis < batch; ++axis) {
    ShardingRule rule{std::vector<Spread>(in.size()), {Spread::on(axis)}};
    const int a_axis = axis - (batch - std::max(0, a.rank() - 2));
    const int b_axis = axis - (batch - std::max(0, b.rank() - 2));
    if (a_axis >= 0 && a[a_axis] == y[axis]) rule.inputs[0] = Spread::on(a_axis);
    if (b_axis >= 0 && b[b_axis] == y[axis]) rule.inputs[1] = Spread::on(b_axis);
    rules.push_back(rule);
  }
  return rules;
}

std::vector<ShardingRule> gemm_sharding(const std::vector<OperandType>& in,
                                        const std::vector<OperandType>& out, const Attrs& attrs) {
  return matrix_rules(in, out[0], attrs, attr_int(attrs, "transA") != 0,
                      attr_int(attrs, "transB") != 0);
}

template <DescribeProduct describe>
Tiling product_tiling(const OpTypes& types) {
  const auto product = describe(types);
  if (!product.ok()) return {};
  // Products of few rows at a time would read a large B repeatedly.
  constexpr int64_t kLargeB = 16 * 1024, kRows = 64;
  Tiling tiling = product->tiling;
  if (product->n * product->k >= kLargeB)
    tiling.min_rows = std::max<int64_t>(1, kRows / product->per_row);
  return tiling;
}

// Each element of the output takes `inner` multiply-adds. The inner size is the last one of A, or
// the last but one if A is transposed.
double product_flops_of(const OpTypes& types) {
  const Shape& a = types.inputs[0].shape;
  if (a.rank() == 0) return 0;
  const bool transposed = a.rank() > 1 && attr_int(*types.attrs, "transA") != 0;
  const int64_t inner = a[a.rank() - (transposed ? 2 : 1)];
  return 2 * elements_of(types.outputs[0]) * static_cast<double>(inner);
}

}  // namespace

void register_matmul_ops(Catalogue& catalogue) {
  catalogue.add(Op("MatMul", 13)
                    .input("A", "T")
                    .input("B", "T")
                    .output("Y", "T")
                    .type("T", kProducts)
                    .attr_optional("leat_activation", "string")
                    .infer(infer_matmul)
                    .gradient(matmul_gradient)
                    .sharding(matmul_sharding)
                    .flops(product_flops_of)
                    .tiling(product_tiling<describe_matmul>));
  catalogue.add(Op("leat.MatMul")
                    .input("A", "T")
                    .input("B", "T")
                    .optional_input("bias", "T")
                    .output("Y", "T")
                    .type("T", kProducts)
                    .attr("transA", int64_t{0})
                    .attr("transB", int64_t{0})
                    .attr("alpha", 1.0)
                    .attr_optional("leat_activation", "string")
                    .infer(infer_matmul)
                    .gradient(matmul_gradient)
                    .sharding(matmul_sharding)
                    .flops(product_flops_of)
                    .tiling(product_tiling<describe_matmul>));
  catalogue.add(Op("Gemm", 13)
                    .input("A", "T")
                    .input("B", "T")
                    .optional_input("C", "T")
                    .output("Y", "T")
                    .type("T", kProducts)
                    .attr("alpha", 1.0)
                    .attr("beta", 1.0)
                    .attr("transA", int64_t{0})
                    .attr("transB", int64_t{0})
                    .attr_optional("leat_activation", "string")
                    .infer(infer_gemm)
                    .gradient(gemm_gradient)
                    .sharding(gemm_sharding)
                    .flops(product_flops_of)
                    .tiling(product_tiling<describe_gemm>));
}

}  // namespace leat
