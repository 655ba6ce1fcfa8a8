// Recurrent cells over the steps of a sequence: what ONNX's LSTM, GRU and RNN are made of
// (ops/text/recurrent_composites.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/elements/cell_activation.h"
#include "ops/graph/attrs.h"

namespace leat {

enum class Cell : uint8_t { lstm, gru, rnn };

// The attributes of leat.Recurrent and leat.RecurrentGrad. With H the size of the state, x the
// products of a step's input with the gates' weights, biases added, h and c the state before it:
//
//   lstm  i, o, f = f(x + R h + P c); c' = f c + i g(x + R h); h' = o h(c'), the gates in the order
//         i, o, f, c; o's P is of c'. With input_forget, f = 1 - i.
//   gru   z, r = f(x + R h); n = g(x + R (r h)), with linear_before_reset n = g(x + r (R h + b));
//         h' = (1 - z) n + z h, the gates in the order z, r, n
//   rnn   h' = f(x + R h)
//
// Source: ONNX's operator reference, LSTM-22, GRU-22 and RNN-22.
struct RecurrentSpec {
  Cell cell = Cell::lstm;
  bool reverse = false;  // from the last step to the first
  bool input_forget = false;
  bool linear_before_reset = false;
  double clip = 0;  // of what the activations get; 0: none
  // f, g, h: three for lstm, two for gru, one for rnn.
  std::vector<CellActivation> activations;

  // The gates: x has so many times H columns.
  int gates() const { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }
  // A GRU whose third gate multiplies the state after the reset, so that it has a product of its
  // own.
  bool resets_first() const { return cell == Cell::gru && !linear_before_reset; }
};

// The message of an error has no subject.
Result<RecurrentSpec> recurrent_spec(const Attrs& attrs);
// The activation that ONNX calls `name`, in any case of letters, with ONNX's defaults for what is
// absent; nothing for an unknown name.
std::optional<CellActivation> cell_activation(std::string_view name, std::optional<double> alpha,
                                              std::optional<double> beta);

}  // namespace leat
