// ONNX's LSTM, GRU and RNN: a product of the whole sequence with the weights of the gates, and the
// recurrence over the steps, leat.Recurrent, for each direction.
//
// Source: ONNX's operator reference, LSTM-22, GRU-22 and RNN-22.
#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/text/composite_maker.h"

namespace leat {
namespace {

using Attributes = CompositeMaker::Attributes;

// The differences of the three ops.
struct Recurrence {
  std::string_view cell;
  size_t activations;  // of one direction
  bool has_cell_state;
};

// Entry `direction` of an operand whose axis 0 counts the directions.
DraftName of_direction(CompositeMaker& m, const DraftName& x, int64_t direction, bool one) {
  const DraftName part =
      one ? x : m.op("Slice", {x, m.ints({direction}), m.ints({direction + 1}), m.ints({0})});
  return m.op("Squeeze", {part, m.ints({0})});
}

template <typename T>
std::vector<T> part_of(const std::vector<T>& all, size_t from, size_t count) {
  const size_t first = std::min(from, all.size()), last = std::min(from + count, all.size());
  return {all.begin() + static_cast<ptrdiff_t>(first), all.begin() + static_cast<ptrdiff_t>(last)};
}

// One ONNX node: its operands and attributes, read once.
class RecurrentMaker {
 public:
  RecurrentMaker(CompositeMaker& m, const Recurrence& of) : m_(m), of_(of) {
    const std::string direction = m.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
      m.fail(
          cat("direction: expected forward, reverse or bidirectional, received '", direction, "'"));
    }
    directions_ = direction == "bidirectional" ? 2 : 1;
    first_reverse_ = direction == "reverse";
    batch_first_ = m.integer("layout", 0) != 0;
    m.integer("hidden_size", 0);  // R has it
    linear_before_reset_ = of.cell == "gru" && m.integer("linear_before_reset", 0) != 0;
    input_forget_ = of.cell == "lstm" && m.integer("input_forget", 0) != 0;
    clip_ = m.number("clip", 0);
    activations_ = m.texts("activations");
    alphas_ = m.numbers("activation_alpha");
    betas_ = m.numbers("activation_beta");
  }

  void make() {
    const DraftName x = batch_first_ ? turned(m_.in(0)) : m_.in(0);
    std::vector<DraftName> ys, hs, cs;
    for (int64_t d = 0; d < directions_; ++d) {
      const auto made = direction(x, d);
      ys.push_back(m_.op("Unsqueeze", {made[0], m_.ints({1})}));
      hs.push_back(m_.op("Unsqueeze", {made[1], m_.ints({0})}));
      cs.push_back(m_.op("Unsqueeze", {made[2], m_.ints({0})}));
    }
    // Y is [T,D,N,H], or with the batch first [N,T,D,H]; the last states are [D,N,H] or [N,D,H].
    const DraftName y = joined(ys, 1);
    const std::vector<int64_t> rows_first{2, 0, 1, 3};
    m_.set_output(0, batch_first_ ? m_.op("Transpose", {y}, {{"perm", Attr(rows_first)}}) : y);
    if (m_.wants(1)) m_.set_output(1, state_out(hs));
    if (of_.has_cell_state && m_.wants(2)) m_.set_output(2, state_out(cs));
  }

 private:
  // Exchanges the first two axes of three.
  DraftName turned(const DraftName& x) {
    return m_.op("Transpose", {x}, {{"perm", Attr(std::vector<int64_t>{1, 0, 2})}});
  }
  DraftName joined(std::vector<DraftName> parts, int64_t axis) {
    if (parts.size() == 1) return parts[0];
    return m_.op("Concat", std::move(parts), {{"axis", Attr(axis)}});
  }
  DraftName state_out(std::vector<DraftName> parts) {
    const DraftName all = joined(std::move(parts), 0);
    return batch_first_ ? turned(all) : all;
  }
  // Operand i for a direction; absent if the node lacks it.
  DraftName operand(int i, int64_t d) {
    if (!m_.has(i)) return {};
    return of_direction(m_, m_.in(i), d, directions_ == 1);
  }
  DraftName state_in(int i, int64_t d) {
    if (!m_.has(i)) return {};
    const DraftName state = batch_first_ ? turned(m_.in(i)) : m_.in(i);
    return of_direction(m_, state, d, directions_ == 1);
  }

  // x [T,N,in] to y [T,N,H], and the last states [N,H].
  std::vector<DraftName> direction(const DraftName& x, int64_t d) {
    const std::vector<int64_t> swapped{1, 0};
    const auto transposed = [&](const DraftName& w) {
      return m_.op("Transpose", {w}, {{"perm", Attr(swapped)}});
    };
    DraftName products = m_.op("MatMul", {x, transposed(operand(1, d))});
    DraftName extra = of_.cell == "lstm" ? operand(7, d) : DraftName{};
    if (m_.has(3)) products = m_.op("Add", {products, bias(operand(3, d), extra)});
    const DraftName lengths =
        m_.has(4) ? m_.op("Cast", {m_.in(4)}, {{"to", Attr(int64_t{6})}}) : DraftName{};
    Attributes attrs{{"cell", Attr(std::string(of_.cell))},
                     {"reverse", Attr(int64_t{first_reverse_ || d == 1})}};
    if (linear_before_reset_) attrs.emplace("linear_before_reset", Attr(int64_t{1}));
    if (input_forget_) attrs.emplace("input_forget", Attr(int64_t{1}));
    if (clip_ != 0) attrs.emplace("clip", Attr(clip_));
    add_activations(attrs, static_cast<size_t>(d) * of_.activations);
    return m_.ops("leat.Recurrent",
                  {products, transposed(operand(2, d)), state_in(5, d),
                   of_.has_cell_state ? state_in(6, d) : DraftName{}, extra, lengths},
                  std::move(attrs), 3);
  }

  // The bias of the input's products: B has that of the input and that of the state. If a GRU
  // resets the product of the state, the bias of the last gate's product stays inside: it is
  // `extra`.
  DraftName bias(const DraftName& b, DraftName& extra) {
    const auto halves =
        m_.ops("Split", {b}, {{"axis", Attr(int64_t{0})}, {"num_outputs", Attr(int64_t{2})}}, 2);
    if (!linear_before_reset_) return m_.op("Add", {halves[0], halves[1]});
    const auto gates = m_.ops("Split", {halves[1]},
                              {{"axis", Attr(int64_t{0})}, {"num_outputs", Attr(int64_t{3})}}, 3);
    extra = gates[2];
    const DraftName nothing = m_.op("Mul", {gates[2], m_.scalar(0, gates[2])});
    return m_.op("Add", {halves[0], joined({gates[0], gates[1], nothing}, 0)});
  }

  // ONNX's lists of numbers have entries for the activations that have such a number, in order.
  void add_activations(Attributes& attrs, size_t from) {
    if (activations_.empty()) return;
    const auto names = part_of(activations_, from, of_.activations);
    if (names.size() != of_.activations) {
      m_.fail(cat("activations: expected ", of_.activations * static_cast<size_t>(directions_),
                  ", received ", activations_.size()));
      return;
    }
    attrs.emplace("activations", Attr(names));
    const auto alphas = numbers_of(alphas_, from, kHasAlpha, 0.01),
               betas = numbers_of(betas_, from, kHasBeta, 0);
    if (!alphas_.empty()) attrs.emplace("activation_alpha", Attr(alphas));
    if (!betas_.empty()) attrs.emplace("activation_beta", Attr(betas));
  }

  // The entries of this direction's activations, spread to one for each.
  std::vector<double> numbers_of(const std::vector<double>& all, size_t from,
                                 std::string_view has_one, double none) {
    std::vector<double> out;
    size_t next = 0;
    for (size_t i = 0; i < from + of_.activations; ++i) {
      const bool takes = has_one.find(lower(activations_[i])) != std::string_view::npos;
      const double value = takes && next < all.size() ? all[next++] : none;
      if (i >= from) out.push_back(value);
    }
    return out;
  }
  static std::string lower(const std::string& name) {
    std::string out = ",";
    for (const char c : name) out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
    return out + ",";
  }

  static constexpr std::string_view kHasAlpha =
      ",affine,leakyrelu,thresholdedrelu,scaledtanh,hardsigmoid,elu,";
  static constexpr std::string_view kHasBeta = ",affine,scaledtanh,hardsigmoid,";

  CompositeMaker& m_;
  const Recurrence& of_;
  int64_t directions_ = 1;
  bool first_reverse_ = false, batch_first_ = false;
  bool linear_before_reset_ = false, input_forget_ = false;
  double clip_ = 0;
  std::vector<std::string> activations_;
  std::vector<double> alphas_, betas_;
};

}  // namespace

void make_lstm(CompositeMaker& m) {
  static constexpr Recurrence kLstm{"lstm", 3, true};
  RecurrentMaker(m, kLstm).make();
}
void make_gru(CompositeMaker& m) {
  static constexpr Recurrence kGru{"gru", 2, false};
  RecurrentMaker(m, kGru).make();
}
void make_rnn(CompositeMaker& m) {
  static constexpr Recurrence kRnn{"rnn", 1, false};
  RecurrentMaker(m, kRnn).make();
}

}  // namespace leat
