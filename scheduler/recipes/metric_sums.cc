// The nodes of metrics: what a batch adds.
#include "scheduler/recipes/metrics.h"

namespace leat::metrics {

ValueId top_k_sums(MetricNodes& n) {
  const ValueId x = n.scores(), hot = n.hot_labels();
  const ValueId axes = n.g.constant(Tensor::of<int64_t>({1}, {1}));
  const auto across = [&](ValueId value) {
    return n.g.op("ReduceSum", {value, axes}, {{"keepdims", int64_t{1}}});
  };
  const ValueId is_own = n.g.op("Greater", {hot, n.number(0.5)});
  const ValueId own = across(n.g.op("Where", {is_own, x, n.number(0)}));
  // The place of the label: the classes that are greater, and the equal ones before it.
  std::vector<int64_t> numbers(static_cast<size_t>(n.classes()));
  for (size_t c = 0; c < numbers.size(); ++c) numbers[c] = static_cast<int64_t>(c);
  const ValueId all = n.g.constant(Tensor::of<int64_t>({1, n.classes()}, numbers));
  const ValueId before = n.g.op("Less", {all, n.labels()});
  const ValueId equal = n.g.op("And", {n.g.op("Equal", {x, own}), before});
  const ValueId ahead = n.g.op("Or", {n.g.op("Greater", {x, own}), equal});
  const ValueId place = across(n.to_f64(ahead));
  const ValueId hit = n.to_f64(n.g.op("Less", {place, n.number(n.settings->number("k"))}));
  return n.joined({n.down(n.mul(hit, n.counts())), n.down(n.counts())});
}

ValueId class_sums(MetricNodes& n) {
  const ValueId labels = n.mul(n.hot_labels(), n.counts());
  const ValueId predicted = n.mul(n.hot_predictions(), n.counts());
  const ValueId hits = n.mul(labels, n.hot_predictions());
  return n.joined({n.down(hits), n.down(predicted), n.down(labels)});
}

ValueId confusion_sums(MetricNodes& n) {
  const ValueId labels = n.mul(n.hot_labels(), n.counts());
  const ValueId turned = n.g.op("Transpose", {labels}, {{"perm", std::vector<int64_t>{1, 0}}});
  return n.reshape(n.g.op("MatMul", {turned, n.hot_predictions()}), {-1});
}

namespace {

// The scores of each label, and behind them its class, or -1 for one that does not count. Logits
// have the order of probabilities where there is one for each label.
ValueId scored_labels(MetricNodes& n) {
  const ValueId scores = n.is_binary() ? n.scores() : n.probabilities();
  const ValueId own = n.mul(n.to_f64(n.labels()), n.counts());
  const ValueId label = n.g.op("Add", {own, n.g.op("Sub", {n.counts(), n.number(1)})});
  return n.g.op("Concat", {scores, label}, {{"axis", int64_t{1}}});
}

}  // namespace

ValueId auc_sums(MetricNodes& n) {
  if (n.settings->flag("exact")) return scored_labels(n);
  const int64_t count = n.settings->integer("thresholds");
  Tensor thresholds(DType::f64, Shape{1, 1, count});
  for (int64_t t = 0; t < count; ++t)
    thresholds.set(t, static_cast<double>(t) / static_cast<double>(count - 1));
  const int64_t classes = n.is_binary() ? 1 : n.classes();
  const ValueId p = n.reshape(n.probabilities(), {-1, classes, 1});
  const ValueId above =
      n.to_f64(n.g.op("GreaterOrEqual", {p, n.g.constant(std::move(thresholds))}));
  const ValueId own = n.is_binary() ? n.to_f64(n.labels()) : n.hot_labels();
  const auto sums_of = [&](ValueId weights) {
    return n.down(n.mul(above, n.reshape(n.mul(weights, n.counts()), {-1, classes, 1})));
  };
  return n.joined({sums_of(own), sums_of(n.g.op("Sub", {n.number(1), own}))});
}

ValueId perplexity_sums(MetricNodes& n) {
  const ValueId each = n.g.op("SoftmaxCrossEntropyLoss", {n.logits(), n.reshape(n.labels(), {-1})},
                              {{"reduction", std::string("none")}});
  const ValueId sum = n.down(n.mul(n.reshape(each, {-1, 1}), n.counts()));
  return n.joined({sum, n.down(n.counts())});
}

namespace {

// The sums of one column of edits() and of the rows, or of another column.
ValueId sums_of_edits(MetricNodes& n, int64_t separator, int64_t column, bool by_labels) {
  const ValueId edits = n.edits(separator);
  const auto of = [&](int64_t i) {
    const auto at = [&](int64_t k) { return n.g.constant(Tensor::of<int64_t>({1}, {k})); };
    return n.mul(n.g.op("Slice", {edits, at(i), at(i + 1), at(1)}), n.rows());
  };
  return n.joined({n.down(of(column)), n.down(by_labels ? of(1) : n.rows())});
}

}  // namespace

ValueId edit_sums(MetricNodes& n) { return sums_of_edits(n, -1, 0, false); }

ValueId match_sums(MetricNodes& n) { return sums_of_edits(n, -1, 2, false); }

ValueId character_sums(MetricNodes& n) { return sums_of_edits(n, -1, 0, true); }

ValueId word_sums(MetricNodes& n) {
  return sums_of_edits(n, n.settings->integer("separator"), 0, true);
}

namespace {

// A sum over all elements, and the number of them.
ValueId sums_of_elements(MetricNodes& n, ValueId each) {
  const ValueId axes = n.g.constant(Tensor::of<int64_t>({1}, {1}));
  const ValueId mean = n.g.op("ReduceMean", {each, axes}, {{"keepdims", int64_t{1}}});
  return n.joined({n.down(n.mul(mean, n.rows())), n.down(n.rows())});
}

ValueId differences(MetricNodes& n) { return n.g.op("Sub", {n.outputs(), n.targets()}); }

}  // namespace

ValueId absolute_sums(MetricNodes& n) {
  return sums_of_elements(n, n.g.op("Abs", {differences(n)}));
}

ValueId squared_sums(MetricNodes& n) {
  const ValueId d = differences(n);
  return sums_of_elements(n, n.mul(d, d));
}

ValueId variance_sums(MetricNodes& n) {
  const ValueId d = differences(n), y = n.mul(n.targets(), n.rows());
  return n.joined({n.down(y), n.down(n.mul(y, n.targets())), n.down(n.mul(n.mul(d, d), n.rows())),
                   n.down(n.rows())});
}

}  // namespace leat::metrics
