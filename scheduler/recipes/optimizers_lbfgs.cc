// L-BFGS over all variables together, as torch.optim.LBFGS with max_iter=1 and no line search. With
// g the gradients of the step, all of them as one vector:
//
//   y = g minus those of the step before;  s = the step before
//   if s.y > 1e-10: the pair (s, y) joins the history, whose oldest pair goes; h = s.y / y.y
//   q = -g;  from the newest pair to the oldest: a_i = s_i.q / s_i.y_i;  q -= a_i * y_i
//   d = h * q;  from the oldest to the newest: d += s_i * (a_i - y_i.d / s_i.y_i)
//   step = lr * d, in the first step lr * min(1, 1 / |g|_1) * d, and 0 if g.d > -tolerance;  p +=
//   step
//
// Each part of a vector is where its variable is. A product of two vectors is a number for each
// variable, computed there, and the sum of these in the order of the variables: as the Sandblaster
// of Dean et al., Large Scale Distributed Deep Networks (2012), but to the bit the same on any
// number of workers. It needs the same rows in each step, or many, for pairs to mean something.
//
// Source: Nocedal, Updating Quasi-Newton Matrices with Limited Storage (1980).
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "scheduler/recipes/optimizers.h"

namespace leat {
namespace {

// A vector over all variables.
using Vector = std::vector<Expression>;

class LbfgsStep {
 public:
  explicit LbfgsStep(Update& first) : first_(first), pairs_(first.integer("history")) {}

  void run() {
    const Expression begun = less(0, first_.exact_state("lbfgs_steps"));
    Vector g, y, s;
    for (const auto& u : first_.all()) {
      g.push_back(u->gradient());
      y.push_back(g.back() - u->state("gradient"));
      s.push_back(u->state("step"));
    }
    learn(y, s);
    const Vector d = direction(g);
    const Expression norm = total([&](size_t i) { return abs(g[i]); });
    const Expression scale = where(begun, 1, min(1 / where(less(0, norm), norm, 1), 1)) *
                             where(less(-first_.number("tolerance"), dot(g, d)), 0, 1);
    for (size_t i = 0; i < d.size(); ++i) {
      Update& u = *first_.all()[i];
      const Expression step = d[i] * u.narrow(u.rate() * scale);
      u.set_state("gradient", g[i]);
      u.set_state("step", step);
      u.set_weight(u.weight() + step);
    }
    first_.set_state("lbfgs_steps", first_.exact_state("lbfgs_steps") + 1);
  }

 private:
  // The sum over all elements of all variables, in f64.
  template <typename Part>
  Expression total(const Part& part) {
    Expression all = 0;
    for (size_t i = 0; i < first_.all().size(); ++i) {
      const Expression one = cast(sum(first_.builder(), part(i)), DType::f64);
      all = all.is_number() ? one : all + one;
    }
    return all;
  }
  Expression dot(const Vector& a, const Vector& b) {
    return total([&](size_t i) { return a[i] * b[i]; });
  }
  // a + b * factor, a number of f64.
  Vector plus(const Vector& a, const Vector& b, const Expression& factor) {
    Vector out;
    for (size_t i = 0; i < a.size(); ++i) out.push_back(a[i] + b[i] * first_.narrow(factor));
    return out;
  }

  // Takes the newest pair into the history, the newest last. Pairs that are not there yet have a
  // quotient of 0, and so no effect.
  void learn(const Vector& y, const Vector& s) {
    const Expression ys = dot(y, s), accepted = less(1e-10, ys);
    const Expression before = first_.exact_state("lbfgs_scale");
    // 0 is a scale that is not there yet.
    scale_ = where(accepted, ys / where(accepted, dot(y, y), 1), where(less(0, before), before, 1));
    first_.set_state("lbfgs_scale", scale_);
    const auto kept = [&](const std::string& name, Update& u, const Expression& old,
                          const Expression& next) {
      const Expression value = where(accepted, next, old);
      u.set_state(name, value);
      return value;
    };
    for (int64_t i = 0; i < pairs_; ++i) {
      const bool last = i + 1 == pairs_;
      ys_.push_back(kept(cat("lbfgs_ys", i), first_, first_.exact_state(cat("lbfgs_ys", i)),
                         last ? ys : first_.exact_state(cat("lbfgs_ys", i + 1))));
      Vector& new_s = s_.emplace_back();
      Vector& new_y = y_.emplace_back();
      for (size_t v = 0; v < y.size(); ++v) {
        Update& u = *first_.all()[v];
        const auto moved = [&](const char* slot, const Expression& newest) {
          return kept(cat(slot, i), u, u.state(cat(slot, i)),
                      last ? newest : u.state(cat(slot, i + 1)));
        };
        new_s.push_back(moved("s", s[v]));
        new_y.push_back(moved("y", y[v]));
      }
    }
  }

  // x / s.y of a pair, 0 if it is not there.
  Expression over(const Expression& x, size_t pair) {
    const Expression there = less(0, ys_[pair]);
    return where(there, x / where(there, ys_[pair], 1), 0);
  }

  Vector direction(const Vector& g) {
    Vector q;
    for (const Expression& each : g) q.push_back(-each);
    std::vector<Expression> a(ys_.size(), 0);
    for (size_t i = ys_.size(); i-- > 0;) {
      a[i] = over(dot(s_[i], q), i);
      q = plus(q, y_[i], -a[i]);
    }
    Vector d;
    for (const Expression& each : q) d.push_back(each * first_.narrow(scale_));
    for (size_t i = 0; i < ys_.size(); ++i) d = plus(d, s_[i], a[i] - over(dot(y_[i], d), i));
    return d;
  }

  Update& first_;
  const int64_t pairs_;
  Expression scale_ = 1;
  std::vector<Vector> s_, y_;
  std::vector<Expression> ys_;  // their products
};

constexpr Setting kLbfgsSettings[] = {
    {.name = "history", .kind = SettingKind::integer, .initial = 10, .min = 1, .max = 100},
    not_negative("tolerance", 1e-9)};

void update_by_lbfgs(Update& u) {
  if (u.is_first()) LbfgsStep(u).run();
}

constexpr Optimizer kVectorOptimizers[] = {
    {.name = "lbfgs", .settings = kLbfgsSettings, .update = update_by_lbfgs},
};

}  // namespace

std::span<const Optimizer> vector_optimizers() { return kVectorOptimizers; }

}  // namespace leat
