#include <cmath>

#include "tests/catch.h"
#include "tests/ops/job_testing.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using testing::TestJob;

// The formulas of torch.optim's documentation, for one weight after the other, in double.
struct Reference {
  double lr = 0, weight_decay = 0, momentum = 0;
  double beta_1 = 0.9, beta_2 = 0.999, epsilon = 1e-8;
  bool nesterov = false;
  std::vector<double> velocity, m, v;  // empty until the first step, as in PyTorch

  void sgd(std::vector<double>& weights, const std::vector<double>& grads) {
    const bool first = velocity.empty();
    velocity.resize(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      double g = grads[i];
      if (weight_decay != 0) g = g + weight_decay * weights[i];
      if (momentum != 0) {
        velocity[i] = first ? g : momentum * velocity[i] + g;
        g = nesterov ? g + momentum * velocity[i] : velocity[i];
      }
      weights[i] = weights[i] - lr * g;
    }
  }

  void adam(std::vector<double>& weights, const std::vector<double>& grads, int t, bool decoupled) {
    m.resize(weights.size());
    v.resize(weights.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      double g = grads[i];
      if (decoupled) {
        weights[i] = weights[i] - lr * weight_decay * weights[i];
      } else {
        g = g + weight_decay * weights[i];
      }
      m[i] = beta_1 * m[i] + (1 - beta_1) * g;
      v[i] = beta_2 * v[i] + (1 - beta_2) * g * g;
      const double m_hat = m[i] / (1 - std::pow(beta_1, t));
      const double v_hat = v[i] / (1 - std::pow(beta_2, t));
      weights[i] = weights[i] - lr * m_hat / (std::sqrt(v_hat) + epsilon);
    }
  }
};

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values;
  for (int64_t i = 0; i < tensor.elements(); ++i) values.push_back(tensor.at(i));
  return values;
}

// A variable with its slots, and the node that updates it.
struct Apply {
  TestJob job;
  DType dtype;
  Shape shape;
  ValueId grad, lr, step = kNone, guard = kNone;
  NodeId node;

  Apply(const std::string& op, std::vector<std::string> slots, DType dtype_, int64_t elements,
        Attrs attrs, bool guarded = false)
      : dtype(dtype_), shape{elements} {
    std::vector<ValueId> inputs = {job.variable("w", dtype, {elements})};
    for (const auto& slot : slots) inputs.push_back(job.variable(slot, dtype, {elements}));
    inputs.push_back(grad = job.input("grad", dtype, shape));
    inputs.push_back(lr = job.input("lr", dtype, Shape()));
    if (slots.size() == 2) inputs.push_back(step = job.input("step", DType::i64, Shape()));
    if (guarded) {
      inputs.push_back(kNone);  // without ids
      inputs.push_back(guard = job.input("guard", DType::f32, Shape()));
    }
    node = job.add_node(op, inputs, std::move(attrs), 1);
  }
  Tensor state(const std::string& name) { return job.state(name, dtype, shape); }
  void update(const Tensor& gradient, double rate, int64_t steps_before = 0, float guarding = 0) {
    std::map<ValueId, Tensor> feeds = {{grad, gradient}, {lr, Tensor::scalar_of(dtype, rate)}};
    if (step != kNone) feeds[step] = Tensor::scalar(steps_before);
    if (guard != kNone) feeds[guard] = Tensor::scalar(guarding);
    job.run(feeds, {}, {node});
  }
};

constexpr int kSteps = kSlowness > 1 ? 10 : 50;
constexpr int64_t kElements = 33'000;  // two tiles

struct Case {
  std::string op;
  std::vector<std::string> slots;
  Attrs attrs;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const double decay : {0.0, 0.05}) {
    out.push_back({"leat.ApplySgd", {}, {{"weight_decay", decay}}});
    for (const int64_t nesterov : {0, 1}) {
      out.push_back({"leat.ApplyMomentum",
                     {"velocity"},
                     {{"momentum", 0.9}, {"nesterov", nesterov}, {"weight_decay", decay}}});
    }
    for (const auto* op : {"leat.ApplyAdam", "leat.ApplyAdamW"}) {
      out.push_back({op, {"m", "v"}, {{"weight_decay", decay}}});
      out.push_back(
          {op,
           {"m", "v"},
           {{"weight_decay", decay}, {"beta_1", 0.7}, {"beta_2", 0.95}, {"epsilon", 1e-3}}});
    }
  }
  return out;
}

// Returns the largest difference of a weight after kSteps with a changing learning rate, relative
// to the larger of 1 and the weight.
double worst_difference(const Case& c, DType dtype) {
  Apply apply(c.op, c.slots, dtype, kElements, c.attrs);
  Reference reference;
  reference.weight_decay = attr_float(c.attrs, "weight_decay");
  reference.momentum = attr_float(c.attrs, "momentum");
  reference.nesterov = attr_int(c.attrs, "nesterov") != 0;
  reference.beta_1 = attr_float(c.attrs, "beta_1", 0.9);
  reference.beta_2 = attr_float(c.attrs, "beta_2", 0.999);
  reference.epsilon = attr_float(c.attrs, "epsilon", 1e-8);
  const Tensor start = testing::random_tensor(dtype, apply.shape, 7);
  std::memcpy(apply.state("w").raw(), start.raw(), start.bytes());
  std::vector<double> expected = values_of(start);
  for (int t = 1; t <= kSteps; ++t) {
    const Tensor grad = testing::random_tensor(dtype, apply.shape, 100 + static_cast<uint64_t>(t));
    reference.lr = Tensor::scalar_of(dtype, 0.01 * (1 + t % 3)).at(0);
    apply.update(grad, reference.lr, t - 1);
    if (c.slots.size() == 2) {
      reference.adam(expected, values_of(grad), t, c.op == "leat.ApplyAdamW");
    } else {
      reference.sgd(expected, values_of(grad));
    }
  }
  double worst = 0;
  const Tensor weights = apply.state("w");
  for (int64_t i = 0; i < kElements; ++i) {
    const double e = expected[static_cast<size_t>(i)];
    worst = std::max(worst, std::abs(weights.at(i) - e) / std::max(1.0, std::abs(e)));
  }
  return worst;
}

TEST_CASE("optimizers follow torch.optim over many steps") {
  for (const Case& c : cases()) {
    INFO(c.op << ", weight_decay " << attr_float(c.attrs, "weight_decay") << ", nesterov "
              << attr_int(c.attrs, "nesterov") << ", beta_1 " << attr_float(c.attrs, "beta_1"));
    CHECK(worst_difference(c, DType::f64) < 1e-11);
    CHECK(worst_difference(c, DType::f32) < 2e-5);
  }
}

TEST_CASE("the weight decay of AdamW is 0.01 unless told otherwise, and Adam's is 0") {
  for (const auto& [op, expected] : {std::pair{"leat.ApplyAdam", 2.0}, {"leat.ApplyAdamW", 1.98}}) {
    Apply apply(op, {"m", "v"}, DType::f64, 1, {});
    apply.state("w").set(0, 2);
    apply.update(Tensor::of<double>({1}, {0}), 1.0);  // a zero gradient: only decay
    CHECK(apply.state("w").at(0) == Approx(expected).epsilon(1e-15));
  }
}

TEST_CASE("the first steps of momentum are those worked out by hand") {
  Apply plain("leat.ApplyMomentum", {"velocity"}, DType::f64, 1, {{"momentum", 0.5}});
  Apply nesterov("leat.ApplyMomentum", {"velocity"}, DType::f64, 1,
                 {{"momentum", 0.5}, {"nesterov", int64_t{1}}});
  for (Apply* apply : {&plain, &nesterov}) {
    apply->update(Tensor::of<double>({1}, {1}), 1);
    apply->update(Tensor::of<double>({1}, {1}), 1);
    CHECK(apply->state("velocity").at(0) == 1.5);
  }
  CHECK(plain.state("w").at(0) == -2.5);      // 1 + 1.5
  CHECK(nesterov.state("w").at(0) == -3.25);  // (1 + 0.5) + (1 + 0.75)
}

TEST_CASE("Adam's first step moves each weight by the learning rate") {
  Apply apply("leat.ApplyAdam", {"m", "v"}, DType::f64, 2, {{"epsilon", 0.0}});
  apply.update(Tensor::of<double>({2}, {3, -0.001}), 0.25);
  CHECK(apply.state("w").at(0) == Approx(-0.25));
  CHECK(apply.state("w").at(1) == Approx(0.25));
  CHECK(apply.state("m").at(0) == Approx(0.3));
  CHECK(apply.state("v").at(0) == Approx(0.009));
}

TEST_CASE("the order of an optimizer's tiles does not matter") {
  for (const Case& c : cases()) {
    Apply forward(c.op, c.slots, DType::f32, kElements, c.attrs);
    Apply backward(c.op, c.slots, DType::f32, kElements, c.attrs);
    backward.job.reverse_tiles = true;
    for (int t = 0; t < 3; ++t) {
      const Tensor grad =
          testing::random_tensor(DType::f32, forward.shape, 5 + static_cast<uint64_t>(t));
      forward.update(grad, 0.1, t);
      backward.update(grad, 0.1, t);
    }
    testing::check_identical(forward.state("w"), backward.state("w"));
    for (const auto& slot : c.slots)
      testing::check_identical(forward.state(slot), backward.state(slot));
  }
}

TEST_CASE("half types are updated in float and rounded once") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Case& c : cases()) {
      INFO(c.op << " " << dtype);
      Apply half(c.op, c.slots, dtype, 100, c.attrs);
      Apply single(c.op, c.slots, DType::f32, 100, c.attrs);
      const Tensor start = testing::random_tensor(dtype, half.shape, 3);
      const Tensor grad = testing::random_tensor(dtype, half.shape, 4);
      std::memcpy(half.state("w").raw(), start.raw(), start.bytes());
      std::memcpy(single.state("w").raw(), start.cast(DType::f32).raw(), single.state("w").bytes());
      half.update(grad, 0.125);  // exact in both types
      single.update(grad.cast(DType::f32), 0.125);
      testing::check_identical(half.state("w"), single.state("w").cast(dtype));
      for (const auto& slot : c.slots) {
        testing::check_identical(half.state(slot), single.state(slot).cast(dtype));
      }
    }
  }
}

TEST_CASE("a variable without elements is updated") {
  for (const Case& c : cases()) {
    Apply apply(c.op, c.slots, DType::f32, 0, c.attrs);
    apply.update(Tensor(DType::f32, {0}), 0.1);
  }
}

TEST_CASE("a negative step fails the update and changes nothing") {
  Apply apply("leat.ApplyAdam", {"m", "v"}, DType::f32, 1, {});
  const auto result = apply.job.try_run({{apply.grad, Tensor::of<float>({1}, {1})},
                                         {apply.lr, Tensor::scalar(0.1f)},
                                         {apply.step, Tensor::scalar<int64_t>(-1)}},
                                        {}, {apply.node});
  REQUIRE(!result.ok());
  CHECK(result.status().code() == Code::invalid_argument);
  CHECK(result.status().message().find("expected >= 0, received -1") != std::string::npos);
  CHECK(apply.state("w").at(0) == 0);
}

TEST_CASE("hyperparameters out of range are refused") {
  const auto message = [](const Case& c) {
    Apply apply(c.op, c.slots, DType::f32, 1, c.attrs);
    const Status status = validate(apply.job.graph);
    CHECK(status.code() == Code::invalid_argument);
    return status.message();
  };
  const std::vector<std::string> slots = {"m", "v"};
  CHECK(message({"leat.ApplySgd", {}, {{"weight_decay", -0.1}}}).find("weight_decay") !=
        std::string::npos);
  CHECK(message({"leat.ApplySgd", {}, {{"weight_decay", std::nan("")}}}).find("weight_decay") !=
        std::string::npos);
  CHECK(message({"leat.ApplyMomentum", {"velocity"}, {}}).find("'momentum' (float) is missing") !=
        std::string::npos);
  CHECK(message({"leat.ApplyMomentum", {"velocity"}, {{"momentum", -0.5}}}).find("received -0.5") !=
        std::string::npos);
  CHECK(message({"leat.ApplyMomentum", {"velocity"}, {{"momentum", 0.0}, {"nesterov", int64_t{1}}}})
            .find("nesterov") != std::string::npos);
  CHECK(message({"leat.ApplyAdam", slots, {{"beta_1", 1.0}}}).find("beta_1") != std::string::npos);
  CHECK(message({"leat.ApplyAdam", slots, {{"beta_2", -0.1}}}).find("beta_2") != std::string::npos);
  CHECK(message({"leat.ApplyAdamW", slots, {{"epsilon", -1.0}}}).find("epsilon") !=
        std::string::npos);
}

TEST_CASE("an update whose guard is NaN changes neither the variable nor its slots") {
  for (Case c : cases()) {
    for (const int64_t lazy : {0, 1}) {
      c.attrs["lazy"] = lazy;
      INFO(c.op << ", lazy = " << lazy);
      Apply free(c.op, c.slots, DType::f32, 40, c.attrs);
      Apply guarded(c.op, c.slots, DType::f32, 40, c.attrs, true);
      const Tensor one = testing::random_tensor(DType::f32, {40}, 1);
      Tensor bad = testing::random_tensor(DType::f32, {40}, 2);
      bad.set(7, NAN);
      free.update(one, 0.1);
      guarded.update(one, 0.1);
      guarded.update(bad, 0.1, 1, NAN);
      free.update(one, 0.1, 2);
      guarded.update(one, 0.1, 2);
      testing::check_identical(guarded.state("w"), free.state("w"));
      for (const std::string& slot : c.slots)
        testing::check_identical(guarded.state(slot), free.state(slot));
    }
  }
}

TEST_CASE("slots, gradients and learning rates that do not fit are refused") {
  const auto message = [](const std::function<std::vector<ValueId>(TestJob&)>& inputs,
                          const std::string& op) {
    TestJob job;
    Attrs attrs;
    if (op == "leat.ApplyMomentum") attrs["momentum"] = 0.9;
    job.add_node(op, inputs(job), attrs);
    const Status status = validate(job.graph);
    CHECK(status.code() == Code::invalid_argument);
    return status.message();
  };
  const auto w = [](TestJob& job) { return job.variable("w", DType::f32, {2}); };
  const auto lr = [](TestJob& job) { return job.input("lr", DType::f32, {}); };
  const auto g = [](TestJob& job) { return job.input("g", DType::f32, {2}); };
  CHECK(message(
            [&](TestJob& job) {
              return std::vector{w(job), job.input("g", DType::f32, {3}), lr(job)};
            },
            "leat.ApplySgd")
            .find("expected float[2] as the variable is, received float[3]") != std::string::npos);
  CHECK(message(
            [&](TestJob& job) {
              return std::vector{w(job), g(job), job.input("lr", DType::f32, {1})};
            },
            "leat.ApplySgd")
            .find("lr: expected a scalar") != std::string::npos);
  CHECK(message(
            [&](TestJob& job) {
              return std::vector{w(job), g(job), lr(job), kNone, job.input("no", DType::f32, {1})};
            },
            "leat.ApplySgd")
            .find("guard: expected a scalar") != std::string::npos);
  CHECK(message(
            [&](TestJob& job) {
              return std::vector{w(job), g(job), job.input("lr", DType::f64, {})};
            },
            "leat.ApplySgd")
            .find("expected float") != std::string::npos);
  CHECK(
      message(
          [&](TestJob& job) {
            return std::vector{w(job), job.variable("velocity", DType::f32, {3}), g(job), lr(job)};
          },
          "leat.ApplyMomentum")
          .find("input 1: expected float[2] as variable 0 is, received float[3]") !=
      std::string::npos);
  CHECK(message(
            [&](TestJob& job) {
              return std::vector{w(job), w(job),  w(job),
                                 g(job), lr(job), job.input("step", DType::i64, {1})};
            },
            "leat.ApplyAdam")
            .find("step: expected a scalar") != std::string::npos);
  CHECK(message(
            [&](TestJob& job) {
              const ValueId i = job.variable("i", DType::i32, {2});
              return std::vector{i, job.input("gi", DType::i32, {2}),
                                 job.input("lri", DType::i32, {})};
            },
            "leat.ApplySgd")
            .find("expected one of") != std::string::npos);
}

}  // namespace
}  // namespace leat
