// ONNX's Einsum as sums, products and matrix products of its operands, two at a time from the left.
//
// Source: ONNX's operator reference, Einsum-12.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "ops/graph/limits.h"
#include "ops/text/composite_maker.h"

namespace leat {
namespace {

using Attributes = CompositeMaker::Attributes;

// A value, and the label of each of its axes.
struct Labelled {
  DraftName value;
  std::string labels;
};

bool has(std::string_view labels, char label) {
  return labels.find(label) != std::string_view::npos;
}
// The labels of `of` for which `keep` is true, in their order.
template <typename F>
std::string filtered(std::string_view of, F&& keep) {
  std::string out;
  for (const char label : of) {
    if (keep(label)) out.push_back(label);
  }
  return out;
}

// "bij,bjk->bik" in parts. With `dots`, the only operand and the output begin with "...": axes that
// stay in front.
struct Equation {
  std::vector<std::string> operands;
  std::string output;
  bool dots = false;
};

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Without an output, the labels that occur once are the output's, in the order of the alphabet.
std::string implicit_output(const std::vector<std::string>& operands) {
  std::string all;
  for (const std::string& operand : operands) all += operand;
  std::sort(all.begin(), all.end());
  return filtered(all, [&](char label) { return std::count(all.begin(), all.end(), label) == 1; });
}

// Takes "..." away from the front of the only operand and of the output.
void take_dots(CompositeMaker& m, std::string_view text, bool has_output, Equation& equation) {
  if (!has(text, '.')) return;
  equation.dots = equation.operands.size() == 1 && equation.operands[0].starts_with("...") &&
                  (!has_output || equation.output.starts_with("..."));
  if (!equation.dots) {
    return m.fail(cat("equation: expected '...' in front of the labels of a single operand and of ",
                      "the output, received '", text, "'"));
  }
  equation.operands[0].erase(0, 3);
  if (has_output) equation.output.erase(0, 3);
}

Equation parse(CompositeMaker& m, std::string text) {
  std::erase(text, ' ');
  Equation equation;
  const size_t arrow = text.find("->");
  const bool has_output = arrow != std::string::npos;
  std::string left = text.substr(0, arrow);
  for (size_t comma; (comma = left.find(',')) != std::string::npos; left = left.substr(comma + 1))
    equation.operands.push_back(left.substr(0, comma));
  equation.operands.push_back(left);
  if (has_output) equation.output = text.substr(arrow + 2);
  take_dots(m, text, has_output, equation);
  const auto too_long = [](const std::string& labels) { return labels.size() > limits::kRank; };
  if (std::ranges::any_of(equation.operands, too_long) || too_long(equation.output)) {
    m.fail(cat("equation: expected at most ", limits::kRank, " axes of an operand, received more"));
    return equation;
  }
  if (!has_output) equation.output = implicit_output(equation.operands);
  std::string all;
  for (const std::string& operand : equation.operands) all += operand;
  const bool letters = std::all_of(all.begin(), all.end(), is_label);
  const bool chosen = std::all_of(equation.output.begin(), equation.output.end(), [&](char label) {
    return std::count(equation.output.begin(), equation.output.end(), label) == 1 &&
           has(all, label);
  });
  if (!letters || !chosen)
    m.fail(cat("equation: expected letters for the axes of each operand, and different ones of ",
               "them for those of the output, received '", text, "'"));
  return equation;
}

class EinsumMaker {
 public:
  explicit EinsumMaker(CompositeMaker& m) : m_(m) {}

  void make() {
    const Equation equation = parse(m_, m_.text("equation", ""));
    if (!m_.status().ok()) return;
    const size_t count = equation.operands.size();
    if (count != static_cast<size_t>(m_.inputs())) {
      m_.fail(cat("equation: expected ", m_.inputs(), " operands, received ", count));
      return;
    }
    // Axes count from the end, so that those of "..." need no label.
    Labelled sum = diagonal({m_.in(0), equation.operands[0]});
    if (equation.dots && filtered(sum.labels, [&](char label) {
                           return has(equation.output, label);
                         }) != equation.output) {
      m_.fail(cat("equation: expected the output's labels in the order of the operand's behind ",
                  "'...', received '", equation.operands[0], "' and '", equation.output, "'"));
      return;
    }
    for (size_t i = 1; i < count; ++i) {
      // A label stays if the output or a later operand has it.
      std::string needed = equation.output;
      for (size_t later = i + 1; later < count; ++later) needed += equation.operands[later];
      sum = product(sum, diagonal({m_.in(static_cast<int>(i)), equation.operands[i]}), needed);
    }
    sum = reduced(sum, equation.output);
    m_.set_output(0, in_order(sum, equation.output));
  }

 private:
  static int64_t from_end(const Labelled& x, size_t axis) {
    return static_cast<int64_t>(axis) - static_cast<int64_t>(x.labels.size());
  }

  // 0, 1, ... along an axis, with axes of size 1 for all behind it.
  DraftName along(const Labelled& x, const DraftName& size, size_t axis) {
    const DraftName places = m_.op("Range", {m_.int_scalar(0), size, m_.int_scalar(1)});
    std::vector<int64_t> axes;
    for (size_t d = axis + 1; d < x.labels.size(); ++d)
      axes.push_back(static_cast<int64_t>(d - axis));
    return axes.empty() ? places : m_.op("Unsqueeze", {places, m_.ints(axes)});
  }

  // x, with the size of axis a on axis b: no other size has as many elements.
  DraftName with_size_of(const Labelled& x, size_t a, size_t b) {
    const auto sizes = [&](Attributes places) {
      return m_.op("Shape", {x.value}, std::move(places));
    };
    const int64_t of_a = from_end(x, a), of_b = from_end(x, b);
    std::vector<DraftName> parts{sizes({{"end", Attr(of_b)}}),
                                 sizes({{"start", Attr(of_a)}, {"end", Attr(of_a + 1)}})};
    if (of_b < -1) parts.push_back(sizes({{"start", Attr(of_b + 1)}}));
    return m_.reshaped(x.value, joined(std::move(parts)));
  }

  // The elements with equal indices on two axes of one label: all others become 0, and the sum over
  // the second axis leaves them.
  Labelled diagonal(Labelled x) {
    for (size_t a = 0; a < x.labels.size(); ++a) {
      for (size_t b; (b = x.labels.find(x.labels[a], a + 1)) != std::string::npos;) {
        const auto size = [&](size_t axis) {
          Attributes part{{"start", Attr(from_end(x, axis))}};
          if (axis + 1 < x.labels.size()) part.emplace("end", Attr(from_end(x, axis + 1)));
          return m_.op("Squeeze", {m_.op("Shape", {x.value}, std::move(part)), m_.ints({0})});
        };
        const DraftName square = with_size_of(x, a, b);
        const DraftName equal = m_.op("Equal", {along(x, size(a), a), along(x, size(b), b)});
        const DraftName kept = m_.op("Where", {equal, square, m_.scalar(0, x.value)});
        x.value =
            m_.op("ReduceSum", {kept, m_.ints({from_end(x, b)})}, {{"keepdims", Attr(int64_t{0})}});
        x.labels.erase(b, 1);
      }
    }
    return x;
  }

  // Sums over the labels that are not among `kept`.
  Labelled reduced(const Labelled& x, std::string_view kept) {
    std::vector<int64_t> axes;
    for (size_t d = 0; d < x.labels.size(); ++d) {
      if (!has(kept, x.labels[d])) axes.push_back(from_end(x, d));
    }
    if (axes.empty()) return x;
    return {m_.op("ReduceSum", {x.value, m_.ints(axes)}, {{"keepdims", Attr(int64_t{0})}}),
            filtered(x.labels, [&](char label) { return has(kept, label); })};
  }

  DraftName in_order(const Labelled& x, const std::string& labels) {
    if (x.labels == labels) return x.value;
    std::vector<int64_t> perm;
    for (const char label : labels) perm.push_back(static_cast<int64_t>(x.labels.find(label)));
    return m_.op("Transpose", {x.value}, {{"perm", Attr(perm)}});
  }

  // The product of two operands, summed over the labels that only these two have.
  Labelled product(Labelled a, Labelled b, const std::string& needed) {
    a = reduced(a, needed + b.labels);
    b = reduced(b, needed + a.labels);
    const auto both = [&](char label) { return has(b.labels, label); };
    const std::string batch =
        filtered(a.labels, [&](char label) { return both(label) && has(needed, label); });
    const std::string inner =
        filtered(a.labels, [&](char label) { return both(label) && !has(needed, label); });
    const std::string rows = filtered(a.labels, [&](char label) { return !both(label); });
    const std::string columns =
        filtered(b.labels, [&](char label) { return !has(a.labels, label); });
    const std::string labels = batch + rows + columns;
    if (inner.empty()) {
      const DraftName left = spread(in_order(a, batch + rows), batch.size() + rows.size(), columns);
      const DraftName right = spread(in_order(b, batch + columns), batch.size(), rows);
      return {m_.op("Mul", {left, right}), labels};
    }
    const DraftName left = in_order(a, batch + rows + inner);
    const DraftName right = in_order(b, batch + inner + columns);
    const DraftName left_shape = m_.op("Shape", {left}), right_shape = m_.op("Shape", {right});
    const auto nb = static_cast<int64_t>(batch.size()), nr = static_cast<int64_t>(rows.size()),
               ni = static_cast<int64_t>(inner.size()), nc = static_cast<int64_t>(columns.size());
    // Matrices of all rows, all inner and all columns; the axes of the batch stay.
    const DraftName x = grouped(left, left_shape, nb, nr, ni);
    const DraftName y = grouped(right, right_shape, nb, ni, nc);
    const DraftName sizes =
        joined({part(left_shape, 0, nb + nr), part(right_shape, nb + ni, nb + ni + nc)});
    return {m_.reshaped(m_.op("MatMul", {x, y}), sizes), labels};
  }

  // Inserts an axis of size 1 for each label at `axis`.
  DraftName spread(const DraftName& x, size_t axis, const std::string& labels) {
    if (labels.empty()) return x;
    std::vector<int64_t> axes;
    for (size_t i = 0; i < labels.size(); ++i) axes.push_back(static_cast<int64_t>(axis + i));
    return m_.op("Unsqueeze", {x, m_.ints(axes)});
  }

  DraftName part(const DraftName& shape, int64_t from, int64_t to) {
    return m_.op("Slice", {shape, m_.ints({from}), m_.ints({to})});
  }
  DraftName joined(std::vector<DraftName> parts) {
    return m_.op("Concat", std::move(parts), {{"axis", Attr(int64_t{0})}});
  }
  // The product of sizes [from, to), as a vector of one.
  DraftName size(const DraftName& shape, int64_t from, int64_t to) {
    if (to - from == 1) return part(shape, from, to);
    if (to == from) return m_.ints({1});
    return m_.op("ReduceProd", {part(shape, from, to)}, {{"keepdims", Attr(int64_t{1})}});
  }
  // [batch..., first..., second...] as [batch..., all of first, all of second].
  DraftName grouped(const DraftName& x, const DraftName& shape, int64_t batch, int64_t first,
                    int64_t second) {
    if (first == 1 && second == 1) return x;
    const int64_t middle = batch + first, end = middle + second;
    return m_.reshaped(
        x, joined({part(shape, 0, batch), size(shape, batch, middle), size(shape, middle, end)}));
  }

  CompositeMaker& m_;
};

}  // namespace

void make_einsum(CompositeMaker& m) { EinsumMaker(m).make(); }

}  // namespace leat
