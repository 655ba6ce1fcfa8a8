#include "ops/definitions/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/shapes.h"
#include "ops/graph/cost.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// --- Inference ---------------------------------------------------------------------------------

// The sizes of Q, K or V as [batch, heads, rows, columns].
struct HeadSizes {
  Dim batch, heads, rows, columns;
};

// A hidden size over a number of heads; another symbol if that is not known.
Result<Dim> columns_of(InferContext& ctx, std::string_view name, Dim hidden, int64_t heads) {
  if (hidden.factor % heads == 0)
    return hidden.is_constant() ? Dim::of(hidden.factor / heads)
                                : Dim::of_symbol(hidden.symbol, hidden.factor / heads);
  if (!hidden.is_constant()) return Dim::of_symbol(ctx.fresh_symbol());
  return ctx.error(
      cat(name, ": expected a last size that ", heads, " heads divide, received ", hidden.factor));
}

Result<HeadSizes> head_sizes(InferContext& ctx, int i, std::string_view name,
                             const char* heads_attr) {
  const SymbolicShape& shape = ctx.shape(i);
  if (shape.rank() == 4) return HeadSizes{shape[0], shape[1], shape[2], shape[3]};
  if (shape.rank() != 3)
    return ctx.error(cat(name, ": expected [N,H,T,D] or [N,T,H*D], received ", ctx.text(shape)));
  const int64_t heads = attr_int(ctx.attrs(), heads_attr, 0);
  if (heads < 1) {
    return ctx.error(cat(name, ": expected the attribute ", heads_attr,
                         " for a value of rank 3, received ", ctx.text(shape)));
  }
  LEAT_ASSIGN_OR_RETURN(const Dim columns, columns_of(ctx, name, shape[2], heads));
  return HeadSizes{shape[0], Dim::of(heads), shape[1], columns};
}

struct InferredAttention {
  HeadSizes q, k, v;
};

Result<InferredAttention> infer_heads(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const HeadSizes q, head_sizes(ctx, kQuery, "Q", "q_num_heads"));
  LEAT_ASSIGN_OR_RETURN(const HeadSizes k, head_sizes(ctx, kKey, "K", "kv_num_heads"));
  LEAT_ASSIGN_OR_RETURN(const HeadSizes v, head_sizes(ctx, kValue, "V", "kv_num_heads"));
  if (known_to_differ(q.batch, k.batch) || known_to_differ(q.batch, v.batch) ||
      known_to_differ(k.rows, v.rows) || known_to_differ(k.heads, v.heads) ||
      known_to_differ(q.columns, k.columns)) {
    return ctx.error(cat("expected one batch, and K and V with equal heads and lengths, and Q and ",
                         "K with equal columns: Q is ", ctx.text(ctx.shape(kQuery)), ", K is ",
                         ctx.text(ctx.shape(kKey)), ", V is ", ctx.text(ctx.shape(kValue))));
  }
  if (!q.heads.is_constant() || !k.heads.is_constant())
    return ctx.error("expected known numbers of heads");
  if (k.heads.factor < 1 || q.heads.factor % k.heads.factor != 0) {
    return ctx.error(cat("expected a number of Q's heads that K's heads divide, received ",
                         q.heads.factor, " and ", k.heads.factor));
  }
  return InferredAttention{q, k, v};
}

Status check_mask(InferContext& ctx, int i, const HeadSizes& q, Dim keys) {
  if (!ctx.has_input(i)) return {};
  const SymbolicShape& mask = ctx.shape(i);
  const DType dtype = ctx.dtype(i);
  if (dtype != DType::boolean && dtype != ctx.dtype(kQuery)) {
    return ctx.error(cat("attn_mask: expected bool or ", ctx.dtype(kQuery), ", received ", dtype));
  }
  bool fits = mask.rank() >= 1 && mask.rank() <= 4;
  const Dim sizes[] = {q.batch, q.heads, q.rows};
  for (int i = 0; fits && i + 1 < mask.rank(); ++i) {
    const Dim size = mask[i];
    fits = size == Dim::of(1) || !known_to_differ(size, sizes[3 - (mask.rank() - 1) + i]);
  }
  if (fits && keys.is_constant() && mask[mask.rank() - 1].is_constant())
    fits = mask[mask.rank() - 1].factor <= keys.factor;
  if (fits) return {};
  return ctx.error(cat("attn_mask: expected a shape that broadcasts to [",
                       ctx.text({q.batch, q.heads, q.rows, keys}), "], received ", ctx.text(mask)));
}

Status check_attributes(const InferContext& ctx) {
  const int64_t mode = attr_int(ctx.attrs(), "qk_matmul_output_mode");
  if (mode < 0 || mode > 3)
    return ctx.error(cat("qk_matmul_output_mode: expected 0 to 3, received ", mode));
  const int64_t precision = attr_int(ctx.attrs(), "softmax_precision", 1);
  if (precision != 1 && precision != 10 && precision != 11 && precision != 16)
    return ctx.error(cat("softmax_precision: expected 1, 10, 11 or 16, received ", precision));
  for (const char* window : {"left_window_size", "right_window_size"}) {
    const int64_t size = attr_int(ctx.attrs(), window, -1);
    if (size < -1) return ctx.error(cat(window, ": expected -1 or more, received ", size));
  }
  if (attr_float(ctx.attrs(), "softcap", 0) < 0) return ctx.error("softcap: expected 0 or more");
  return {};
}

Status check_lengths(const InferContext& ctx, int i, Dim batch) {
  if (!ctx.has_input(i)) return {};
  if (ctx.shape(i).rank() == 1 && !known_to_differ(ctx.shape(i)[0], batch)) return {};
  return ctx.error(cat("nonpad_kv_seqlen: expected one length for each row of the batch, received ",
                       ctx.text(ctx.shape(i))));
}

// Checks the keys and values of earlier steps, and returns the number of all keys.
Result<Dim> check_past(InferContext& ctx, const InferredAttention& a) {
  if (ctx.has_input(kPastKey) != ctx.has_input(kPastValue))
    return ctx.error("expected past_key and past_value, or neither");
  if (!ctx.has_input(kPastKey)) return a.k.rows;
  if (ctx.has_input(kLengths))
    return ctx.error("expected past_key or nonpad_kv_seqlen, received both");
  const SymbolicShape &key = ctx.shape(kPastKey), &value = ctx.shape(kPastValue);
  const auto fits = [&](const SymbolicShape& shape, const HeadSizes& of) {
    return shape.rank() == 4 && !known_to_differ(shape[0], of.batch) &&
           !known_to_differ(shape[1], of.heads) && !known_to_differ(shape[3], of.columns);
  };
  if (!fits(key, a.k) || !fits(value, a.v) || known_to_differ(key[2], value[2])) {
    return ctx.error(cat("expected past keys and values of [N,H,T,D] with the heads of K and V, ",
                         "received ", ctx.text(key), " and ", ctx.text(value)));
  }
  if (key[2].is_constant() && a.k.rows.is_constant())
    return Dim::of(key[2].factor + a.k.rows.factor);
  return Dim::of_symbol(ctx.fresh_symbol());
}

DType sum_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

Status infer_attention(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_attributes(ctx));
  LEAT_ASSIGN_OR_RETURN(const InferredAttention a, infer_heads(ctx));
  LEAT_ASSIGN_OR_RETURN(const Dim keys, check_past(ctx, a));
  LEAT_RETURN_IF_ERROR(check_mask(ctx, kMask, a.q, keys));
  LEAT_RETURN_IF_ERROR(check_lengths(ctx, kLengths, a.q.batch));
  const DType dtype = ctx.dtype(kQuery);
  if (ctx.shape(kQuery).rank() == 4) {
    ctx.set_tensor(kAttended, dtype, {a.q.batch, a.q.heads, a.q.rows, a.v.columns});
  } else {
    const auto hidden = multiply(a.v.columns, a.q.heads);
    ctx.set_tensor(kAttended, dtype,
                   {a.q.batch, a.q.rows, hidden ? *hidden : Dim::of_symbol(ctx.fresh_symbol())});
  }
  ctx.set_tensor(kPresentKey, dtype, {a.k.batch, a.k.heads, keys, a.k.columns});
  ctx.set_tensor(kPresentValue, dtype, {a.v.batch, a.v.heads, keys, a.v.columns});
  ctx.set_tensor(kScores, dtype, {a.q.batch, a.q.heads, a.q.rows, keys});
  ctx.set_tensor(kLogSumExp, sum_dtype(dtype), {a.q.batch, a.q.heads, a.q.rows});
  return {};
}

// True if y may be what Attention gives for these heads, as [N,H,T,D] or [N,T,H*D].
bool fits_attended(const SymbolicShape& y, const InferredAttention& a) {
  if (y.rank() == 4) {
    return !known_to_differ(y, SymbolicShape{a.q.batch, a.q.heads, a.q.rows, a.v.columns});
  }
  const auto hidden = multiply(a.v.columns, a.q.heads);
  return !known_to_differ(y[0], a.q.batch) && !known_to_differ(y[1], a.q.rows) &&
         (!hidden || !known_to_differ(y[2], *hidden));
}

Status infer_attention_grad(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_attributes(ctx));
  LEAT_ASSIGN_OR_RETURN(const InferredAttention a, infer_heads(ctx));
  LEAT_RETURN_IF_ERROR(check_mask(ctx, kGradMask, a.q, a.k.rows));
  LEAT_RETURN_IF_ERROR(check_lengths(ctx, kGradLengths, a.q.batch));
  const SymbolicShape sums{a.q.batch, a.q.heads, a.q.rows};
  if (ctx.has_input(kGradPast) && ctx.shape(kGradPast).rank() != 4)
    return ctx.error(cat("past: expected rank 4, received ", ctx.text(ctx.shape(kGradPast))));
  const SymbolicShape &y = ctx.shape(kGradAttended), &dy = ctx.shape(kGradOfAttended);
  if (y.rank() != ctx.shape(kQuery).rank() || known_to_differ(y, dy) || y.rank() != dy.rank() ||
      !fits_attended(y, a) || ctx.shape(kGradLogSumExp).rank() != 3 ||
      known_to_differ(ctx.shape(kGradLogSumExp), sums) ||
      ctx.dtype(kGradLogSumExp) != sum_dtype(ctx.dtype(kQuery))) {
    return ctx.error(cat("expected y and dy of Attention's shape, and a log_sum_exp of ",
                         ctx.text(sums), ": y is ", ctx.text(y), ", dy is ", ctx.text(dy),
                         ", log_sum_exp is ", ctx.text(ctx.shape(kGradLogSumExp))));
  }
  ctx.set_output(kQueryGrad, ctx.input(kGradQuery));
  ctx.set_output(kKeyGrad, ctx.input(kGradKey));
  ctx.set_output(kValueGrad, ctx.input(kGradValue));
  if (!ctx.wants_output(kMaskGrad)) return {};
  if (!ctx.has_input(kGradMask) || ctx.dtype(kGradMask) == DType::boolean)
    return ctx.error("expected a mask of floats for a gradient of the mask");
  ctx.set_output(kMaskGrad, ctx.input(kGradMask));
  return {};
}

// --- The gradient ------------------------------------------------------------------------------

ValueId int_vector(GradientContext& ctx, int64_t value) {
  return ctx.constant(Tensor::of<int64_t>({1}, {value}));
}

// A gradient [N,H,T,D] in the form of `like`, which may be [N,T,H*D].
ValueId in_form_of(GradientContext& ctx, ValueId grad, ValueId like) {
  if (ctx.type(like).shape.rank() == 4) return grad;
  const std::vector<int64_t> perm{0, 2, 1, 3};
  return reshape_to(ctx, ctx.emit("Transpose", {grad}, {{"perm", perm}}), like);
}

// The gradient of all keys, or of all values, goes to those of earlier steps and to those of this
// one. `grad` has the form of what the gradient op got; kNone if nothing depends on the result.
void split_past(GradientContext& ctx, ValueId grad, int input, int past_input, int present) {
  const ValueId past = ctx.input(past_input), of_present = ctx.grad(present);
  if (past == kNone) {
    ctx.set_grad(input, grad);
    if (of_present != kNone) ctx.set_grad(input, in_form_of(ctx, of_present, ctx.input(input)));
    return;
  }
  const bool both = grad != kNone && of_present != kNone;
  if (both) grad = ctx.emit("Add", {grad, of_present});
  if (grad == kNone) grad = of_present;
  if (grad == kNone) return;
  const ValueId length = ctx.emit("Shape", {past}, {{"start", int64_t{2}}, {"end", int64_t{3}}});
  const ValueId axis = int_vector(ctx, 2);
  if (ctx.needs(past_input))
    ctx.set_grad(past_input, ctx.emit("Slice", {grad, int_vector(ctx, 0), length, axis}));
  const ValueId end = int_vector(ctx, std::numeric_limits<int64_t>::max());
  ctx.set_grad(input,
               in_form_of(ctx, ctx.emit("Slice", {grad, length, end, axis}), ctx.input(input)));
}

Status attention_gradient(GradientContext& ctx) {
  if (ctx.grad(kScores) != kNone)
    return ctx.error("has no gradient through its output qk_matmul_output");
  if (ctx.grad(kAttended) == kNone) {
    split_past(ctx, kNone, kKey, kPastKey, kPresentKey);
    split_past(ctx, kNone, kValue, kPastValue, kPresentValue);
    return {};
  }
  const bool has_past = ctx.input(kPastKey) != kNone;
  const std::vector<ValueId> inputs = {
      ctx.input(kQuery),
      has_past ? ctx.optional_output(kPresentKey) : ctx.input(kKey),
      has_past ? ctx.optional_output(kPresentValue) : ctx.input(kValue),
      ctx.output(kAttended),
      ctx.optional_output(kLogSumExp),
      ctx.grad(kAttended),
      ctx.input(kMask),
      ctx.input(kPastKey),
      ctx.input(kLengths)};
  const bool of_mask = ctx.needs(kMask) && ctx.type(ctx.input(kMask)).dtype != DType::boolean;
  const auto grads = ctx.emit_n("leat.AttentionGrad", inputs, ctx.node().attrs, of_mask ? 4 : 3);
  ctx.set_grad(kQuery, grads[kQueryGrad]);
  split_past(ctx, grads[kKeyGrad], kKey, kPastKey, kPresentKey);
  split_past(ctx, grads[kValueGrad], kValue, kPastValue, kPresentValue);
  if (of_mask) ctx.set_grad(kMask, grads[kMaskGrad]);
  return {};
}

// --- Rules -------------------------------------------------------------------------------------

// Rows of the batch are independent. The gradient of a mask that they share is a sum over them.
template <int kMaskInput>
std::vector<ShardingRule> shard_attention(const std::vector<OperandType>& inputs,
                                          const std::vector<OperandType>& outputs, const Attrs&) {
  const Spread row = Spread::on(0);
  ShardingRule rule{std::vector<Spread>(inputs.size(), row),
                    std::vector<Spread>(outputs.size(), row)};
  if (inputs.size() <= kMaskInput || !inputs[kMaskInput].present) return {rule};
  const Shape& mask = inputs[kMaskInput].shape;
  if (mask.rank() == 4 && mask[0] == inputs[kQuery].shape[0]) return {rule};
  rule.inputs[kMaskInput] = {};
  const bool of_mask = kMaskInput == kGradMask && outputs.size() > kMaskGrad;
  if (of_mask) rule.outputs[kMaskGrad] = Spread::sum();
  return {rule};
}

HeadStrides strides_of(const Shape& shape, int64_t heads) {
  if (shape.rank() == 4) return {shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3]};
  return {shape[1] * shape[2], shape[2] / heads, shape[2]};
}

MaskForm mask_form(const OperandType& mask) {
  MaskForm form{.present = true, .boolean = mask.dtype == DType::boolean};
  const int rank = mask.shape.rank();
  const auto size = [&](int from_end) {
    return from_end <= rank ? mask.shape[rank - from_end] : 1;
  };
  form.width = size(1);
  form.rows = size(2);
  form.heads = size(3);
  form.batches = size(4);
  return form;
}

// Fills everything but the number of past keys and the output's strides.
Result<AttentionForm> form_of(const OpTypes& types, int mask) {
  AttentionForm form;
  const Attrs& attrs = *types.attrs;
  const Shape &q = types.inputs[kQuery].shape, &k = types.inputs[kKey].shape,
              &v = types.inputs[kValue].shape;
  form.batch = q[0];
  form.q_heads = q.rank() == 4 ? q[1] : attr_int(attrs, "q_num_heads", 1);
  form.kv_heads = k.rank() == 4 ? k[1] : attr_int(attrs, "kv_num_heads", 1);
  form.queries = q[q.rank() - 2];
  form.keys = k[k.rank() - 2];
  form.head = q.rank() == 4 ? q[3] : q[2] / form.q_heads;
  form.v_head = v.rank() == 4 ? v[3] : v[2] / form.kv_heads;
  const int64_t k_head = k.rank() == 4 ? k[3] : k[2] / form.kv_heads;
  const int64_t v_heads = v.rank() == 4 ? v[1] : form.kv_heads;
  if (k[0] != q[0] || v[0] != q[0] || v[v.rank() - 2] != form.keys || k_head != form.head ||
      v_heads != form.kv_heads || form.kv_heads < 1 || form.q_heads % form.kv_heads != 0) {
    return invalid_argument(
        cat("Q, K and V do not fit: ", q.to_string(), ", ", k.to_string(), " and ", v.to_string()));
  }
  // Kernels number their tiles with an int. Heads without columns take no memory, so that no other
  // limit holds them.
  const auto heads = checked_mul(form.batch, std::max(form.q_heads, form.kv_heads));
  const auto lines = heads ? checked_mul(*heads, std::max<int64_t>(1, form.queries)) : heads;
  if (!lines || *lines > std::numeric_limits<int32_t>::max()) {
    return invalid_argument(cat("expected less than 2^31 queries in all heads and rows, received ",
                                form.batch, " x ", form.q_heads, " x ", form.queries));
  }
  form.q = strides_of(q, form.q_heads);
  form.k = strides_of(k, form.kv_heads);
  form.v = strides_of(v, form.kv_heads);
  if (types.has_input(mask)) form.mask = mask_form(types.inputs[static_cast<size_t>(mask)]);
  form.scale = form.head > 0 ? 1 / std::sqrt(static_cast<double>(form.head)) : 1;
  form.scale = attr_float(attrs, "scale", form.scale);
  form.softcap = attr_float(attrs, "softcap", 0);
  form.causal = attr_int(attrs, "is_causal") != 0;
  form.left = attr_int(attrs, "left_window_size", -1);
  form.right = attr_int(attrs, "right_window_size", -1);
  form.mode = static_cast<ScoresMode>(attr_int(attrs, "qk_matmul_output_mode"));
  return form;
}

void set_whole(AttentionForm& form) {
  form.whole_k = strides_of({form.batch, form.kv_heads, form.keys, form.head}, form.kv_heads);
  form.whole_v = strides_of({form.batch, form.kv_heads, form.keys, form.v_head}, form.kv_heads);
}

Status check_attention_fits(const AttentionForm& form, const OpTypes& types, int lengths) {
  const MaskForm& mask = form.mask;
  const auto broadcasts = [](int64_t size, int64_t to) { return size == 1 || size == to; };
  if (mask.present &&
      !(broadcasts(mask.batches, form.batch) && broadcasts(mask.heads, form.q_heads) &&
        broadcasts(mask.rows, form.queries) && mask.width <= form.keys)) {
    return invalid_argument(cat("attn_mask: expected a shape that broadcasts to [", form.batch, ",",
                                form.q_heads, ",", form.queries, ",", form.keys, "], received [",
                                mask.batches, ",", mask.heads, ",", mask.rows, ",", mask.width,
                                "]"));
  }
  if (types.has_input(lengths) && types.inputs[static_cast<size_t>(lengths)].shape[0] != form.batch)
    return invalid_argument(cat("nonpad_kv_seqlen: expected ", form.batch, " lengths"));
  return {};
}

Op with_attention_attributes(Op op) {
  return op.attr("is_causal", int64_t{0})
      .attr_optional("q_num_heads", "int")
      .attr_optional("kv_num_heads", "int")
      .attr_optional("scale", "float")
      .attr("softcap", 0.0)
      .attr_optional("softmax_precision", "int")
      .attr("qk_matmul_output_mode", int64_t{0})
      .attr("left_window_size", int64_t{-1})
      .attr("right_window_size", int64_t{-1})
      .type("T", kFloats)
      .type("U", kFloats | kBool)
      .type("L", DTypeSet::of(DType::f32, DType::f64));
}

// Products of queries and keys, and of their probabilities and values, for all keys.
double products_of(const OpTypes& types, const OperandType& y, double keys, double products) {
  return products * keys * (elements_of(types.inputs[0]) + elements_of(y));
}
double keys_of(const OpTypes& types) {
  const Shape& k = types.inputs[1].shape;
  return k.rank() < 3 ? 0 : static_cast<double>(k[k.rank() - 2]);
}
double attention_flops(const OpTypes& types) {
  double keys = keys_of(types);
  if (types.has_input(4)) keys += static_cast<double>(types.inputs[4].shape[2]);
  return products_of(types, types.outputs[0], keys, 2);
}
// The gradient computes the first product again and has four others.
double attention_grad_flops(const OpTypes& types) {
  return products_of(types, types.inputs[3], keys_of(types), 5);
}

}  // namespace

AttentionForm::Keys AttentionForm::visible(int64_t row, int64_t length) const {
  // The place of the query among the keys.
  const int64_t place = row + (length >= 0 ? length - queries : past);
  int64_t first = 0, last = keys;
  if (length >= 0) last = std::min(last, length);
  if (mask.present) last = std::min(last, mask.width);
  if (causal) last = std::min(last, place + 1);
  if (right >= 0 && place < keys && right < keys - place) last = std::min(last, place + right + 1);
  if (left >= 0) first = std::max(first, place - std::min(left, place + 1));
  return {std::min(first, keys), std::max<int64_t>(last, 0)};
}

Result<AttentionForm> attention_form(const OpTypes& types) {
  LEAT_ASSIGN_OR_RETURN(AttentionForm form, form_of(types, kMask));
  if (types.has_input(kPastKey)) {
    const Shape &key = types.inputs[kPastKey].shape, &value = types.inputs[kPastValue].shape;
    form.past = key[2];
    if (key != Shape({form.batch, form.kv_heads, form.past, form.head}) ||
        value != Shape({form.batch, form.kv_heads, form.past, form.v_head})) {
      return invalid_argument(
          cat("past keys and values do not fit: ", key.to_string(), " and ", value.to_string()));
    }
    form.keys += form.past;
  }
  form.y = strides_of(types.outputs[kAttended].shape, form.q_heads);
  set_whole(form);
  LEAT_RETURN_IF_ERROR(check_attention_fits(form, types, kLengths));
  return form;
}

Result<AttentionForm> attention_grad_form(const OpTypes& types) {
  LEAT_ASSIGN_OR_RETURN(AttentionForm form, form_of(types, kGradMask));
  if (types.has_input(kGradPast)) form.past = types.inputs[kGradPast].shape[2];
  form.y = strides_of(types.inputs[kGradAttended].shape, form.q_heads);
  set_whole(form);
  const Shape sums({form.batch, form.q_heads, form.queries});
  const Shape& y = types.inputs[kGradAttended].shape;
  const Shape attended = y.rank() == 4
                             ? Shape({form.batch, form.q_heads, form.queries, form.v_head})
                             : Shape({form.batch, form.queries, form.q_heads * form.v_head});
  if (types.inputs[kGradLogSumExp].shape != sums || y != attended ||
      y != types.inputs[kGradOfAttended].shape) {
    return invalid_argument(cat(
        "expected y and dy of ", attended.to_string(), ", and a log_sum_exp of ", sums.to_string(),
        ": y is ", y.to_string(), ", dy is ", types.inputs[kGradOfAttended].shape.to_string(),
        ", log_sum_exp is ", types.inputs[kGradLogSumExp].shape.to_string()));
  }
  LEAT_RETURN_IF_ERROR(check_attention_fits(form, types, kGradLengths));
  return form;
}

void register_attention_ops(Catalogue& catalogue) {
  // The last output is the gradient's, and no part of ONNX's signature.
  catalogue.add(with_attention_attributes(Op("Attention", 25)
                                              .input("Q", "T")
                                              .input("K", "T")
                                              .input("V", "T")
                                              .optional_input("attn_mask", "U")
                                              .optional_input("past_key", "T")
                                              .optional_input("past_value", "T")
                                              .optional_input("nonpad_kv_seqlen", "int64")
                                              .output("Y", "T")
                                              .optional_output("present_key", "T")
                                              .optional_output("present_value", "T")
                                              .optional_output("qk_matmul_output", "T")
                                              .optional_output("log_sum_exp", "L"))
                    .infer(infer_attention)
                    .gradient(attention_gradient)
                    .flops(attention_flops)
                    .sharding(shard_attention<kMask>));
  catalogue.add(with_attention_attributes(Op("leat.AttentionGrad")
                                              .input("Q", "T")
                                              .input("K", "T")
                                              .input("V", "T")
                                              .input("Y", "T")
                                              .input("log_sum_exp", "L")
                                              .input("dY", "T")
                                              .optional_input("attn_mask", "U")
                                              .optional_input("past", "T")
                                              .optional_input("nonpad_kv_seqlen", "int64")
                                              .output("dQ", "T")
                                              .output("dK", "T")
                                              .output("dV", "T")
                                              .optional_output("dmask", "U"))
                    .infer(infer_attention_grad)
                    .flops(attention_grad_flops)
                    .sharding(shard_attention<kGradMask>));
}

}  // namespace leat
