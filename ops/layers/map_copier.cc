#include "ops/layers/map_copier.h"

#include <bit>
#include <utility>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The op that reduces two values; "" for an unknown reduction.
std::string_view op_of_two(std::string_view reduction) {
  if (reduction == "sum" || reduction == "mean") return "Add";
  if (reduction == "max") return "Max";
  return reduction == "min" ? "Min" : "";
}

}  // namespace

Result<int64_t> MapCopier::items_of(const ControlNode& of, int64_t replicas) const {
  if (replicas < 1)
    return invalid_argument(
        cat(of.subject, ": replicas: expected at least 1, received ", replicas));
  if (of.inputs.empty())
    return invalid_argument(cat(of.subject, ": expected items along the first axis of an input, ",
                                "received no input"));
  int64_t items = 0;
  for (const ValueId input : of.inputs) {
    const ValueType& type = to().value(input).type;
    if (type.kind != ValueKind::tensor || type.shape.rank() < 1 || !type.shape[0].is_constant() ||
        type.shape[0].factor < 1) {
      return invalid_argument(cat(of.subject, ": expected at least one item, and a number of them ",
                                  "that is known when the graph is loaded, along the first axis; '",
                                  to().describe(input), "' is ", to().type_text(type)));
    }
    if (items != 0 && items != type.shape[0].factor) {
      return invalid_argument(cat(of.subject, ": expected as many items in each input, received ",
                                  items, " and ", type.shape[0].factor));
    }
    items = type.shape[0].factor;
  }
  if (items % replicas != 0) {
    return invalid_argument(cat(of.subject, ": expected a number of items that ", replicas,
                                " replicas divide, received ", items));
  }
  if (items / replicas <= static_cast<int64_t>(limits::kOperands)) return items;
  return invalid_argument(cat(of.subject, ": expected at most ", limits::kOperands,
                              " items for each replica, received ", items / replicas));
}

Result<std::vector<ValueIds>> MapCopier::own_items(const ControlNode& of, int64_t own) {
  Tensor numbers(DType::i64, {own});
  for (int64_t i = 0; i < own; ++i) numbers.set(i, static_cast<double>(i));
  LEAT_ASSIGN_OR_RETURN(const ValueId replica, emit(of, "leat.ReplicaId", {}));
  LEAT_ASSIGN_OR_RETURN(const ValueId count, constant(of, Tensor::of<int64_t>({1}, {own})));
  LEAT_ASSIGN_OR_RETURN(const ValueId first, emit(of, "Mul", {replica, count}));
  LEAT_ASSIGN_OR_RETURN(const ValueId offsets, constant(of, std::move(numbers)));
  LEAT_ASSIGN_OR_RETURN(const ValueId indices, emit(of, "Add", {first, offsets}));
  std::vector<ValueIds> items;
  for (const ValueId input : of.inputs) {
    LEAT_ASSIGN_OR_RETURN(const ValueId part,
                          emit(of, "Gather", {input, indices}, {{"axis", int64_t{0}}}));
    LEAT_ASSIGN_OR_RETURN(ValueIds each, sliced(of, part, 0));
    items.push_back(std::move(each));
  }
  return items;
}

Result<ValueId> MapCopier::reduced(const ControlNode& of, std::string_view op,
                                   const ValueIds& values, size_t first, size_t last) {
  if (last - first == 1) return values[first];
  const size_t middle = first + std::bit_floor(last - first - 1);
  LEAT_ASSIGN_OR_RETURN(const ValueId left, reduced(of, op, values, first, middle));
  LEAT_ASSIGN_OR_RETURN(const ValueId right, reduced(of, op, values, middle, last));
  return emit(of, op, {left, right});
}

// A mean is the sum over the shards, divided once by the number of all items.
Result<ValueId> MapCopier::all_reduced(const ControlNode& of, ValueId value, int64_t replicas,
                                       int64_t items) {
  const std::string op = attr_string(of.node.attrs, "op", "sum");
  const DType dtype = to().value(value).type.dtype;
  LEAT_ASSIGN_OR_RETURN(const ValueId all,
                        emit(of, "leat.AllReduce", {value},
                             {{"op", op == "mean" ? "sum" : op}, {"replicas", replicas}}));
  if (op != "mean") return all;
  if (!is_float(dtype)) {
    return invalid_argument(
        cat(of.subject, ": expected floats for the mean, received ", dtype_name(dtype)));
  }
  LEAT_ASSIGN_OR_RETURN(const ValueId scale,
                        constant(of, Tensor::scalar_of(dtype, 1.0 / static_cast<double>(items))));
  return emit(of, "Mul", {all, scale});
}

Result<ValueIds> MapCopier::mapped(const ControlNode& of) {
  const Attrs& attrs = of.node.attrs;
  const bool gathers = of.node.op->name == "MapGather";
  const std::string op = attr_string(attrs, "op", "sum");
  const std::string_view op_of_pair = op_of_two(op);
  if (op_of_pair.empty()) {
    return invalid_argument(
        cat(of.subject, ": op: expected sum, mean, max or min, received '", op, "'"));
  }
  LEAT_ASSIGN_OR_RETURN(const Graph* body, region_of(of, "body"));
  const int64_t replicas = attr_int(attrs, "replicas", 1);
  LEAT_ASSIGN_OR_RETURN(const int64_t items, items_of(of, replicas));
  const int64_t own = items / replicas;
  LEAT_ASSIGN_OR_RETURN(const std::vector<ValueIds> operands, own_items(of, own));
  std::vector<ValueIds> made(body->outputs().size());
  for (size_t i = 0; i < static_cast<size_t>(own); ++i) {
    ValueIds given;
    for (const ValueIds& operand : operands) given.push_back(operand[i]);
    given.insert(given.end(), of.captures.begin(), of.captures.end());
    LEAT_ASSIGN_OR_RETURN(const ValueIds results,
                          inlined(of, *body, std::move(given), cat(of.label, "/", i), i > 0));
    for (size_t o = 0; o < made.size(); ++o) made[o].push_back(results[o]);
  }
  ValueIds results;
  for (const ValueIds& values : made) {
    LEAT_ASSIGN_OR_RETURN(
        const ValueId mine,
        gathers ? stacked(of, values, 0) : reduced(of, op_of_pair, values, 0, values.size()));
    LEAT_ASSIGN_OR_RETURN(
        const ValueId all,
        gathers ? emit(of, "leat.AllGather", {mine}, {{"axis", int64_t{0}}, {"replicas", replicas}})
                : all_reduced(of, mine, replicas, items));
    results.push_back(all);
  }
  return results;
}

}  // namespace leat
