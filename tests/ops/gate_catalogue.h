// Ops only for the tests of graph and gate: every kind of operand and attribute, with simple rules.
#pragma once

#include <string>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/op.h"

namespace leat::testing {

inline Status infer_all_as_first(InferContext& ctx) {
  for (int i = 0; i < ctx.outputs(); ++i) {
    if (ctx.wants_output(i))
      ctx.set_output(i, ctx.inputs() > 0 ? ctx.input(0) : ValueType{ValueKind::token, {}, {}});
  }
  return {};
}

inline Result<std::unique_ptr<Kernel>> make_negation(const KernelSetup& setup) {
  const int64_t n = setup.output(0).shape.elements();
  return make_kernel([n](KernelContext& context) {
    for (int64_t i = 0; i < n; ++i) context.out<int64_t>(0)[i] = -context.in<int64_t>(0)[i];
    return Progress::done;
  });
}

// Pass (x) -> y; Sum (xs...) -> y; Clip (x, min?, max?) -> y, mask?; Source () -> y of any type;
// Negate of int64, with a kernel; Known () -> its value, known; Twice (x) -> [2*d...] of x's sizes;
// Nothing () -> ; Options, with an attribute of each kind; Wide, with 300 attributes.
inline Catalogue gate_catalogue() {
  Catalogue ops;
  ops.add(
      Op("Pass").input("x", "T").output("y", "T").type("T", kNumbers).infer(infer_all_as_first));
  ops.add(Op("Sum")
              .variadic_input("xs", "T")
              .output("y", "T")
              .type("T", kNumbers)
              .infer(infer_all_as_first));
  ops.add(Op("Mixed")
              .variadic_input("xs", "T", true)
              .output("y", "T")
              .type("T", kNumbers)
              .infer(infer_all_as_first));
  ops.add(Op("Many")
              .input("x", "T")
              .variadic_output("ys", "T")
              .type("T", kNumbers)
              .infer(infer_all_as_first));
  ops.add(Op("Clip")
              .input("x", "T")
              .optional_input("min", "T")
              .optional_input("max", "T")
              .output("y", "T")
              .optional_output("mask", "T")
              .type("T", kFloats)
              .infer(infer_all_as_first));
  ops.add(
      Op("Sized").output("y", "float").attr_required("shape", "ints").infer([](InferContext& ctx) {
        SymbolicShape shape;
        for (int64_t size : attr_ints(ctx.attrs(), "shape")) shape.push_back(Dim::of(size));
        ctx.set_tensor(0, DType::f32, shape);
        return Status();
      }));
  ops.add(Op("Known")
              .output("y", "int64")
              .attr_required("value", "tensor")
              .infer([](InferContext& ctx) {
                const auto& value = std::get<Tensor>(ctx.attrs().at("value"));
                ctx.set_tensor(0, value.dtype(), SymbolicShape(value.shape()));
                ctx.set_constant(0, value);
                return Status();
              }));
  ops.add(Op("Negate")
              .input("x", "int64")
              .output("y", "int64")
              .infer(infer_all_as_first)
              .kernel("cpu", make_negation));
  ops.add(Op("NegateNoise")
              .input("x", "int64")
              .output("y", "int64")
              .random()
              .infer(infer_all_as_first)
              .kernel("cpu", make_negation));
  ops.add(
      Op("Twice").input("x", "T").output("y", "T").type("T", kNumbers).infer([](InferContext& ctx) {
        SymbolicShape shape = ctx.shape(0);
        for (int i = 0; i < shape.rank(); ++i) {
          const auto doubled = multiply(shape[i], Dim::of(2));
          if (!doubled) return ctx.error("too large");
          shape.set(i, *doubled);
        }
        ctx.set_tensor(0, ctx.dtype(0), shape);
        return Status();
      }));
  ops.add(Op("Forgetful").output("y", "float").infer([](InferContext&) { return Status(); }));
  ops.add(Op("Nothing").infer([](InferContext&) { return Status(); }));
  ops.add(Op("Handle").output("r", "resource").infer([](InferContext& ctx) {
    ctx.set_output(0, ValueType{ValueKind::resource, DType::f32, {}});
    return Status();
  }));
  ops.add(Op("Use")
              .input("r", "resource")
              .optional_output("done", "token")
              .infer([](InferContext& ctx) {
                if (ctx.wants_output(0)) ctx.set_output(0, ValueType{ValueKind::token, {}, {}});
                return Status();
              }));
  ops.add(Op("Await").input("t", "token").infer([](InferContext&) { return Status(); }));
  ops.add(Op("Options")
              .attr("i", int64_t{1})
              .attr("f", 1.0)
              .attr("s", std::string())
              .attr_optional("t", "tensor")
              .attr_optional("is", "ints")
              .attr_optional("fs", "floats")
              .attr_optional("ss", "strings")
              .attr_optional("g", "graph")
              .infer([](InferContext&) { return Status(); }));
  Op wide("Wide");
  for (int i = 0; i < 300; ++i) wide.attr(cat("a", i), int64_t{0});
  ops.add(wide.infer([](InferContext&) { return Status(); }));
  return ops;
}

}  // namespace leat::testing
