// Drawn calls of ops that move elements: each output names the element that it is a copy of.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/scheduler/drawn_ops.h"

namespace leat {
namespace {

Attr listed(Sizes values) { return Attr(std::move(values)); }

// The place of the element that an output is a copy of; -1: it is 0.
using Source = std::function<int64_t(const Sizes& index)>;

PlainOutput moved(const Tensor& x, const Shape& out, const Source& source) {
  return {elements(out,
                   [&](const Sizes& index) {
                     const int64_t from = source(index);
                     return from < 0 ? 0.0 : x.at(from);
                   }),
          {}};
}

void draw_transpose(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(0, 5);
  Sizes perm(static_cast<size_t>(shape.rank()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (draw.once_in(4)) {  // ONNX's default
  } else {
    for (size_t i = perm.size(); i > 1; --i)
      std::swap(perm[i - 1], perm[static_cast<size_t>(draw.from(0, static_cast<int64_t>(i) - 1))]);
    op.attrs["perm"] = listed(perm);
    if (perm.size() > 1 && draw.wrong(op)) {
      Sizes twice = perm;
      twice[0] = twice[1];
      op.attrs["perm"] = listed(twice);
    }
  }
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  op.returns([=](const std::vector<Tensor>& in) {
    Shape out;
    for (const int64_t from : perm) out.push_back(shape[static_cast<int>(from)]);
    return moved(in[0], out, [&](const Sizes& index) {
      Sizes from(perm.size());
      for (size_t i = 0; i < perm.size(); ++i) from[static_cast<size_t>(perm[i])] = index[i];
      return place(shape, from);
    });
  });
}

// The bytes stay as they are.
void draw_reshape(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(0, 4);
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  Sizes out;
  if (op.op == "Reshape") {
    // The sizes in another order, some of them merged, and one of them left to be computed.
    for (const int64_t size : shape) {
      if (!out.empty() && draw.once_in(3)) {
        out.back() *= size;
      } else {
        out.push_back(size);
      }
    }
    Sizes asked = out;
    const bool zero = std::count(out.begin(), out.end(), 0) > 0;
    if (zero) op.attrs["allowzero"] = int64_t{1};
    if (!asked.empty() && !zero && draw.once_in(2))
      asked[static_cast<size_t>(draw.from(0, static_cast<int64_t>(asked.size()) - 1))] = -1;
    if (draw.wrong(op)) asked = {shape.elements() + 1};
    op.add_constant(i64s(asked));
  } else if (op.op == "Flatten") {
    bool wrong = draw.wrong(op);
    int64_t axis = draw.from(-shape.rank(), shape.rank());
    if (wrong) axis = shape.rank() + 1;
    op.attrs["axis"] = axis;
    const int at = wrong ? 0 : static_cast<int>(positive(axis, shape.rank()));
    out = {shape.elements(0, at), shape.elements(at, shape.rank())};
  } else if (op.op == "Unsqueeze") {
    out = sizes_of(shape);
    const int64_t at = draw.from(0, shape.rank());
    out.insert(out.begin() + at, 1);
    const bool wrong = draw.wrong(op), negative = draw.once_in(2);
    const int64_t rank = shape.rank() + 1;
    op.add_constant(i64s({wrong ? rank : negative ? at - rank : at}));
  } else {
    Sizes axes, ones;
    for (int i = 0; i < shape.rank(); ++i) {
      if (shape[i] == 1 && draw.once_in(2)) {
        axes.push_back(draw.once_in(2) ? i : i - shape.rank());
      } else {
        out.push_back(shape[i]);
      }
    }
    if (draw.wrong(op)) axes = {shape.rank()};
    op.add_constant(i64s(axes));
  }
  op.returns([out](const std::vector<Tensor>& in) {
    return PlainOutput{in[0].reshaped(Shape(out)), {}};
  });
}

void draw_expand(Drawer& draw, DrawnOp& op) {
  const Shape to = draw.shape(0, 4), from = draw.broadcast(to);
  const DType dtype = draw.dtype(kAllTypes);
  Sizes asked = sizes_of(to);
  // The shape may have a 1 for a size that the operand has.
  for (int i = 0; i < from.rank(); ++i) {
    const size_t j = asked.size() - static_cast<size_t>(from.rank()) + static_cast<size_t>(i);
    if (draw.once_in(4)) asked[j] = from[i] == asked[j] ? 1 : asked[j];
  }
  if (from.rank() > 0 && from[from.rank() - 1] > 1 && draw.wrong(op))
    asked.back() = from[from.rank() - 1] + 1;
  op.add(draw.tensor(dtype, from), true);
  op.add_constant(i64s(asked));
  op.returns([=](const std::vector<Tensor>& in) {
    return moved(in[0], to, [&](const Sizes& index) { return place(from, index); });
  });
}

void draw_tile(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(0, 4);
  Sizes repeats;
  Shape out;
  for (const int64_t size : shape) {
    repeats.push_back(draw.from(0, 9) == 0 ? 0 : draw.from(1, 3));
    out.push_back(size * repeats.back());
  }
  if (draw.wrong(op)) repeats.push_back(2);
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  op.add_constant(i64s(repeats));
  op.returns([=](const std::vector<Tensor>& in) {
    return moved(in[0], out, [&](Sizes index) {
      for (int i = 0; i < shape.rank(); ++i) index[static_cast<size_t>(i)] %= shape[i];
      return place(shape, index);
    });
  });
}

void draw_concat(Drawer& draw, DrawnOp& op) {
  Shape shape = draw.shape(1, 4);
  const DType dtype = draw.dtype(kAllTypes);
  bool wrong = draw.wrong(op);
  const int64_t axis = draw.axis(shape.rank(), &wrong);
  const int at_axis = wrong ? 0 : static_cast<int>(positive(axis, shape.rank()));
  const int64_t count = draw.from(1, 5);
  Shape out = shape;
  out.set(at_axis, 0);
  for (int64_t i = 0; i < count; ++i) {
    shape.set(at_axis, draw.size());
    op.add(draw.tensor(dtype, shape), true);
    out.set(at_axis, out[at_axis] + shape[at_axis]);
  }
  op.attrs["axis"] = axis;
  op.returns([=](const std::vector<Tensor>& in) {
    return PlainOutput{elements(out,
                                [&](Sizes index) {
                                  int64_t& i = index[static_cast<size_t>(at_axis)];
                                  size_t part = 0;
                                  while (i >= in[part].shape()[at_axis])
                                    i -= in[part++].shape()[at_axis];
                                  return at(in[part], index);
                                }),
                       {}};
  });
}

void draw_split(Drawer& draw, DrawnOp& op) {
  Shape shape = draw.shape(1, 4);
  const int64_t axis = draw.axis(shape.rank());
  const int at_axis = static_cast<int>(positive(axis, shape.rank()));
  Sizes parts;
  const int64_t count = draw.from(1, 4);
  const bool even = draw.once_in(2);
  if (even) {  // the last part may be smaller
    const int64_t all = shape[at_axis], each = (all + count - 1) / count;
    for (int64_t i = 0; i < count; ++i)
      parts.push_back(std::clamp<int64_t>(all - i * each, 0, each));
    op.attrs["num_outputs"] = count;
  } else {
    for (int64_t i = 0; i < count; ++i) parts.push_back(draw.size());
    shape.set(at_axis, std::accumulate(parts.begin(), parts.end(), int64_t{0}));
  }
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  if (!even) {
    Sizes asked = parts;
    if (draw.wrong(op)) ++asked[0];
    op.add_constant(i64s(asked));
  }
  op.attrs["axis"] = axis;
  op.outputs = static_cast<int>(count);
  op.plain = [=](const std::vector<Tensor>& in) {
    std::vector<PlainOutput> all;
    int64_t first = 0;
    for (const int64_t part : parts) {
      Shape out = shape;
      out.set(at_axis, part);
      all.push_back(moved(in[0], out, [&](Sizes index) {
        index[static_cast<size_t>(at_axis)] += first;
        return place(shape, index);
      }));
      first += part;
    }
    return all;
  };
}

void draw_slice(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(1, 4);
  Sizes starts, ends, axes, steps, first(static_cast<size_t>(shape.rank()), 0),
      by(static_cast<size_t>(shape.rank()), 1);
  Shape out = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    if (draw.once_in(3)) continue;
    const int64_t n = shape[i], step = draw.any_of({1, 1, 2, 3, -1, -2});
    const int64_t start = draw.from(-n - 2, n + 2), end = draw.from(-n - 2, n + 2);
    starts.push_back(start);
    ends.push_back(end);
    axes.push_back(draw.once_in(2) ? i : i - shape.rank());
    steps.push_back(step);
    // As numpy clamps them.
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    const int64_t from = std::clamp(start < 0 ? start + n : start, low, high),
                  to = std::clamp(end < 0 ? end + n : end, low, high);
    const int64_t span = step > 0 ? to - from : from - to;
    out.set(i, n == 0 ? 0 : std::max<int64_t>(0, (span + std::abs(step) - 1) / std::abs(step)));
    first[static_cast<size_t>(i)] = from;
    by[static_cast<size_t>(i)] = step;
  }
  if (!steps.empty() && draw.wrong(op)) {
    if (draw.once_in(2)) {
      steps[0] = 0;
    } else {
      axes[0] = shape.rank();
    }
  }
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  for (const Sizes& list : {starts, ends, axes, steps}) op.add_constant(i64s(list));
  op.returns([=](const std::vector<Tensor>& in) {
    return moved(in[0], out, [&](Sizes index) {
      for (size_t i = 0; i < index.size(); ++i) index[i] = first[i] + index[i] * by[i];
      return place(shape, index);
    });
  });
}

// The place along an axis of n elements that a padded one copies; -1: none.
int64_t padded_from(const std::string& mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  if (mode == "constant") return -1;
  if (mode == "edge") return std::clamp<int64_t>(i, 0, n - 1);
  if (mode == "wrap") return ((i % n) + n) % n;
  return i < 0 ? -i : 2 * (n - 1) - i;
}

void draw_pad(Drawer& draw, DrawnOp& op) {
  const std::string mode = draw.any_of<std::string>({"constant", "reflect", "edge", "wrap"});
  Shape shape = draw.shape(1, 4), out;
  Sizes before, after;
  for (int i = 0; i < shape.rank(); ++i) {
    if (mode != "constant") shape.set(i, std::max<int64_t>(shape[i], 1));
    const int64_t most = mode == "reflect" ? std::min<int64_t>(shape[i] - 1, 2) : 2;
    before.push_back(draw.from(shape[i] > 2 ? -1 : 0, most));
    after.push_back(draw.from(shape[i] > 2 ? -1 : 0, most));
    out.push_back(shape[i] + before.back() + after.back());
  }
  const DType dtype = draw.dtype(kAllTypes);
  Sizes pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  if (draw.wrong(op)) pads.push_back(0);
  op.add(draw.tensor(dtype, shape), true);
  op.add_constant(i64s(pads));
  const bool valued = mode == "constant" && draw.once_in(2);
  if (valued) op.add(draw.tensor(dtype, Shape()));
  if (mode != "constant" || draw.once_in(2)) op.attrs["mode"] = mode;
  op.returns([=](const std::vector<Tensor>& in) {
    return PlainOutput{elements(out,
                                [&](Sizes index) {
                                  bool inside = true;
                                  for (int i = 0; i < shape.rank(); ++i) {
                                    int64_t& to = index[static_cast<size_t>(i)];
                                    to = padded_from(mode, to - before[static_cast<size_t>(i)],
                                                     shape[i]);
                                    inside = inside && to >= 0;
                                  }
                                  return inside ? at(in[0], index) : valued ? in[2].at(0) : 0.0;
                                }),
                       {}};
  });
}

void draw_trilu(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(2, 4);
  const int64_t k = draw.from(-3, 3);
  const bool upper = draw.once_in(2), given = draw.once_in(2);
  op.add(draw.tensor(draw.dtype(kAllTypes), shape), true);
  if (given) op.add_constant(Tensor::scalar<int64_t>(k));
  if (!upper) op.attrs["upper"] = int64_t{0};
  op.returns([=](const std::vector<Tensor>& in) {
    return moved(in[0], shape, [&](const Sizes& index) {
      const int64_t over = index[index.size() - 1] - index[index.size() - 2] - (given ? k : 0);
      return (upper ? over >= 0 : over <= 0) ? place(shape, index) : -1;
    });
  });
}

void draw_blocks(Drawer& draw, DrawnOp& op) {
  const bool to_space = op.op == "DepthToSpace", crd = draw.once_in(2);
  const int64_t n = draw.from(1, 2), c = draw.from(1, 3), h = draw.from(1, 3), w = draw.from(1, 3),
                b = draw.from(1, 3);
  const Shape deep{n, c * b * b, h, w}, wide{n, c, h * b, w * b};
  Shape shape = to_space ? deep : wide;
  bool wrong = false;
  if (b > 1 && draw.wrong(op))
    wrong = true, shape.set(to_space ? 1 : 3, shape[to_space ? 1 : 3] + 1);
  op.add(draw.tensor(draw.dtype(kFloats), shape), true);
  op.attrs["blocksize"] = b;
  const bool dcr = !(to_space && crd);
  if (!dcr) op.attrs["mode"] = std::string("CRD");
  op.returns([=](const std::vector<Tensor>& in) {
    return moved(in[0],
                 wrong      ? shape
                 : to_space ? wide
                            : deep,
                 [&](const Sizes& i) {
                   if (to_space) {
                     const int64_t y = i[2] % b, x = i[3] % b;
                     const int64_t channel = dcr ? (y * b + x) * c + i[1] : (i[1] * b + y) * b + x;
                     return place(deep, {i[0], channel, i[2] / b, i[3] / b});
                   }
                   const int64_t y = i[1] / c / b, x = i[1] / c % b;
                   return place(wide, {i[0], i[1] % c, i[2] * b + y, i[3] * b + x});
                 });
  });
}

void draw_reverse(Drawer& draw, DrawnOp& op) {
  Shape shape = draw.shape(2, 4);
  for (int i = 0; i < 2; ++i) shape.set(i, std::max<int64_t>(shape[i], 1));
  const int batch = static_cast<int>(draw.from(0, 1)), time = 1 - batch;
  Tensor lengths(DType::i64, {shape[batch]});
  for (int64_t i = 0; i < lengths.elements(); ++i)
    lengths.set(i, static_cast<double>(draw.from(1, shape[time])));
  op.add(draw.tensor(draw.dtype(kFloats), shape), true);
  op.add(lengths);
  op.attrs["batch_axis"] = int64_t{batch};
  op.attrs["time_axis"] = int64_t{time};
  op.returns([=](const std::vector<Tensor>& in) {
    return moved(in[0], shape, [&](Sizes index) {
      int64_t& t = index[static_cast<size_t>(time)];
      const auto length = static_cast<int64_t>(in[1].at(index[static_cast<size_t>(batch)]));
      if (t < length) t = length - 1 - t;
      return place(shape, index);
    });
  });
}

void draw_shape_of(Drawer& draw, DrawnOp& op) {
  const Shape shape = draw.shape(0, 5);
  op.add(draw.tensor(draw.dtype(kAllTypes), shape));
  op.result = DType::i64;
  const bool size = op.op == "Size";
  Sizes out = sizes_of(shape);
  if (!size && draw.once_in(2)) {
    const int64_t start = draw.from(-6, 6), end = draw.from(-6, 6), rank = shape.rank();
    op.attrs["start"] = start;
    op.attrs["end"] = end;
    const int64_t from = std::clamp<int64_t>(positive(start, shape.rank()), 0, rank),
                  to = std::clamp<int64_t>(positive(end, shape.rank()), 0, rank);
    out.assign(shape.begin() + from, shape.begin() + std::max(from, to));
  }
  op.returns([=](const std::vector<Tensor>&) {
    if (!size) return PlainOutput{i64s(out).cast(DType::f64), {}};
    return PlainOutput{Tensor::scalar<double>(static_cast<double>(shape.elements())), {}};
  });
}

}  // namespace

std::vector<DrawnFamily> movement_families() {
  std::vector<DrawnFamily> all{{"Transpose", draw_transpose, true},
                               {"Expand", draw_expand, true},
                               {"Tile", draw_tile, true},
                               {"Concat", draw_concat, true},
                               {"Split", draw_split, true},
                               {"Slice", draw_slice, true},
                               {"Pad", draw_pad, true},
                               {"Trilu", draw_trilu, true},
                               {"DepthToSpace", draw_blocks, true},
                               {"SpaceToDepth", draw_blocks, true},
                               {"ReverseSequence", draw_reverse, true},
                               {"Shape", draw_shape_of},
                               {"Size", draw_shape_of}};
  for (const char* op : {"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
    all.push_back({op, draw_reshape, true});
  return all;
}

}  // namespace leat
