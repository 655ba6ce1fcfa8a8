// CPU kernels of ops/definitions/recurrent.cc. A tile is a few rows of the batch for all steps:
// rows are independent, so the bits depend neither on threads nor on tiles beyond the shapes.
#include "ops/cpu/recurrent.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/convert16.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/gemm.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/recurrent_loops.h"
#include "ops/definitions/recurrent.h"

namespace leat {
namespace {

constexpr int64_t kTileRows = 8;
// With products of bf16: as many as a register of AMX has.
constexpr int64_t kNarrowTileRows = 16;

// --- What both kernels share -------------------------------------------------------------------
//
// A kernel computes with T and has operands of E: the same type, or f32 and bf16. Rows of E become
// rows of T as they are read, in the cache, and are rounded as they are written.

struct Sequence {
  Sequence(const RecurrentSpec& of, const Shape& y, int64_t rows_of_tile)
      : spec(of),
        steps(y[0]),
        rows(y[1]),
        state(y[2]),
        columns(of.gates() * y[2]),
        tile_rows(rows_of_tile) {}

  // The step that is done as number k.
  int64_t step(int64_t k) const { return spec.reverse ? steps - 1 - k : k; }
  // The step before `t` in the order of the work, of a sequence of `length` steps; -1 for the
  // first.
  int64_t before(int64_t t, int64_t length) const {
    if (!spec.reverse) return t - 1;
    return t + 1 < length ? t + 1 : -1;
  }

  // The numbers of the input that a cell may have beside R: an LSTM's P, or a GRU's bias of the
  // third gate.
  int64_t extras() const { return spec.cell == Cell::lstm ? 3 * state : state; }

  RecurrentSpec spec;
  int64_t steps, rows, state, columns, tile_rows;
};

// Input i; null where it is absent. Absent ones at the end are not in the context's list.
class Inputs {
 public:
  explicit Inputs(const KernelSetup& setup) {
    for (size_t i = 0; i < setup.types.inputs.size(); ++i)
      present_.push_back(setup.types.inputs[i].present);
  }
  template <typename T>
  const T* of(const KernelContext& context, size_t i) const {
    return i < present_.size() && present_[i] ? context.in<T>(static_cast<int>(i)) : nullptr;
  }

 private:
  std::vector<bool> present_;
};
class Outputs {
 public:
  explicit Outputs(const KernelSetup& setup) : count_(setup.types.outputs.size()) {}
  template <typename T>
  T* of(const KernelContext& context, size_t i) const {
    return i < count_ ? context.out<T>(static_cast<int>(i)) : nullptr;
  }

 private:
  const size_t count_;
};

// The rows of one tile, and what all of its steps need.
template <typename T>
struct TileRows {
  TileRows(const Sequence& sequence, int tile, const int32_t* row_lengths)
      : s(sequence), first(tile * s.tile_rows), count(std::min(s.tile_rows, s.rows - first)) {
    lengths = row_lengths ? row_lengths + first : nullptr;
  }
  int64_t length(int64_t row) const {
    return lengths ? std::clamp<int64_t>(lengths[row], 0, s.steps) : s.steps;
  }
  // A row of a value [steps, rows, width], or of one [rows, width] at step 0.
  template <typename U>
  U* at(U* values, int64_t step, int64_t row, int64_t width) const {
    return values ? values + (step * s.rows + first + row) * width : nullptr;
  }

  const Sequence& s;
  const int64_t first, count;
  const int32_t* lengths;
};

// The scratch memory of a thread: matrices [tile_rows, width], and single rows.
class Buffers {
 public:
  Buffers(std::byte* memory, int64_t tile_rows) : next_(memory), tile_rows_(tile_rows) {}
  template <typename T>
  static size_t bytes(int64_t rows, int64_t width) {
    return align_up(static_cast<size_t>(rows * width) * sizeof(T), 64);
  }
  template <typename T>
  T* take(int64_t width) {
    return take_rows<T>(tile_rows_, width);
  }
  template <typename T>
  T* take_row(int64_t width) {
    return take_rows<T>(1, width);
  }
  std::byte* rest() const { return next_; }

 private:
  template <typename T>
  T* take_rows(int64_t rows, int64_t width) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += bytes<T>(rows, width);
    return taken;
  }

  std::byte* next_;
  const int64_t tile_rows_;
};

// Products of a tile's rows with R, or with its transpose, that multiply bf16. R is packed into the
// workspace once, for all tiles and steps.
class NarrowProducts {
 public:
  // [kNarrowTileRows, k] times [k, n]. R has rows of `columns` elements. unimplemented if the
  // library has no fast product.
  static Result<std::unique_ptr<NarrowProducts>> make(int64_t k, int64_t n, int64_t columns,
                                                      bool transposed) {
    LEAT_ASSIGN_OR_RETURN(
        auto product,
        onednn::make_bf16_product({false, transposed, kNarrowTileRows, n, k, k, columns, n}, true));
    return std::unique_ptr<NarrowProducts>(new NarrowProducts(std::move(product), k));
  }

  size_t workspace_bytes() const { return product_->packed_bytes(); }
  size_t scratch_bytes() const { return rows_bytes() + product_->scratch_bytes(); }

  bool pack(const BFloat16* r, const KernelContext& context) const {
    return workspace_bytes() == 0 || product_->pack(r, context.workspace, context.scratch);
  }
  // to = rows * R, for `count` rows of k elements; the rows behind them in `to` are overwritten.
  bool run(const float* rows, int64_t count, const BFloat16* r, float* to,
           const KernelContext& context, std::byte* scratch) const {
    auto* const narrowed = reinterpret_cast<BFloat16*>(scratch);
    narrow(rows, narrowed, count * k_);
    std::fill(narrowed + count * k_, narrowed + kNarrowTileRows * k_, BFloat16{});
    const void* const packed = workspace_bytes() == 0 ? static_cast<const void*>(r)
                                                      : static_cast<const void*>(context.workspace);
    return product_->run(narrowed, packed, to, scratch + rows_bytes());
  }

 private:
  NarrowProducts(std::unique_ptr<onednn::Bf16Product> product, int64_t k)
      : product_(std::move(product)), k_(k) {}
  size_t rows_bytes() const {
    return align_up(static_cast<size_t>(kNarrowTileRows * k_) * sizeof(BFloat16), 64);
  }

  const std::unique_ptr<onednn::Bf16Product> product_;
  const int64_t k_;
};

Progress library_error(KernelContext& context, const std::string& subject) {
  context.step->fail(context.instruction,
                     internal_error(cat(subject, ": the matrix library refused a product")));
  return Progress::failed;
}

// The operands of both kernels, and their tiles. If R is bf16, phase 0 packs it for `narrow`.
class CellKernel : public Kernel {
 public:
  int phases() const override { return narrow_ ? 2 : 1; }
  int tiles(int phase) const override {
    return packs(phase) ? 1 : tile_count(s_.rows, s_.tile_rows);
  }
  size_t workspace_bytes() const override { return narrow_ ? narrow_->workspace_bytes() : 0; }

 protected:
  // `r`: the input R. `y`: the shape of the states of all steps.
  CellKernel(const KernelSetup& setup, RecurrentSpec spec, const Shape& y, int r,
             std::unique_ptr<NarrowProducts> narrow)
      : s_(std::move(spec), y, narrow ? kNarrowTileRows : kTileRows),
        in_(setup),
        out_(setup),
        subject_(setup.subject),
        r_(r),
        narrow_(std::move(narrow)) {}

  // The scratch memory of matrices for the tile's rows, of single rows with all gates, and of a
  // product.
  template <typename T>
  size_t scratch_of(size_t states, size_t gates, size_t single_rows) const {
    const size_t product = narrow_ ? narrow_->scratch_bytes() : gemm_scratch_bytes<T>();
    return states * Buffers::bytes<T>(s_.tile_rows, s_.state) +
           gates * Buffers::bytes<T>(s_.tile_rows, s_.columns) +
           single_rows * Buffers::bytes<T>(1, s_.columns) + product;
  }
  bool packs(int phase) const { return phase + 1 < phases(); }
  Progress pack(KernelContext& context) const {
    return narrow_->pack(context.in<BFloat16>(r_), context) ? Progress::done
                                                            : library_error(context, subject_);
  }
  // R; null if it is bf16.
  template <typename T>
  const T* wide_r(const KernelContext& context) const {
    return narrow_ ? nullptr : context.in<T>(r_);
  }
  // to = `count` rows times R, as `narrow` has it.
  bool multiply_narrow(const float* rows, int64_t count, float* to, const KernelContext& context,
                       std::byte* scratch) const {
    return narrow_->run(rows, count, context.in<BFloat16>(r_), to, context, scratch);
  }

  const Sequence s_;
  const Inputs in_;
  const Outputs out_;
  const std::string subject_;
  const int r_;
  const std::unique_ptr<NarrowProducts> narrow_;
};

// to = from, or zeros if `from` is null.
template <typename T, typename E>
void read_or_zero(T* to, const E* from, int64_t n) {
  if (!from) {
    std::fill_n(to, n, T(0));
  } else if constexpr (std::is_same_v<T, E>) {
    std::copy_n(from, n, to);
  } else {
    widen(from, to, n);
  }
}
// The row as numbers of T: itself, or a copy in `wide`. Null stays null.
template <typename T, typename E>
const T* read(const E* row, T* wide, int64_t n) {
  if constexpr (std::is_same_v<T, E>) {
    return row;
  } else {
    if (row) widen(row, wide, n);
    return row ? wide : nullptr;
  }
}
// to = from, or zeros if `from` is null; nothing if `to` is null.
template <typename T, typename E>
void write(const T* from, E* to, int64_t n) {
  if (!to) return;
  if (!from) {
    std::fill_n(to, n, E{});
  } else if constexpr (std::is_same_v<T, E>) {
    std::copy_n(from, n, to);
  } else {
    narrow(from, to, n);
  }
}

// --- The forward pass --------------------------------------------------------------------------

template <typename T, typename E>
class RecurrentKernel final : public CellKernel {
 public:
  static constexpr int kR = 1;  // the input R
  RecurrentKernel(const KernelSetup& setup, RecurrentSpec spec,
                  std::unique_ptr<NarrowProducts> narrow = nullptr)
      : CellKernel(setup, std::move(spec), setup.output(0).shape, kR, std::move(narrow)) {}
  static Result<std::unique_ptr<NarrowProducts>> narrow_products(const KernelSetup& setup) {
    const int64_t H = setup.input(kR).shape[0], columns = setup.input(kR).shape[1];
    return NarrowProducts::make(H, columns, columns, false);
  }

  size_t scratch_bytes() const override { return scratch_of<T>(3, 2, 1); }
  Progress run(KernelContext& context, int phase, int tile) override {
    if (packs(phase)) return pack(context);
    const TileRows<T> rows(s_, tile, in_.template of<int32_t>(context, 5));
    const int64_t H = s_.state;
    Buffers buffers(context.scratch, s_.tile_rows);
    Work w;
    w.h = buffers.take<T>(H);
    w.c = buffers.take<T>(H);
    w.part = buffers.take<T>(H);
    w.products = buffers.take<T>(s_.columns);
    w.gates = buffers.take<T>(s_.columns);
    w.extra = read(in_.template of<E>(context, 4), buffers.take_row<T>(s_.columns), s_.extras());
    w.gemm = buffers.rest();
    w.r = wide_r<T>(context);
    for (int64_t row = 0; row < rows.count; ++row) {
      read_or_zero(w.h + row * H, rows.at(in_.template of<E>(context, 2), 0, row, H), H);
      read_or_zero(w.c + row * H, rows.at(in_.template of<E>(context, 3), 0, row, H), H);
    }
    for (int64_t k = 0; k < s_.steps; ++k) {
      if (!step(context, rows, w, s_.step(k))) return library_error(context, subject_);
    }
    for (int64_t row = 0; row < rows.count; ++row) {
      write(w.h + row * H, rows.at(out_.template of<E>(context, 1), 0, row, H), H);
      write(w.c + row * H, rows.at(out_.template of<E>(context, 2), 0, row, H), H);
    }
    return Progress::done;
  }

 private:
  // Matrices of the tile's rows.
  struct Work {
    T *h, *c, *part, *products, *gates;
    std::byte* gemm;
    const T *r, *extra;
  };

  // products[:, 0...] = the state * r[:, 0, width)
  bool multiply_state(const KernelContext& context, const TileRows<T>& rows, Work& w,
                      int64_t width) {
    if constexpr (std::is_same_v<T, float>) {
      if (narrow_) return multiply_narrow(w.h, rows.count, w.products, context, w.gemm);
    }
    return multiply(rows, w, w.h, 0, width);
  }
  // products[:, from...] = states * r[:, from, from + width)
  bool multiply(const TileRows<T>& rows, Work& w, const T* states, int64_t from, int64_t width) {
    const onednn::Gemm g{.m = rows.count,
                         .n = width,
                         .k = s_.state,
                         .lda = s_.state,
                         .ldb = s_.columns,
                         .ldc = s_.columns};
    return gemm<T>(g, states, w.r + from, w.products + from, w.gemm);
  }

  bool step(KernelContext& context, const TileRows<T>& rows, Work& w, int64_t t) {
    const int64_t H = s_.state;
    const bool resets_first = s_.spec.resets_first();
    if (!multiply_state(context, rows, w, resets_first ? 2 * H : s_.columns)) return false;
    if (resets_first) {
      for (int64_t row = 0; row < rows.count; ++row) reset(context, rows, w, t, row);
      if (!multiply(rows, w, w.part, 2 * H, H)) return false;
    }
    for (int64_t row = 0; row < rows.count; ++row) {
      E* const y = rows.at(out_.template of<E>(context, 0), t, row, H);
      E* const gates = rows.at(out_.template of<E>(context, 3), t, row, s_.columns);
      E* const states = rows.at(out_.template of<E>(context, 4), t, row, H);
      if (t >= rows.length(row)) {  // the sequence has ended: the state stays
        write<T>(nullptr, y, H);
        write<T>(nullptr, gates, s_.columns);
        write<T>(nullptr, states, H);
        continue;
      }
      T* const work = w.gates + row * s_.columns;
      compute(w, x_of(context, rows, t, row), row, work, states);
      write(w.h + row * H, y, H);
      write(work, gates, s_.columns);
    }
    return true;
  }

  const E* x_of(const KernelContext& context, const TileRows<T>& rows, int64_t t,
                int64_t row) const {
    return rows.at(in_.template of<E>(context, 0), t, row, s_.columns);
  }

  void compute(Work& w, const E* x, int64_t row, T* gates, E* states) {
    const int64_t H = s_.state;
    T *const h = w.h + row * H, *const c = w.c + row * H;
    const T* const products = w.products + row * s_.columns;
    switch (s_.spec.cell) {
      case Cell::rnn:
        cells::sum(x, products, gates, H);
        squash(0, gates, H);
        std::copy_n(gates, H, h);
        return;
      case Cell::gru:
        return gru(w, x, products, h, gates, states, w.part + row * H);
      case Cell::lstm:
        lstm(w, x, products, h, c, gates);
        write(c, states, H);
        return;
    }
  }

  // The activation `index` of what was clipped before.
  void squash(int index, T* x, int64_t n) {
    if (s_.spec.clip > 0) {
      const T most = static_cast<T>(s_.spec.clip);
      for (int64_t j = 0; j < n; ++j) x[j] = std::clamp(x[j], -most, most);
    }
    cells::activate(s_.spec.activations[static_cast<size_t>(index)], x, n);
  }

  void lstm(const Work& w, const E* x, const T* products, T* h, T* c, T* gates) {
    const int64_t H = s_.state;
    T *const i = gates, *const o = i + H, *const f = o + H, *const g = f + H;
    cells::sum(x, products, gates, 4 * H);
    if (w.extra) {
      cells::add_product(w.extra, c, i, H);
      cells::add_product(w.extra + 2 * H, c, f, H);
    }
    squash(0, i, H);
    squash(1, g, H);
    if (s_.spec.input_forget)
      for (int64_t j = 0; j < H; ++j) f[j] = 1 - i[j];
    else
      squash(0, f, H);
    cells::lstm_state(i, f, g, c, H);
    if (w.extra) cells::add_product(w.extra + H, c, o, H);
    squash(0, o, H);
    std::copy_n(c, H, h);
    cells::activate(s_.spec.activations[2], h, H);
    cells::product(o, h, h, H);
  }

  // The first two gates of a GRU whose reset comes before the product, and the state after it.
  void reset(KernelContext& context, const TileRows<T>& rows, Work& w, int64_t t, int64_t row) {
    const int64_t H = s_.state;
    const E* const x = x_of(context, rows, t, row);
    T* const gates = w.gates + row * s_.columns;
    cells::sum(x, w.products + row * s_.columns, gates, 2 * H);
    squash(0, gates, 2 * H);
    cells::product(gates + H, w.h + row * H, w.part + row * H, H);
  }

  // The row of w.part is the state after the reset, or room for its product.
  void gru(const Work& w, const E* x, const T* products, T* h, T* gates, E* states, T* part) {
    const int64_t H = s_.state;
    T *const z = gates, *const r = z + H, *const n = r + H;
    if (s_.spec.linear_before_reset) {
      cells::sum(x, products, gates, 2 * H);
      squash(0, gates, 2 * H);
      const T* const third = read(x + 2 * H, n, H);
      for (int64_t j = 0; j < H; ++j) {
        part[j] = products[2 * H + j] + (w.extra ? w.extra[j] : T(0));
        n[j] = third[j] + r[j] * part[j];
      }
    } else {
      cells::sum(x + 2 * H, products + 2 * H, n, H);
    }
    write(part, states, H);
    squash(1, n, H);
    for (int64_t j = 0; j < H; ++j) h[j] = (1 - z[j]) * n[j] + z[j] * h[j];
  }
};

// --- The backward pass -------------------------------------------------------------------------

template <typename T, typename E>
class RecurrentGradKernel final : public CellKernel {
 public:
  static constexpr int kR = 0;  // the input R
  // `narrow`: of the transpose of R.
  RecurrentGradKernel(const KernelSetup& setup, RecurrentSpec spec,
                      std::unique_ptr<NarrowProducts> narrow = nullptr)
      : CellKernel(setup, std::move(spec), setup.input(1).shape, kR, std::move(narrow)) {}
  static Result<std::unique_ptr<NarrowProducts>> narrow_products(const KernelSetup& setup) {
    const int64_t H = setup.input(kR).shape[0], columns = setup.input(kR).shape[1];
    return NarrowProducts::make(columns, H, columns, true);
  }

  size_t scratch_bytes() const override { return scratch_of<T>(7, 2, 3); }
  Progress run(KernelContext& context, int phase, int tile) override {
    if (packs(phase)) return pack(context);
    const TileRows<T> rows(s_, tile, in_.template of<int32_t>(context, 7));
    const int64_t H = s_.state;
    Buffers buffers(context.scratch, s_.tile_rows);
    Work w;
    w.dh = buffers.take<T>(H);
    w.dc = buffers.take<T>(H);
    w.h = buffers.take<T>(H);
    w.c = buffers.take<T>(H);
    w.part = buffers.take<T>(H);
    w.line = buffers.take<T>(H);
    w.sum = buffers.take<T>(H);
    w.dx = buffers.take<T>(s_.columns);
    w.dproducts = buffers.take<T>(s_.columns);
    w.gates = buffers.take_row<T>(s_.columns);
    w.states = buffers.take_row<T>(s_.columns);
    w.extra = read(in_.template of<E>(context, 6), buffers.take_row<T>(s_.columns), s_.extras());
    w.gemm = buffers.rest();
    w.r = wide_r<T>(context);
    for (int64_t row = 0; row < rows.count; ++row) {
      read_or_zero(w.dh + row * H, rows.at(in_.template of<E>(context, 9), 0, row, H), H);
      read_or_zero(w.dc + row * H, rows.at(in_.template of<E>(context, 10), 0, row, H), H);
    }
    for (int64_t k = s_.steps; k-- > 0;) {
      if (!step(context, rows, w, s_.step(k))) return library_error(context, subject_);
    }
    for (int64_t row = 0; row < rows.count; ++row) {
      write(w.dh + row * H, rows.at(out_.template of<E>(context, 2), 0, row, H), H);
      write(w.dc + row * H, rows.at(out_.template of<E>(context, 3), 0, row, H), H);
    }
    return Progress::done;
  }

 private:
  // Matrices of the tile's rows. dx and dproducts: the gradients of what the gates' activations
  // get, and of the products of the state with r; they differ in a GRU alone. gates and states are
  // room for a row of the forward pass where E is not T.
  struct Work {
    T *dh, *dc, *h, *c, *part, *line, *sum, *dx, *dproducts, *gates, *states;
    std::byte* gemm;
    const T *r, *extra;
  };

  // w.sum = w.dproducts * r transposed.
  bool back_whole(const KernelContext& context, const TileRows<T>& rows, Work& w) {
    if constexpr (std::is_same_v<T, float>) {
      if (narrow_) return multiply_narrow(w.dproducts, rows.count, w.sum, context, w.gemm);
    }
    return back(rows, w, w.dproducts, 0, s_.columns);
  }
  // w.sum = gates[:, from, from + width) * r[:, from, from + width) transposed.
  bool back(const TileRows<T>& rows, Work& w, const T* gates, int64_t from, int64_t width) {
    const onednn::Gemm g{.trans_b = true,
                         .m = rows.count,
                         .n = s_.state,
                         .k = width,
                         .lda = s_.columns,
                         .ldb = s_.columns,
                         .ldc = s_.state};
    return gemm<T>(g, gates + from, w.r + from, w.sum, w.gemm);
  }

  // The states before step t, and the gradient of the state after it.
  void load(KernelContext& context, const TileRows<T>& rows, Work& w, int64_t t, int64_t row) {
    const int64_t H = s_.state, from = s_.before(t, rows.length(row));
    const auto state = [&](const E* of, const E* first) {
      return from >= 0 ? rows.at(of, from, row, H) : rows.at(first, 0, row, H);
    };
    read_or_zero(w.h + row * H,
                 state(in_.template of<E>(context, 1), in_.template of<E>(context, 4)), H);
    if (s_.spec.cell == Cell::lstm)
      read_or_zero(w.c + row * H,
                   state(in_.template of<E>(context, 3), in_.template of<E>(context, 5)), H);
    const E* const dy = rows.at(in_.template of<E>(context, 8), t, row, H);
    T* const dh = w.dh + row * H;
    if (dy) cells::sum(dy, dh, dh, H);
    write(w.h + row * H, rows.at(out_.template of<E>(context, 4), t, row, H), H);
    write(cell(w, row), rows.at(out_.template of<E>(context, 5), t, row, H), H);
  }
  const T* cell(const Work& w, int64_t row) const {
    return s_.spec.cell == Cell::lstm ? w.c + row * s_.state : nullptr;
  }

  bool step(KernelContext& context, const TileRows<T>& rows, Work& w, int64_t t) {
    const int64_t H = s_.state;
    const auto each = [&](auto&& of) {
      for (int64_t row = 0; row < rows.count; ++row) {
        if (t < rows.length(row)) of(row);
      }
    };
    // Rows whose sequence has ended have gradients of 0 here.
    std::fill_n(w.dx, rows.count * s_.columns, T(0));
    std::fill_n(w.dproducts, rows.count * s_.columns, T(0));
    for (int64_t row = 0; row < rows.count; ++row) {
      if (t < rows.length(row)) continue;
      for (const size_t output : {4, 5})
        write<T>(nullptr, rows.at(out_.template of<E>(context, output), t, row, H), H);
    }
    each([&](int64_t row) {
      load(context, rows, w, t, row);
      gates_of(context, rows, w, t, row);
    });
    if (s_.spec.resets_first()) {
      if (!back(rows, w, w.dx, 2 * H, H)) return false;
      each([&](int64_t row) { reset(context, rows, w, t, row); });
      if (!back(rows, w, w.dx, 0, 2 * H)) return false;
    } else if (!back_whole(context, rows, w)) {
      return false;
    }
    each([&](int64_t row) { cells::sum(w.dh + row * H, w.sum + row * H, w.dh + row * H, H); });
    for (int64_t row = 0; row < rows.count; ++row) {
      const int64_t from = row * s_.columns;
      write(w.dx + from, rows.at(out_.template of<E>(context, 0), t, row, s_.columns), s_.columns);
      write(w.dproducts + from, rows.at(out_.template of<E>(context, 1), t, row, s_.columns),
            s_.columns);
    }
    return true;
  }

  const T* gates_at(const KernelContext& context, const TileRows<T>& rows, const Work& w, int64_t t,
                    int64_t row) const {
    return read(rows.at(in_.template of<E>(context, 2), t, row, s_.columns), w.gates, s_.columns);
  }

  // Sets dx and dproducts, and makes dh the part of the gradient that goes around the gates.
  void gates_of(KernelContext& context, const TileRows<T>& rows, Work& w, int64_t t, int64_t row) {
    const int64_t H = s_.state;
    T *const dx = w.dx + row * s_.columns, *const dproducts = w.dproducts + row * s_.columns;
    T* const dh = w.dh + row * H;
    if (s_.spec.cell == Cell::rnn) {
      const T* const y = read(rows.at(in_.template of<E>(context, 1), t, row, H), w.states, H);
      std::copy_n(dh, H, dx);
      cells::derive(s_.spec.activations[0], y, dx, H);
      std::fill_n(dh, H, T(0));
      std::copy_n(dx, s_.columns, dproducts);
      return;
    }
    const T* const gates = gates_at(context, rows, w, t, row);
    const T* const states = read(rows.at(in_.template of<E>(context, 3), t, row, H), w.states, H);
    if (s_.spec.cell == Cell::gru) return gru(w, row, gates, states, dx, dproducts);
    lstm(w, row, gates, states, dx);
    std::copy_n(dx, s_.columns, dproducts);
  }

  void lstm(Work& w, int64_t row, const T* gates, const T* states, T* dx) {
    const int64_t H = s_.state;
    const auto& f_of = s_.spec.activations[0];
    T *const dh = w.dh + row * H, *const dc = w.dc + row * H, *const line = w.line + row * H,
             *const part = w.part + row * H;
    const T* const before = w.c + row * H;
    const T *const i = gates, *const o = i + H, *const f = o + H, *const g = f + H;
    T *const di = dx, *const d_o = di + H, *const df = d_o + H, *const dg = df + H;
    std::copy_n(states, H, line);  // h(c)
    cells::activate(s_.spec.activations[2], line, H);
    cells::product(dh, line, d_o, H);
    cells::product(dh, o, part, H);
    cells::derive(f_of, o, d_o, H);
    cells::derive(s_.spec.activations[2], line, part, H);
    cells::sum(dc, part, part, H);  // the gradient of c
    if (w.extra) cells::add_product(d_o, w.extra + H, part, H);
    cells::lstm_gradients(part, {i, f, g, before, di, df, dg, dc}, H);
    if (s_.spec.input_forget) {
      for (int64_t j = 0; j < H; ++j) di[j] -= df[j];
      std::fill_n(df, H, T(0));
    } else {
      cells::derive(f_of, f, df, H);
    }
    cells::derive(f_of, i, di, H);
    cells::derive(s_.spec.activations[1], g, dg, H);
    for (int64_t j = 0; w.extra && j < H; ++j)
      dc[j] += di[j] * w.extra[j] + df[j] * w.extra[2 * H + j];
    std::fill_n(dh, H, T(0));
  }

  void gru(Work& w, int64_t row, const T* gates, const T* states, T* dx, T* dproducts) {
    const int64_t H = s_.state;
    T* const dh = w.dh + row * H;
    const T* const before = w.h + row * H;
    const T *const z = gates, *const r = z + H, *const n = r + H;
    T *const dz = dx, *const dr = dz + H, *const dn = dr + H;
    for (int64_t j = 0; j < H; ++j) {
      dn[j] = dh[j] * (1 - z[j]);
      dz[j] = dh[j] * (before[j] - n[j]);
      dh[j] = dh[j] * z[j];
    }
    cells::derive(s_.spec.activations[1], n, dn, H);
    cells::derive(s_.spec.activations[0], z, dz, H);
    if (!s_.spec.linear_before_reset) return;  // reset() does the rest
    cells::product(dn, states, dr, H);
    cells::derive(s_.spec.activations[0], r, dr, H);
    std::copy_n(dx, 2 * H, dproducts);
    cells::product(dn, r, dproducts + 2 * H, H);
  }

  // w.sum is the gradient of the state after the reset.
  void reset(KernelContext& context, const TileRows<T>& rows, Work& w, int64_t t, int64_t row) {
    const int64_t H = s_.state;
    const T* const r = gates_at(context, rows, w, t, row) + H;
    T* const dr = w.dx + row * s_.columns + H;
    for (int64_t j = 0; j < H; ++j) {
      const T sum = w.sum[row * H + j];
      dr[j] = sum * w.h[row * H + j];
      w.dh[row * H + j] += sum * r[j];
    }
    cells::derive(s_.spec.activations[0], r, dr, H);
  }
};

Result<RecurrentSpec> spec_of(const KernelSetup& setup) {
  auto spec = recurrent_spec(setup.attrs());
  if (spec.ok()) return spec;
  return invalid_argument(cat(setup.subject, ": ", spec.status().message()));
}

// The kernel K<T, E>, with `narrow` for its products.
template <template <typename, typename> class K, typename T, typename E>
Result<std::unique_ptr<Kernel>> make_kernel(const KernelSetup& setup,
                                            std::unique_ptr<NarrowProducts> narrow = nullptr) {
  LEAT_ASSIGN_OR_RETURN(RecurrentSpec spec, spec_of(setup));
  return std::unique_ptr<Kernel>(
      std::make_unique<K<T, E>>(setup, std::move(spec), std::move(narrow)));
}

template <template <typename, typename> class K>
Result<std::unique_ptr<Kernel>> make_narrow(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const RecurrentSpec spec, spec_of(setup));
  if (spec.resets_first())
    return unimplemented(cat(setup.subject, ": products of a part of the gates"));
  LEAT_ASSIGN_OR_RETURN(auto products, (K<float, BFloat16>::narrow_products(setup)));
  return make_kernel<K, float, BFloat16>(setup, std::move(products));
}

template <template <typename, typename> class K>
Result<std::unique_ptr<Kernel>> make_of_type(const KernelSetup& setup) {
  const DType dtype = setup.input(0).dtype;
  if (dtype == DType::bf16 && onednn::is_fast_in_bf16()) {
    auto kernel = make_narrow<K>(setup);
    if (kernel.status().code() != Code::unimplemented) return kernel;
  }
  if (is_16bit_float(dtype)) return compute_in_f32(setup, make_of_type<K>);
  if (dtype == DType::f64) return make_kernel<K, double, double>(setup);
  return make_kernel<K, float, float>(setup);
}

}  // namespace

Result<std::unique_ptr<Kernel>> make_bf16_recurrent_kernel(const KernelSetup& setup) {
  return make_narrow<RecurrentKernel>(setup);
}
Result<std::unique_ptr<Kernel>> make_bf16_recurrent_grad_kernel(const KernelSetup& setup) {
  return make_narrow<RecurrentGradKernel>(setup);
}

void add_recurrent_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Recurrent", "cpu", make_of_type<RecurrentKernel>);
  catalogue.add_kernel("leat.RecurrentGrad", "cpu", make_of_type<RecurrentGradKernel>);
}

}  // namespace leat
