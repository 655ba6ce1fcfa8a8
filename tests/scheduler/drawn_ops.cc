#include "tests/scheduler/drawn_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "devices/base/text.h"

namespace leat {
namespace {

std::string number_text(double value) {
  std::string text = shortest(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string attr_text(const Attr& attr) {
  if (const auto* list = std::get_if<Sizes>(&attr)) return cat("[", join(*list, ", "), "]");
  if (const auto* one = std::get_if<int64_t>(&attr)) return std::to_string(*one);
  if (const auto* real = std::get_if<double>(&attr)) return number_text(*real);
  if (const auto* text = std::get_if<std::string>(&attr)) return cat("\"", *text, "\"");
  std::vector<std::string> parts;
  if (const auto* reals = std::get_if<std::vector<double>>(&attr)) {
    for (const double real : *reals) parts.push_back(number_text(real));
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
    for (const std::string& text : *texts) parts.push_back(cat("\"", text, "\""));
  }
  return cat("[", join(parts, ", "), "]");
}

std::string type_text(const Tensor& tensor) {
  const std::string name(dtype_name(tensor.dtype()));
  return tensor.shape().rank() == 0 ? name : cat(name, "[", join(tensor.shape(), ","), "]");
}

std::string constant_text(const Tensor& tensor) {
  std::vector<std::string> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    values.push_back(is_float(tensor.dtype()) ? number_text(tensor.at(i))
                                              : cat(static_cast<int64_t>(tensor.at(i))));
  }
  return cat(type_text(tensor), " {", join(values, ", "), "}");
}

std::string attrs_text(const Attrs& attrs) {
  std::vector<std::string> parts;
  for (const auto& [name, attr] : attrs) {
    const auto* list = std::get_if<Sizes>(&attr);
    const char* kind = list != nullptr && list->empty() ? ": ints" : "";
    parts.push_back(cat(name, kind, " = ", attr_text(attr)));
  }
  return parts.empty() ? "" : cat(" <", join(parts, ", "), ">");
}

}  // namespace

void DrawnOp::add(Tensor value, bool differentiable) {
  if (differentiable && value.dtype() == DType::f64) gradient.push_back(inputs.size());
  inputs.push_back({std::move(value), false});
}

DType Drawer::dtype(DTypeSet allowed) {
  if (trains_) return DType::f64;
  if (allowed.has(DType::f32) && !once_in(3)) return once_in(3) ? DType::f64 : DType::f32;
  for (;;) {
    const auto drawn = static_cast<DType>(from(1, kDTypeCount - 1));
    if (allowed.has(drawn)) return drawn;
  }
}

int64_t Drawer::size() {
  const int64_t kind = from(1, 16);
  if (kind == 1) return 0;
  if (kind <= 4) return 1;
  return trains_ || kind < 14 ? from(2, 4) : any_of({5, 8, 9, 16, 17, 33});
}

Shape Drawer::shape(int least_rank, int most_rank) {
  const int64_t rank = from(least_rank, most_rank), most = trains_ ? 60 : 3000;
  Shape out;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t next = size();
    out.push_back(out.elements() * next > most ? 1 : next);
  }
  return out;
}

int64_t Drawer::axis(int rank, bool* drawn_wrong) {
  if (drawn_wrong != nullptr && *drawn_wrong) return once_in(2) ? rank : -rank - 1;
  return from(-rank, rank - 1);
}

Tensor Drawer::tensor(DType dtype, const Shape& shape, double low, double high) {
  Tensor out(dtype, shape);
  const bool whole = !is_float(dtype);
  for (int64_t i = 0; i < out.elements(); ++i) {
    double value = real(low, high);
    if (whole) value = std::floor(2 * value);
    if (is_unsigned_int(dtype)) value = std::abs(value);
    if (dtype == DType::boolean) value = once_in(2);
    out.set(i, value);
  }
  return out;
}

Shape Drawer::broadcast(const Shape& to) {
  Shape out;
  const int64_t skipped = once_in(3) ? from(0, to.rank()) : 0;
  for (int i = static_cast<int>(skipped); i < to.rank(); ++i) out.push_back(once_in(4) ? 1 : to[i]);
  return out;
}

bool Drawer::wrong(DrawnOp& op) {
  if (trains_ || op.wrong || !once_in(12)) return false;
  op.wrong = true;
  return true;
}

int64_t place(const Shape& shape, const Sizes& index) {
  int64_t out = 0;
  const size_t skipped = index.size() - static_cast<size_t>(shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    out = out * shape[i] + (shape[i] == 1 ? 0 : index[skipped + static_cast<size_t>(i)]);
  }
  return out;
}

void for_each_index(const Shape& shape, const std::function<void(const Sizes&)>& f) {
  Sizes index(static_cast<size_t>(shape.rank()));
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t rest = i;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      index[static_cast<size_t>(d)] = rest % shape[d];
      rest /= shape[d];
    }
    f(index);
  }
}

Tensor elements(const Shape& shape, const std::function<double(const Sizes&)>& f) {
  Tensor out(DType::f64, shape);
  int64_t i = 0;
  for_each_index(shape, [&](const Sizes& index) { out.set(i++, f(index)); });
  return out;
}

const std::vector<DrawnFamily>& drawn_families() {
  static const std::vector<DrawnFamily> kFamilies = [] {
    std::vector<DrawnFamily> all;
    for (const auto& part : {elementwise_families(), reduction_families(), movement_families(),
                             indexing_families(), sequence_families(), more_families()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return kFamilies;
}

DrawnOp draw_op(const DrawnFamily& family, uint64_t seed, bool trains) {
  Drawer draw(seed, trains);
  DrawnOp op;
  op.op = family.op;
  family.draw(draw, op);
  return op;
}

std::string text_of(const DrawnOp& op) {
  std::vector<std::string> operands;
  for (const DrawnInput& input : op.inputs) {
    operands.push_back(!input.value.valid() ? ""
                       : input.constant     ? constant_text(input.value)
                                            : type_text(input.value));
  }
  return cat(op.op, attrs_text(op.attrs), " (", join(operands, ", "), ")",
             op.wrong ? ", which is wrong" : "");
}

std::string graph_text(const DrawnOp& op, const std::string& fed, const std::string& more,
                       const std::string& fetched) {
  std::vector<std::string> inputs, operands, outputs;
  std::string constants;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const DrawnInput& input = op.inputs[i];
    operands.push_back(input.value.valid() ? cat("in", i) : "");
    if (!input.value.valid()) continue;
    if (input.constant) {
      constants += cat("  in", i, " = Constant <value = ", constant_text(input.value), "> ()\n");
    } else {
      inputs.push_back(cat(type_text(input.value), " in", i));
    }
  }
  while (!operands.empty() && operands.back().empty()) operands.pop_back();
  if (!fed.empty()) inputs.push_back(fed);
  for (int i = 0; i < op.outputs; ++i) outputs.push_back(cat("y", i));
  return cat("<ir_version: 10, opset_import: [\"\" : 23, \"leat\" : 1]>\ng (", join(inputs, ", "),
             ") => (", fetched.empty() ? join(outputs, ", ") : fetched, ") {\n", constants, "  ",
             join(outputs, ", "), " = ", op.op, attrs_text(op.attrs), " (", join(operands, ", "),
             ")\n", more, "}\n");
}

}  // namespace leat
