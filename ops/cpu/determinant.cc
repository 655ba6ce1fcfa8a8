// CPU kernels of ops/definitions/determinant.cc. Both factor each matrix in doubles. A tile is a
// stretch of matrices.
#include <algorithm>
#include <cmath>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/float_dispatch.h"
#include "ops/elements/tree_sum.h"

namespace leat {
namespace {

constexpr int64_t kWorkOfTile = 64 << 10;  // multiplications, about

// The matrices of a node: `count` of size x size, and as many of them in a tile as are worth it.
struct SquareMatrices {
  explicit SquareMatrices(const Shape& x)
      : size(x[x.rank() - 1]),
        count(x.elements(0, x.rank() - 2)),
        in_tile(std::max<int64_t>(1, kWorkOfTile / std::max<int64_t>(1, size * size * size))) {}
  int tiles() const { return tile_count(count, in_tile); }

  // Calls act(matrix) for each one of a tile.
  template <typename F>
  void each(int tile, F&& act) const {
    const int64_t first = tile * in_tile;
    for (int64_t i = first; i < std::min(count, first + in_tile); ++i) act(i);
  }

  int64_t size, count, in_tile;
};

template <typename T>
void load_matrix(const T* x, int64_t elements, double* a) {
  for (int64_t i = 0; i < elements; ++i) a[i] = static_cast<double>(load_as_compute(x[i]));
}

// Gaussian elimination with partial pivoting: the product of the pivots, negated for each exchange
// of rows.
double determinant_of(double* a, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
    }
    if (pivot != k) {
      std::swap_ranges(a + k * n + k, a + (k + 1) * n, a + pivot * n + k);
      product = -product;
    }
    product *= a[k * n + k];
    if (a[k * n + k] == 0) return product;  // every element of the column is 0
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = a[i * n + k] / a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return product;
}

template <typename T>
class DeterminantKernel final : public Kernel {
 public:
  explicit DeterminantKernel(const Shape& x) : m_(x) {}
  int tiles(int) const override { return m_.tiles(); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(m_.size * m_.size) * sizeof(double);
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t elements = m_.size * m_.size;
    auto* const a = reinterpret_cast<double*>(context.scratch);
    m_.each(tile, [&](int64_t i) {
      load_matrix(context.in<T>(0) + i * elements, elements, a);
      context.out<T>(0)[i] =
          store_from_compute<T>(static_cast<Compute<T>>(determinant_of(a, m_.size)));
    });
    return Progress::done;
  }

 private:
  const SquareMatrices m_;
};

// The factors of P A Q = L U with complete pivoting: L below the diagonal of `a`, whose own
// diagonal is of ones, and U above. Row i of P A is row rows[i] of A, and column j of A Q is column
// columns[j] of A.
struct CompleteFactors {
  double* a;
  int64_t* rows;
  int64_t* columns;
  int64_t n;
  double sign = 1;  // of P and Q together

  void exchange_rows(int64_t i, int64_t k) {
    if (i == k) return;
    std::swap_ranges(a + i * n, a + (i + 1) * n, a + k * n);
    std::swap(rows[i], rows[k]);
    sign = -sign;
  }
  void exchange_columns(int64_t j, int64_t k) {
    if (j == k) return;
    for (int64_t i = 0; i < n; ++i) std::swap(a[i * n + j], a[i * n + k]);
    std::swap(columns[j], columns[k]);
    sign = -sign;
  }
  // The largest element that is left goes to (k, k).
  void take_pivot(int64_t k) {
    int64_t row = k, column = k;
    for (int64_t i = k; i < n; ++i) {
      for (int64_t j = k; j < n; ++j) {
        if (std::abs(a[i * n + j]) > std::abs(a[row * n + column])) row = i, column = j;
      }
    }
    exchange_rows(row, k);
    exchange_columns(column, k);
  }
  void factor() {
    for (int64_t i = 0; i < n; ++i) rows[i] = columns[i] = i;
    for (int64_t k = 0; k + 1 < n; ++k) {
      take_pivot(k);
      if (a[k * n + k] == 0) return;  // all that is left is 0
      for (int64_t i = k + 1; i < n; ++i) {
        const double factor = a[i * n + k] /= a[k * n + k];
        for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      }
    }
  }
};

// The adjugate of U, which is upper triangular, into `out`. With U = [V u; 0 s], it is
// [s det(V) V^-1, -det(V) V^-1 u; 0, det(V)]. Complete pivoting leaves a V that is singular only if
// the rank of U is less than n - 1: the adjugate is 0 then. Nothing is divided by s, so a matrix of
// rank n - 1 needs no care.
void adjugate_of_upper(const double* u, int64_t n, double* out) {
  std::fill_n(out, n * n, 0.0);
  const int64_t m = n - 1;
  double product = 1;
  for (int64_t k = 0; k < m; ++k) product *= u[k * n + k];
  for (int64_t k = 0; k < m; ++k) {
    if (u[k * n + k] == 0) return;
  }
  const double last = n > 0 ? u[m * n + m] : 1;
  // Column j of V^-1 times s det(V), or for the last one V^-1 u times -det(V), by substitution.
  for (int64_t j = 0; j < n; ++j) {
    if (j == m) {
      out[m * n + m] = product;
      for (int64_t i = 0; i < m; ++i) out[i * n + m] = -product * u[i * n + m];
    } else {
      out[j * n + j] = product * last;
    }
    for (int64_t i = std::min(j, m - 1); i >= 0; --i) {
      double sum = out[i * n + j];
      for (int64_t k = i + 1; k < m && k <= j; ++k) sum -= u[i * n + k] * out[k * n + j];
      out[i * n + j] = sum / u[i * n + i];
    }
  }
}

// `x` becomes x L^-1, where L is below the diagonal of `l`, and the diagonal is of ones.
void divide_by_lower(const double* l, int64_t n, double* x) {
  for (int64_t i = 0; i < n; ++i) {
    double* const row = x + i * n;
    for (int64_t j = n; j-- > 0;) {
      for (int64_t k = 0; k < j; ++k) row[k] -= row[j] * l[j * n + k];
    }
  }
}

// dX = dy adj(X)^T, and adj(X) = sign Q adj(U) L^-1 P: it is right for singular matrices, too.
template <typename T>
class DeterminantGradKernel final : public Kernel {
 public:
  explicit DeterminantGradKernel(const Shape& x) : m_(x) {}
  int tiles(int) const override { return m_.tiles(); }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(2 * m_.size * m_.size) * sizeof(double) +
           static_cast<size_t>(2 * m_.size) * sizeof(int64_t);
  }
  Progress run(KernelContext& context, int, int tile) override {
    const int64_t n = m_.size;
    auto* const a = reinterpret_cast<double*>(context.scratch);
    double* const adjugate = a + n * n;
    auto* const rows = reinterpret_cast<int64_t*>(adjugate + n * n);
    m_.each(tile, [&](int64_t matrix) {
      load_matrix(context.in<T>(1) + matrix * n * n, n * n, a);
      CompleteFactors f{a, rows, rows + n, n};
      f.factor();
      adjugate_of_upper(a, n, adjugate);
      divide_by_lower(a, n, adjugate);
      const double dy = f.sign * static_cast<double>(load_as_compute(context.in<T>(0)[matrix]));
      T* const dx = context.out<T>(0) + matrix * n * n;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          dx[f.rows[j] * n + f.columns[i]] =
              store_from_compute<T>(static_cast<Compute<T>>(dy * adjugate[i * n + j]));
        }
      }
    });
    return Progress::done;
  }

 private:
  const SquareMatrices m_;
};

template <template <typename> class K>
Result<std::unique_ptr<Kernel>> make_determinant(const KernelSetup& setup) {
  const Shape& x = setup.types.inputs.back().shape;
  if (x[x.rank() - 1] != x[x.rank() - 2])
    return invalid_argument(
        cat(setup.subject, ": X: expected square matrices of [...,M,M], received ", x.to_string()));
  return dispatch_float(setup.input(0).dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<K<decltype(zero)>>(x);
  });
}

}  // namespace

void add_determinant_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Det", "cpu", make_determinant<DeterminantKernel>);
  catalogue.add_kernel("leat.DetGrad", "cpu", make_determinant<DeterminantGradKernel>);
}

}  // namespace leat
