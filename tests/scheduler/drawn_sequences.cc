// Drawn calls of products, recurrent layers, attention and rotary embeddings.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "tests/scheduler/drawn_ops.h"

namespace leat {
namespace {

constexpr DTypeSet kProducts =
    kFloats | DTypeSet::of(DType::i32, DType::i64, DType::u32, DType::u64);

// Adds a term to an element, and its magnitude to the element's scale.
void add_term(PlainOutput& y, int64_t to, double term) {
  y.value.set(to, y.value.at(to) + term);
  y.scale.set(to, y.scale.at(to) + std::abs(term));
}
PlainOutput nothing(const Shape& shape) {
  return {Tensor(DType::f64, shape), Tensor(DType::f64, shape)};
}

void draw_matmul_call(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kProducts);
  const int64_t m = draw.size(), k = draw.size(), n = draw.size();
  const Shape batch = draw.shape(0, 2);
  Shape a = draw.once_in(2) ? batch : Shape(), b = draw.broadcast(batch);
  if (draw.once_in(2)) std::swap(a, b);
  const int ra = a.rank(), rb = b.rank(), rank = std::max(ra, rb);
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const int64_t of_a = i < rank - ra ? 1 : a[i - rank + ra],
                  of_b = i < rank - rb ? 1 : b[i - rank + rb];
    out.push_back(of_a == 1 ? of_b : of_a);
  }
  const Shape batch_a = a, batch_b = b;
  const bool row = ra == 0 && draw.once_in(6), column = rb == 0 && draw.once_in(6);
  if (!row) a.push_back(m);
  a.push_back(k);
  b.push_back(draw.wrong(op) ? k + 1 : k);
  if (!column) b.push_back(n);
  const Shape batches = out;
  if (!row) out.push_back(m);
  if (!column) out.push_back(n);
  op.add(draw.tensor(dtype, a), true);
  op.add(draw.tensor(dtype, b), true);
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y = nothing(out);
    const int64_t rows = row ? 1 : m, columns = column ? 1 : n;
    int64_t to = 0;
    for_each_index(batches, [&](const Sizes& i) {
      const int64_t left = place(batch_a, i) * rows * k, right = place(batch_b, i) * k * columns;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c, ++to) {
          for (int64_t d = 0; d < k; ++d)
            add_term(y, to, in[0].at(left + r * k + d) * in[1].at(right + d * columns + c));
        }
      }
    });
    return y;
  });
}

void draw_gemm_call(Drawer& draw, DrawnOp& op) {
  const DType dtype = draw.dtype(kFloats);
  const int64_t m = draw.size(), k = draw.size(), n = draw.size();
  const bool ta = draw.once_in(2), tb = draw.once_in(2), biased = draw.once_in(2);
  const double alpha = draw.once_in(2) ? 0.5 : 1, beta = draw.once_in(2) ? 0.25 : 1;
  const int64_t inner = draw.wrong(op) ? k + 1 : k;
  op.add(draw.tensor(dtype, ta ? Shape{k, m} : Shape{m, k}), true);
  op.add(draw.tensor(dtype, tb ? Shape{n, inner} : Shape{inner, n}), true);
  if (biased) op.add(draw.tensor(dtype, draw.broadcast({m, n})), true);
  if (ta) op.attrs["transA"] = int64_t{1};
  if (tb) op.attrs["transB"] = int64_t{1};
  if (alpha != 1) op.attrs["alpha"] = alpha;
  if (beta != 1) op.attrs["beta"] = beta;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y = nothing({m, n});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t d = 0; d < k; ++d) {
          add_term(
              y, i * n + j,
              alpha * in[0].at(ta ? d * m + i : i * k + d) * in[1].at(tb ? j * k + d : d * n + j));
        }
        if (biased) add_term(y, i * n + j, beta * at(in[2], {i, j}));
      }
    }
    return y;
  });
}

void draw_einsum(Drawer& draw, DrawnOp& op) {
  const std::string equation = draw.any_of<std::string>(
      {"ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "i,j->ij", "bhqd,bhkd->bhqk", "ij,jk,kl->il",
       "ij,kj->ik", "ijk->k", "i,i->", "abc,bd->acd", "ij,jk", "ab,ab->a", "ij,ij->ij", "ijk,k->ji",
       "a,b,c->cab", "ij,k->i"});
  const DType dtype = draw.dtype(kFloats);
  std::map<char, int64_t> sizes;
  const size_t arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow) + ",";
  std::string output = arrow == std::string::npos ? "ik" : equation.substr(arrow + 2), labels;
  std::vector<std::string> operands;
  for (std::string now; const char c : left) {
    if (c == ',') {
      operands.push_back(now);
      now.clear();
      continue;
    }
    now.push_back(c);
    if (sizes.emplace(c, draw.once_in(20) ? 0 : draw.from(1, 4)).second) labels.push_back(c);
  }
  const auto shape_of = [&](const std::string& of) {
    Shape shape;
    for (const char c : of) shape.push_back(sizes[c]);
    return shape;
  };
  for (const std::string& operand : operands) op.add(draw.tensor(dtype, shape_of(operand)), true);
  op.attrs["equation"] = equation;
  if (draw.wrong(op)) op.attrs["equation"] = std::string("ij,jk->iz");
  const Shape all = shape_of(labels), out = shape_of(output);
  op.same_bits = false;
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y = nothing(out);
    for_each_index(all, [&](const Sizes& index) {
      const auto of = [&](const std::string& some) {
        Sizes part;
        for (const char c : some) part.push_back(index[labels.find(c)]);
        return part;
      };
      double product = 1;
      for (size_t i = 0; i < in.size(); ++i) product *= at(in[i], of(operands[i]));
      add_term(y, place(out, of(output)), product);
    });
    return y;
  });
}

// --- recurrent layers ----------------------------------------------------------------------------

struct Recurrence {
  std::string op;
  int64_t steps = 1, batch = 1, in = 1, hidden = 1, directions = 1;
  bool reverse = false, batch_first = false, before_reset = false;
  int64_t gates() const { return op == "LSTM" ? 4 : op == "GRU" ? 3 : 1; }
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One step of one row: `h` and `c` are its states, and `x` its input.
void step_of(const Recurrence& r, const std::vector<Tensor>& in, int64_t d,
             const std::vector<double>& x, std::vector<double>& h, std::vector<double>& c) {
  const int64_t n = r.hidden, all = r.gates() * n;
  const auto given = [&](size_t i) { return i < in.size() && in[i].valid(); };
  const auto input = [&](int64_t g) {
    double sum = given(3) ? in[3].at(d * 2 * all + g) : 0;
    for (int64_t k = 0; k < r.in; ++k)
      sum += in[1].at((d * all + g) * r.in + k) * x[static_cast<size_t>(k)];
    return sum;
  };
  const auto state_bias = [&](int64_t g) { return given(3) ? in[3].at(d * 2 * all + all + g) : 0; };
  const auto product = [&](int64_t g, const std::vector<double>& of) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k)
      sum += in[2].at((d * all + g) * n + k) * of[static_cast<size_t>(k)];
    return sum;
  };
  const auto state = [&](int64_t g) { return product(g, h) + state_bias(g); };
  const std::vector<double> old = h;
  std::vector<double> next(h.size()), reset(h.size());
  for (int64_t j = 0; j < n && r.op == "GRU"; ++j)
    reset[static_cast<size_t>(j)] =
        logistic(input(n + j) + state(n + j)) * old[static_cast<size_t>(j)];
  for (int64_t j = 0; j < n; ++j) {
    const auto at = static_cast<size_t>(j);
    if (r.op == "RNN") {
      next[at] = std::tanh(input(j) + state(j));
    } else if (r.op == "GRU") {
      const double z = logistic(input(j) + state(j));
      const double inner = r.before_reset ? logistic(input(n + j) + state(n + j)) * state(2 * n + j)
                                          : product(2 * n + j, reset) + state_bias(2 * n + j);
      next[at] = (1 - z) * std::tanh(input(2 * n + j) + inner) + z * old[at];
    } else {
      const auto peephole = [&](int64_t g) {
        return given(7) ? in[7].at(d * 3 * n + g * n + j) : 0;
      };
      const double i = logistic(input(j) + state(j) + peephole(0) * c[at]);
      const double f = logistic(input(2 * n + j) + state(2 * n + j) + peephole(2) * c[at]);
      c[at] = f * c[at] + i * std::tanh(input(3 * n + j) + state(3 * n + j));
      const double o = logistic(input(n + j) + state(n + j) + peephole(1) * c[at]);
      next[at] = o * std::tanh(c[at]);
    }
  }
  h = next;
}

std::vector<PlainOutput> run_recurrence(const Recurrence& r, const std::vector<Tensor>& in) {
  const bool lstm = r.op == "LSTM", first = r.batch_first;
  PlainOutput y = nothing(first ? Shape{r.batch, r.steps, r.directions, r.hidden}
                                : Shape{r.steps, r.directions, r.batch, r.hidden});
  const Shape last =
      first ? Shape{r.batch, r.directions, r.hidden} : Shape{r.directions, r.batch, r.hidden};
  PlainOutput last_h = nothing(last), last_c = nothing(last);
  const auto given = [&](size_t i) { return i < in.size() && in[i].valid(); };
  for (int64_t d = 0; d < r.directions; ++d) {
    for (int64_t b = 0; b < r.batch; ++b) {
      const int64_t line = (first ? b * r.directions + d : d * r.batch + b) * r.hidden;
      std::vector<double> h(static_cast<size_t>(r.hidden)), c = h;
      for (int64_t j = 0; j < r.hidden; ++j) {
        if (given(5)) h[static_cast<size_t>(j)] = in[5].at(line + j);
        if (given(6)) c[static_cast<size_t>(j)] = in[6].at(line + j);
      }
      const auto length = given(4) ? static_cast<int64_t>(in[4].at(b)) : r.steps;
      const bool back = r.reverse || d == 1;
      for (int64_t s = 0; s < length; ++s) {
        const int64_t t = back ? length - 1 - s : s;
        std::vector<double> x;
        for (int64_t k = 0; k < r.in; ++k)
          x.push_back(in[0].at((first ? b * r.steps + t : t * r.batch + b) * r.in + k));
        step_of(r, in, d, x, h, c);
        const int64_t to =
            first ? (b * r.steps + t) * r.directions + d : (t * r.directions + d) * r.batch + b;
        for (int64_t j = 0; j < r.hidden; ++j)
          y.value.set(to * r.hidden + j, h[static_cast<size_t>(j)]);
      }
      for (int64_t j = 0; j < r.hidden; ++j) {
        last_h.value.set(line + j, h[static_cast<size_t>(j)]);
        last_c.value.set(line + j, c[static_cast<size_t>(j)]);
      }
    }
  }
  for (PlainOutput* output : {&y, &last_h, &last_c}) {
    for (int64_t i = 0; i < output->scale.elements(); ++i) output->scale.set(i, 2);
  }
  if (lstm) return {y, last_h, last_c};
  return {y, last_h};
}

void draw_recurrent(Drawer& draw, DrawnOp& op) {
  Recurrence r{op.op};
  const DType dtype = draw.dtype(kFloats);
  r.steps = draw.once_in(12) ? 0 : draw.from(1, 4);
  r.batch = draw.once_in(12) ? 0 : draw.from(1, 3);
  r.in = draw.from(1, 3);
  r.hidden = draw.trains() ? draw.from(1, 2) : draw.any_of({1, 2, 3, 8, 17});
  const std::string direction = draw.any_of<std::string>({"forward", "reverse", "bidirectional"});
  r.directions = direction == "bidirectional" ? 2 : 1;
  r.reverse = direction == "reverse";
  r.batch_first = draw.once_in(3);
  r.before_reset = op.op == "GRU" && draw.once_in(2);
  const bool lstm = op.op == "LSTM";
  const int64_t gates = r.gates() * r.hidden;
  const Shape state = r.batch_first ? Shape{r.batch, r.directions, r.hidden}
                                    : Shape{r.directions, r.batch, r.hidden};
  const auto add_or_not = [&](bool given, const Shape& shape) {
    given ? op.add(draw.tensor(dtype, shape, -1, 1), true) : op.add_absent();
  };
  op.add(draw.tensor(dtype,
                     r.batch_first ? Shape{r.batch, r.steps, r.in} : Shape{r.steps, r.batch, r.in}),
         true);
  const bool wrong = draw.wrong(op);
  op.add(draw.tensor(dtype, {r.directions, gates, wrong ? r.in + 1 : r.in}, -1, 1), true);
  op.add(draw.tensor(dtype, {r.directions, gates, r.hidden}, -1, 1), true);
  add_or_not(draw.once_in(2), {r.directions, 2 * gates});
  if (draw.once_in(3)) {
    Tensor lengths(DType::i32, {r.batch});
    for (int64_t i = 0; i < r.batch; ++i)
      lengths.set(i, static_cast<double>(draw.from(r.steps > 0, r.steps)));
    op.add(lengths);
  } else {
    op.add_absent();
  }
  add_or_not(draw.once_in(2), state);
  if (lstm) {
    add_or_not(draw.once_in(2), state);
    add_or_not(draw.once_in(3), {r.directions, 3 * r.hidden});
  }
  op.attrs["hidden_size"] = r.hidden;
  if (direction != "forward" || draw.once_in(2)) op.attrs["direction"] = direction;
  if (r.batch_first) op.attrs["layout"] = int64_t{1};
  if (r.before_reset) op.attrs["linear_before_reset"] = int64_t{1};
  op.outputs = lstm ? 3 : 2;
  op.same_bits = false;
  op.slack = 100;
  op.plain = [r](const std::vector<Tensor>& in) { return run_recurrence(r, in); };
}

// --- attention -----------------------------------------------------------------------------------

struct Heads {
  int64_t batch = 1, queries = 1, keys = 1, q_rows = 1, k_rows = 1, columns = 1, values = 1;
  bool flat = false, causal = false;
  double scale = 1;
};

// The place of an element of [N,H,T,D], or of [N,T,H*D].
int64_t in_heads(bool flat, int64_t heads, int64_t rows, int64_t columns, int64_t n, int64_t h,
                 int64_t t, int64_t d) {
  return flat ? ((n * rows + t) * heads + h) * columns + d
              : ((n * heads + h) * rows + t) * columns + d;
}

void attend(const Heads& a, const std::vector<Tensor>& in, PlainOutput& y, int64_t n, int64_t h,
            int64_t t) {
  const int64_t of = h / (a.queries / a.keys);
  std::vector<double> scores;
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t k = 0; k < a.k_rows; ++k) {
    double score = 0;
    for (int64_t d = 0; d < a.columns; ++d) {
      score += in[0].at(in_heads(a.flat, a.queries, a.q_rows, a.columns, n, h, t, d)) *
               in[1].at(in_heads(a.flat, a.keys, a.k_rows, a.columns, n, of, k, d));
    }
    score *= a.scale;
    if (in.size() > 3) score += at(in[3], {n, h, t, k});
    if (a.causal && k > t) score = -std::numeric_limits<double>::infinity();
    scores.push_back(score);
    most = std::max(most, score);
  }
  for (double& score : scores) sum += score = std::exp(score - most);
  for (int64_t d = 0; d < a.values; ++d) {
    const int64_t to = in_heads(a.flat, a.queries, a.q_rows, a.values, n, h, t, d);
    for (int64_t k = 0; k < a.k_rows; ++k) {
      add_term(y, to,
               scores[static_cast<size_t>(k)] / sum *
                   in[2].at(in_heads(a.flat, a.keys, a.k_rows, a.values, n, of, k, d)));
    }
    y.scale.set(to, 4);
  }
}

void draw_attention(Drawer& draw, DrawnOp& op) {
  Heads a;
  const DType dtype = draw.dtype(kFloats);
  a.batch = draw.once_in(12) ? 0 : draw.from(1, 3);
  a.keys = draw.from(1, 2);
  a.queries = a.keys * draw.from(1, 2);
  a.q_rows = draw.once_in(12) ? 0
             : draw.trains()  ? draw.from(1, 3)
                              : draw.any_of({1, 3, 5, 17, 40});
  a.k_rows = draw.trains() ? draw.from(1, 3) : draw.any_of({1, 2, 5, 16, 33});
  a.columns = draw.from(1, 4);
  a.values = draw.from(1, 4);
  a.flat = draw.once_in(3);
  a.causal = draw.once_in(3);
  a.scale = 1 / std::sqrt(static_cast<double>(a.columns));
  const auto shape = [&](int64_t heads, int64_t rows, int64_t columns) {
    return a.flat ? Shape{a.batch, rows, heads * columns} : Shape{a.batch, heads, rows, columns};
  };
  op.add(draw.tensor(dtype, shape(a.queries, a.q_rows, a.columns)), true);
  const bool wrong = draw.wrong(op);
  op.add(draw.tensor(dtype, shape(a.keys, a.k_rows, a.columns)), true);
  op.add(draw.tensor(dtype, shape(a.keys, wrong ? a.k_rows + 1 : a.k_rows, a.values)), true);
  if (draw.once_in(3))
    op.add(draw.tensor(dtype, Shape{1, draw.once_in(2) ? a.queries : 1, a.q_rows, a.k_rows}), true);
  if (a.flat) {
    op.attrs["q_num_heads"] = a.queries;
    op.attrs["kv_num_heads"] = a.keys;
  }
  if (a.causal) op.attrs["is_causal"] = int64_t{1};
  if (draw.once_in(3)) op.attrs["scale"] = a.scale = 0.25;
  const Shape out = shape(a.queries, a.q_rows, a.values);
  op.slack = 64;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y = nothing(out);
    for_each_index({a.batch, a.queries, a.q_rows},
                   [&](const Sizes& i) { attend(a, in, y, i[0], i[1], i[2]); });
    return y;
  });
}

void draw_rotary(Drawer& draw, DrawnOp& op) {
  const int64_t n = draw.once_in(12) ? 0 : draw.from(1, 2), heads = draw.from(1, 3),
                rows = draw.from(1, 4), half = draw.from(1, 3), rest = draw.from(0, 2),
                places = draw.from(1, 5);
  const bool flat = draw.once_in(2), pairs = draw.once_in(2), positions = draw.once_in(2);
  const int64_t columns = 2 * half + rest;
  const Shape shape = flat ? Shape{n, rows, heads * columns} : Shape{n, heads, rows, columns};
  const Shape cache = positions ? Shape{places, half} : Shape{n, rows, half};
  const DType dtype = draw.dtype(kFloats);
  op.add(draw.tensor(dtype, shape), true);
  op.add(draw.tensor(dtype, cache, -1, 1), true);
  const bool wrong = draw.wrong(op);
  op.add(draw.tensor(dtype, wrong ? Shape{places, half + 4} : cache, -1, 1), true);
  if (positions) {
    Tensor ids(DType::i64, {n, rows});
    for (int64_t i = 0; i < ids.elements(); ++i)
      ids.set(i, static_cast<double>(draw.from(0, places - 1)));
    op.add(ids);
  }
  if (flat) op.attrs["num_heads"] = heads;
  if (pairs) op.attrs["interleaved"] = int64_t{1};
  if (rest > 0) op.attrs["rotary_embedding_dim"] = 2 * half;
  op.same_bits = false;
  op.slack = 16;
  op.returns([=](const std::vector<Tensor>& in) {
    PlainOutput y = nothing(shape);
    for_each_index({n, heads, rows, columns}, [&](const Sizes& i) {
      const auto of = [&](int64_t d) {
        return in_heads(flat, heads, rows, columns, i[0], i[1], i[2], d);
      };
      const int64_t d = i[3], to = of(d);
      if (d >= 2 * half) return add_term(y, to, in[0].at(to));
      const int64_t pair = pairs ? d / 2 : d % half;
      const bool second = pairs ? d % 2 == 1 : d >= half;
      const int64_t line = i[0] * rows + i[2];
      const int64_t angle = (positions ? static_cast<int64_t>(in[3].at(line)) : line) * half + pair;
      const double a = in[0].at(of(pairs ? 2 * pair : pair)),
                   b = in[0].at(of(pairs ? 2 * pair + 1 : pair + half));
      const double cosine = in[1].at(angle), sine = in[2].at(angle);
      add_term(y, to, second ? sine * a : cosine * a);
      add_term(y, to, second ? cosine * b : -sine * b);
    });
    return y;
  });
}

}  // namespace

std::vector<DrawnFamily> sequence_families() {
  return {{"MatMul", draw_matmul_call, true},  {"Gemm", draw_gemm_call, true},
          {"Einsum", draw_einsum, true},       {"LSTM", draw_recurrent, true},
          {"GRU", draw_recurrent, true},       {"RNN", draw_recurrent, true},
          {"Attention", draw_attention, true}, {"RotaryEmbedding", draw_rotary, true}};
}

}  // namespace leat
