#include "ops/definitions/selection.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"
#include "ops/images/image.h"

namespace leat {
namespace {

constexpr SelectionOp kSelectionOps[] = {
    {"NonZero", non_zero},
    {"Unique", unique},
    {"NonMaxSuppression", non_max_suppression},
    {"ImageDecoder", decoded_image},
};

// -1, 0 or 1, as element i is less than, equal to or greater than element j.
int compare_elements(const Tensor& x, int64_t i, int64_t j) {
  const auto order = [](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
  if (is_float(x.dtype())) {
    const double a = x.at(i), b = x.at(j);
    if (std::isnan(a) || std::isnan(b)) return order(std::isnan(a), std::isnan(b));
    return order(a, b);
  }
  if (x.dtype() == DType::u64)
    return order(static_cast<uint64_t>(x.int_at(i)), static_cast<uint64_t>(x.int_at(j)));
  return order(x.int_at(i), x.int_at(j));
}

// A tensor as `count` slices along an axis; without an axis, the slices are its elements.
struct Slices {
  const Tensor& x;
  int64_t outer = 1, count = 1, inner = 1;

  int64_t element(int64_t slice, int64_t i) const {
    return (i / inner * count + slice) * inner + i % inner;
  }
  int compare(int64_t a, int64_t b) const {
    for (int64_t i = 0; i < outer * inner; ++i) {
      if (const int order = compare_elements(x, element(a, i), element(b, i))) return order;
    }
    return 0;
  }
};

// The different slices, each by the first one that is equal to it, and for each slice its place
// among them.
struct Groups {
  std::vector<int64_t> first, place, size;
};

Groups group(const Slices& slices, bool sorted) {
  std::vector<int64_t> order(static_cast<size_t>(slices.count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return slices.compare(a, b) < 0; });
  Groups groups;
  groups.place.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) {
      groups.first.push_back(order[i]);
      groups.size.push_back(0);
    }
    ++groups.size.back();
    groups.place[static_cast<size_t>(order[i])] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  // In the order of the first of each.
  std::vector<size_t> ranks(groups.first.size());
  std::iota(ranks.begin(), ranks.end(), size_t{0});
  std::ranges::sort(ranks, {}, [&](size_t rank) { return groups.first[rank]; });
  Groups out;
  std::vector<int64_t> place_of(ranks.size());
  for (const size_t rank : ranks) {
    place_of[rank] = static_cast<int64_t>(out.first.size());
    out.first.push_back(groups.first[rank]);
    out.size.push_back(groups.size[rank]);
  }
  for (const int64_t rank : groups.place) out.place.push_back(place_of[static_cast<size_t>(rank)]);
  return out;
}

Tensor vector_of(const std::vector<int64_t>& values) {
  return Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// --- boxes -------------------------------------------------------------------------------------

struct Box {
  float x0, y0, x1, y1;
  float area() const { return (x1 - x0) * (y1 - y0); }
};

// `centered`: [x, y, width, height]; else two opposite corners [y, x, y, x].
Box box_at(const float* values, bool centered) {
  const float a = values[0], b = values[1], c = values[2], d = values[3];
  if (centered) return {a - c / 2, b - d / 2, a + c / 2, b + d / 2};
  return {std::min(b, d), std::min(a, c), std::max(b, d), std::max(a, c)};
}

bool overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  if (width <= 0 || height <= 0) return false;
  const float both = width * height, either = a.area() + b.area() - both;
  return a.area() > 0 && b.area() > 0 && either > 0 && both / either > threshold;
}

// The boxes of one class in the order of their scores; of equal scores the first one is first.
std::vector<int64_t> by_score(const float* scores, int64_t count, const Tensor* least) {
  std::vector<int64_t> boxes;
  for (int64_t i = 0; i < count; ++i) {
    if (!least || scores[i] > static_cast<float>(least->at(0))) boxes.push_back(i);
  }
  std::ranges::stable_sort(boxes, std::greater<float>(), [&](int64_t i) { return scores[i]; });
  return boxes;
}

Status check_boxes(const Tensor& boxes, const Tensor& scores) {
  const Shape &b = boxes.shape(), &s = scores.shape();
  const bool fit = b.rank() == 3 && s.rank() == 3 && b[2] == 4 && b[0] == s[0] && b[1] == s[2];
  if (fit) return {};
  return invalid_argument(cat("expected boxes of [N,B,4] and scores of [N,C,B], received ",
                              b.to_string(), " and ", s.to_string()));
}

const Tensor* given(const KnownInputs& inputs, size_t i) {
  return i < inputs.size() && inputs[i] && inputs[i]->elements() > 0 ? inputs[i] : nullptr;
}

// --- the ops -----------------------------------------------------------------------------------

// As Pillow converts a colour, whatever gray a JPEG has of its own.
uint8_t gray_of(const uint8_t* rgb) {
  const uint32_t sum = 19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u;
  return static_cast<uint8_t>(sum >> 16);
}

// The inputs, if all of them are known.
Result<KnownInputs> known_inputs(InferContext& ctx) {
  KnownInputs inputs;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const Tensor* known = ctx.has_input(i) ? ctx.constant(i) : nullptr;
    if (ctx.has_input(i) && known == nullptr)
      return ctx.error(cat("the size of its output depends on the value of input ", i,
                           ": expected a constant of at most ", limits::kValueInference,
                           " elements, or an input of the model that is fixed at import; ",
                           "received a value that a step computes"));
    inputs.push_back(known);
  }
  return inputs;
}

Status infer_selection(InferContext& ctx, const SelectionOp& op) {
  LEAT_ASSIGN_OR_RETURN(const KnownInputs inputs, known_inputs(ctx));
  const auto outputs = op.evaluate(inputs, ctx.attrs());
  if (!outputs.ok()) return ctx.error(outputs.status().message());
  for (size_t i = 0; i < outputs->size(); ++i) {
    const Tensor& output = (*outputs)[i];
    ctx.set_tensor(static_cast<int>(i), output.dtype(), SymbolicShape(output.shape()));
    if (output.elements() <= limits::kValueInference) ctx.set_constant(static_cast<int>(i), output);
  }
  return {};
}

// A few bytes may be an image of very many pixels, whose size is in its header.
Status infer_decoded_image(InferContext& ctx) {
  LEAT_ASSIGN_OR_RETURN(const KnownInputs inputs, known_inputs(ctx));
  const auto* const bytes = static_cast<const std::byte*>(inputs[0]->raw());
  const auto header = read_image_header({bytes, inputs[0]->bytes()});
  if (!header.ok()) return ctx.error(header.status().message());
  const int64_t channels = attr_string(ctx.attrs(), "pixel_format") == "Grayscale" ? 1 : 3;
  if (header->height * header->width * channels <= limits::kValueInference)
    return infer_selection(ctx, selection_op("ImageDecoder"));
  ctx.set_tensor(0, DType::u8, SymbolicShape(Shape({header->height, header->width, channels})));
  return {};
}

auto rule_of(std::string_view name) {
  return [&op = selection_op(name)](InferContext& ctx) { return infer_selection(ctx, op); };
}

}  // namespace

const SelectionOp& selection_op(std::string_view name) {
  return *std::ranges::find(kSelectionOps, name, &SelectionOp::name);
}

Result<std::vector<Tensor>> non_zero(const KnownInputs& inputs, const Attrs&) {
  const Tensor& x = *inputs[0];
  std::vector<int64_t> found;
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (is_float(x.dtype()) ? x.at(i) != 0 : x.int_at(i) != 0) found.push_back(i);
  }
  const auto count = static_cast<int64_t>(found.size());
  const int rank = x.shape().rank();
  Tensor out(DType::i64, Shape({rank, count}));
  for (int64_t k = 0; k < count; ++k) {
    int64_t rest = found[static_cast<size_t>(k)];
    for (int d = rank; d-- > 0; rest /= x.shape()[d])
      out.data<int64_t>()[d * count + k] = rest % x.shape()[d];
  }
  return std::vector<Tensor>{out};
}

Result<std::vector<Tensor>> unique(const KnownInputs& inputs, const Attrs& attrs) {
  const Tensor& x = *inputs[0];
  Slices slices{x, 1, x.elements(), 1};
  Shape shape({x.elements()});
  int axis = 0;
  if (has_attr(attrs, "axis")) {
    const int64_t written = attr_int(attrs, "axis");
    const int rank = x.shape().rank();
    if (written < -rank || written >= rank)
      return invalid_argument(
          cat("axis: expected in [", -rank, ", ", rank - 1, "], received ", written));
    axis = static_cast<int>(written < 0 ? written + rank : written);
    shape = x.shape();
    slices.outer = shape.elements(0, axis);
    slices.count = shape[axis];
    slices.inner = shape.elements(axis + 1, rank);
    // A tensor without elements may have any number of slices.
    if (slices.count > limits::kValueInference)
      return invalid_argument(cat("expected at most ", limits::kValueInference,
                                  " slices along the axis, received ", slices.count));
  }
  const Groups groups = group(slices, attr_int(attrs, "sorted") != 0);
  const auto count = static_cast<int64_t>(groups.first.size());
  shape.set(axis, count);
  Tensor y(x.dtype(), shape);
  const size_t size = dtype_size(x.dtype()) * static_cast<size_t>(slices.inner);
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(y.raw());
  for (int64_t o = 0; o < slices.outer && size > 0 && count > 0; ++o) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t source = o * slices.count + groups.first[static_cast<size_t>(k)];
      std::memcpy(to + static_cast<size_t>(o * count + k) * size,
                  from + static_cast<size_t>(source) * size, size);
    }
  }
  return std::vector<Tensor>{y, vector_of(groups.first), vector_of(groups.place),
                             vector_of(groups.size)};
}

Result<std::vector<Tensor>> non_max_suppression(const KnownInputs& inputs, const Attrs& attrs) {
  const Tensor &boxes = *inputs[0], &scores = *inputs[1];
  LEAT_RETURN_IF_ERROR(check_boxes(boxes, scores));
  const bool centered = attr_int(attrs, "center_point_box") != 0;
  const Tensor *most = given(inputs, 2), *threshold = given(inputs, 3), *least = given(inputs, 4);
  const int64_t limit = most ? most->int_at(0) : 0, classes = scores.shape()[1];
  const float overlapping = threshold ? static_cast<float>(threshold->at(0)) : 0;
  const int64_t count = boxes.shape()[1];
  if (scores.elements() == 0) return std::vector<Tensor>{Tensor(DType::i64, {0, 3})};
  std::vector<int64_t> out;
  for (int64_t line = 0; line < boxes.shape()[0] * classes; ++line) {
    const float* const of_batch = boxes.data<float>() + line / classes * count * 4;
    std::vector<Box> chosen;
    for (const int64_t i : by_score(scores.data<float>() + line * count, count, least)) {
      if (static_cast<int64_t>(chosen.size()) >= limit) break;
      const Box box = box_at(of_batch + i * 4, centered);
      if (std::ranges::any_of(chosen, [&](const Box& b) { return overlap(box, b, overlapping); }))
        continue;
      chosen.push_back(box);
      out.insert(out.end(), {line / classes, line % classes, i});
    }
  }
  return std::vector<Tensor>{Tensor::of<int64_t>({static_cast<int64_t>(out.size() / 3), 3}, out)};
}

Result<std::vector<Tensor>> decoded_image(const KnownInputs& inputs, const Attrs& attrs) {
  const std::string format = attr_string(attrs, "pixel_format");
  if (format != "RGB" && format != "BGR" && format != "Grayscale")
    return invalid_argument(
        cat("pixel_format: expected 'RGB', 'BGR' or 'Grayscale', received '", format, "'"));
  const Tensor& stream = *inputs[0];
  const std::span bytes(static_cast<const std::byte*>(stream.raw()), stream.bytes());
  LEAT_ASSIGN_OR_RETURN(const Image image, decode_image(bytes, 3));
  const ImageView& view = image.view();
  const int64_t channels = format == "Grayscale" ? 1 : 3;
  Tensor out(DType::u8, Shape({view.height, view.width, channels}));
  uint8_t* to = out.data<uint8_t>();
  for (int64_t y = 0; y < view.height; ++y) {
    for (int64_t x = 0; x < view.width; ++x, to += channels) {
      const uint8_t* rgb = view.row(y) + 3 * x;
      if (format == "RGB") std::copy_n(rgb, 3, to);
      if (format == "BGR") std::reverse_copy(rgb, rgb + 3, to);
      if (format == "Grayscale") *to = gray_of(rgb);
    }
  }
  return std::vector<Tensor>{out};
}

void register_selection_ops(Catalogue& catalogue) {
  catalogue.add(Op("NonZero", 13)
                    .input("X", "T")
                    .output("Y", "int64")
                    .type("T", kAllTypes)
                    .infer(rule_of("NonZero")));
  catalogue.add(Op("Unique", 11)
                    .input("X", "T")
                    .output("Y", "T")
                    .optional_output("indices", "int64")
                    .optional_output("inverse_indices", "int64")
                    .optional_output("counts", "int64")
                    .type("T", kAllTypes)
                    .attr_optional("axis", "int")
                    .attr("sorted", int64_t{1})
                    .infer(rule_of("Unique")));
  catalogue.add(Op("NonMaxSuppression", 11)
                    .input("boxes", "float")
                    .input("scores", "float")
                    .optional_input("max_output_boxes_per_class", "int64")
                    .optional_input("iou_threshold", "float")
                    .optional_input("score_threshold", "float")
                    .output("selected_indices", "int64")
                    .attr("center_point_box", int64_t{0})
                    .infer(rule_of("NonMaxSuppression")));
  catalogue.add(Op("ImageDecoder", 20)
                    .input("encoded_stream", "uint8")
                    .output("image", "uint8")
                    .attr("pixel_format", std::string("RGB"))
                    .infer(infer_decoded_image));
}

}  // namespace leat
