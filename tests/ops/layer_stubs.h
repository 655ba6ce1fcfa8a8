// The ops that layers expand to and that the catalogue lacks: only signatures and shapes.
#pragma once

#include "ops/catalogue.h"
#include "ops/graph/op.h"

namespace leat {

inline void add_missing(Catalogue& c) {
  const auto add = [&](Op op) {
    const OpDef def = op;
    if (c.find(def.domain, def.name) == nullptr) c.add(def);
  };
  const auto same = infer_same_as_first;
  for (const char* n : {"Relu", "Sigmoid", "Tanh"}) {
    add(Op(n).input("X", "T").output("Y", "T").type("T", kFloats).infer(same));
  }
  add(Op("Gelu")
          .input("X", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attr("approximate", std::string("none"))
          .infer(same));
  add(Op("LeakyRelu")
          .input("X", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attr("alpha", 0.01)
          .infer(same));
  add(Op("Softmax")
          .input("X", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attr("axis", int64_t{-1})
          .infer(same));
  add(Op("Dropout")
          .input("X", "T")
          .optional_input("ratio", "float")
          .optional_input("t", "bool")
          .output("Y", "T")
          .optional_output("mask", "bool")
          .type("T", kFloats)
          .random()
          .infer(same));
  add(Op("Add")
          .input("X", "T")
          .input("B", "T")
          .output("Y", "T")
          .type("T", kNumbers)
          .infer(infer_broadcast));
  add(Op("Flatten")
          .input("X", "T")
          .output("Y", "T")
          .type("T", kAllTypes)
          .attr("axis", int64_t{1})
          .infer([](InferContext& x) {
            Dim d = Dim::of(1);
            for (int i = 1; i < x.shape(0).rank(); ++i) d = *multiply(d, x.shape(0)[i]);
            x.set_tensor(0, x.dtype(0), {x.shape(0)[0], d});
            return Status();
          }));
  add(Op("MaxPool")
          .input("X", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attr_optional("kernel_shape", "ints")
          .attr_optional("strides", "ints")
          .infer([](InferContext& x) {
            SymbolicShape s = x.shape(0);
            for (int i = 2; i < 4; ++i) s.set(i, Dim::of(s[i].factor / 2));
            x.set_tensor(0, x.dtype(0), s);
            return Status();
          }));
  add(Op("Gather")
          .input("X", "T")
          .input("I", "J")
          .output("Y", "T")
          .type("T", kAllTypes)
          .type("J", kIndexTypes)
          .attr("axis", int64_t{0})
          .infer([](InferContext& x) {
            SymbolicShape s = x.shape(1);
            s.push_back(x.shape(0)[1]);
            x.set_tensor(0, x.dtype(0), s);
            return Status();
          }));
  add(Op("Constant")
          .output("Y", "T")
          .type("T", kAllTypes)
          .attr_required("value", "tensor")
          .infer([](InferContext& x) {
            const Tensor& t = std::get<Tensor>(x.attrs().at("value"));
            x.set_tensor(0, t.dtype(), t.shape());
            x.set_constant(0, t);
            return Status();
          }));
  add(Op("ConstantOfShape")
          .input("S", "int64")
          .output("Y", "T")
          .type("T", kAllTypes)
          .attr_optional("value", "tensor")
          .infer([](InferContext& x) {
            const Tensor& t = std::get<Tensor>(x.attrs().at("value"));
            x.set_tensor(0, t.dtype(), Shape(x.constant(0)->span<int64_t>()));
            return Status();
          }));
  for (const char* n : {"RandomUniform", "RandomNormal"}) {
    add(Op(n)
            .output("Y", "T")
            .type("T", kFloats)
            .attr("dtype", int64_t{1})
            .attr_required("shape", "ints")
            .attr("low", 0.0)
            .attr("high", 1.0)
            .attr("mean", 0.0)
            .attr("scale", 1.0)
            .random()
            .infer([](InferContext& x) {
              x.set_tensor(0, DType::f32, Shape(attr_ints(x.attrs(), "shape")));
              return Status();
            }));
  }
  add(Op("BatchNormalization")
          .input("X", "T")
          .input("s", "T")
          .input("b", "T")
          .input("m", "T")
          .input("v", "T")
          .output("Y", "T")
          .optional_output("a", "T")
          .optional_output("c", "T")
          .type("T", kFloats)
          .attr("epsilon", 1e-5)
          .attr("momentum", 0.9)
          .attr("training_mode", int64_t{0})
          .infer([](InferContext& x) {
            for (int i = 0; i < x.outputs(); ++i) x.set_output(i, x.input(i == 0 ? 0 : i + 2));
            return Status();
          }));
  add(Op("LayerNormalization")
          .input("X", "T")
          .input("s", "T")
          .optional_input("b", "T")
          .output("Y", "T")
          .type("T", kFloats)
          .attr("axis", int64_t{-1})
          .attr("epsilon", 1e-5)
          .infer(same));
}

inline const Catalogue& stub_ops() {
  static const Catalogue kOps = [] {
    Catalogue c = standard_catalogue();
    add_missing(c);
    return c;
  }();
  return kOps;
}

}  // namespace leat
