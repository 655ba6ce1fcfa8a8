// A handful of ops for the tests of the text form: enough of every kind of operand and attribute.
#pragma once

#include "ops/graph/op.h"

namespace leat {

inline Catalogue text_catalogue() {
  Catalogue ops;
  const auto infer = [](InferContext&) { return Status(); };
  ops.add(Op("Constant", 13)
              .output("output", "T")
              .attr_required("value", "tensor")
              .type("T", kAllTypes)
              .infer(infer));
  ops.add(Op("Add", 14)
              .input("A", "T")
              .input("B", "T")
              .output("C", "T")
              .type("T", kNumbers)
              .infer(infer));
  ops.add(Op("Relu", 14).input("X", "T").output("Y", "T").type("T", kFloats).infer(infer));
  ops.add(Op("Clip", 13)
              .input("X", "T")
              .optional_input("min", "T")
              .optional_input("max", "T")
              .output("Y", "T")
              .type("T", kNumbers)
              .infer(infer));
  ops.add(Op("Elu", 6)
              .input("X", "T")
              .output("Y", "T")
              .attr("alpha", 1.0)
              .type("T", kFloats)
              .infer(infer));
  ops.add(Op("MaxPool", 12)
              .input("X", "T")
              .output("Y", "T")
              .optional_output("Indices", "int64")
              .attr_optional("kernel_shape", "ints")
              .attr_optional("strides", "ints")
              .type("T", kFloats)
              .infer(infer));
  ops.add(Op("If", 19)
              .input("cond", "bool")
              .variadic_output("outputs", "V", true)
              .attr_required("then_branch", "graph")
              .attr_required("else_branch", "graph")
              .type("V", kAllTypes)
              .infer(infer));
  ops.add(Op("Loop", 19)
              .optional_input("M", "int64")
              .optional_input("cond", "bool")
              .variadic_input("v_initial", "V", true)
              .variadic_output("v_final", "V", true)
              .attr_required("body", "graph")
              .type("V", kAllTypes)
              .infer(infer));
  ops.add(Op("leat.Variable")
              .output("r", "resource")
              .attr_required("name", "string")
              .stateful()
              .infer(infer));
  ops.add(Op("leat.Assign")
              .input("r", "resource")
              .input("value", "T")
              .type("T", kAllTypes)
              .stateful()
              .writes(0)
              .infer(infer));
  ops.add(Op("leat.Anything")
              .variadic_input("in", "any")
              .variadic_output("out", "T", true)
              .type("T", kAllTypes)
              .infer(infer));
  return ops;
}

}  // namespace leat
