// ONNX's STFT: the Fourier transforms of the frames of a signal.
//
// Source: ONNX's operator reference, STFT-17.
#include "ops/text/composite_maker.h"

namespace leat {
namespace {

DraftName whole_number(CompositeMaker& m, const DraftName& value) {
  return m.op("Reshape", {m.op("Cast", {value}, {{"to", Attr(int64_t{7})}}), m.ints({})});
}

DraftName count_below(CompositeMaker& m, const DraftName& limit) {
  return m.op("Range", {m.int_scalar(0), limit, m.int_scalar(1)});
}

}  // namespace

// Inputs: the signal [N,L,1] or [N,L,2], the step between frames, the window, the length of a
// frame. A table of indices cuts the frames out of the signal.
void make_stft(CompositeMaker& m) {
  const DraftName signal = m.in(0), step = whole_number(m, m.in(1));
  const DraftName size = m.op("Gather", {m.op("Shape", {signal}), m.int_scalar(1)});
  const DraftName length = m.has(3)   ? whole_number(m, m.in(3))
                           : m.has(2) ? m.op("Size", {m.in(2)})
                                      : size;
  const DraftName room = m.op("Add", {m.op("Sub", {size, length}), step});
  const DraftName frames = m.op("Div", {m.op("Max", {room, m.int_scalar(0)}), step});
  const DraftName column = m.ints({1});
  const DraftName begins = m.op("Unsqueeze", {m.op("Mul", {count_below(m, frames), step}), column});
  const DraftName places = m.op("Add", {begins, count_below(m, length)});
  DraftName parts = m.op("Gather", {signal, places}, {{"axis", Attr(int64_t{1})}});
  if (m.has(2)) parts = m.op("Mul", {parts, m.op("Unsqueeze", {m.in(2), column})});
  m.op("DFT", {parts}, {{"onesided", Attr(m.integer("onesided", 1))}});
}

}  // namespace leat
