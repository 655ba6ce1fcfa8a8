// The cases of determinants, Fourier transforms, caches of sequences, and bits of numbers.
#include "tests/ops/conformance_more_cases.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

uint64_t signal_seed = 0;  // from 5000 in each table

Tensor signal(const Shape& shape, double low = -2, double high = 2) {
  return random_tensor(DType::f32, shape, ++signal_seed, low, high);
}

void add_determinants(std::vector<ConformanceCase>& cases) {
  cases.push_back(ConformanceCase{"Det", {signal({kBatch, 3, 3})}}.grad({0}));
  cases.push_back(ConformanceCase{"Det", {signal({kBatch, 2, 1, 1})}}.grad({0}));
  cases.push_back(ConformanceCase{"Det", {signal({4, 4})}}.grad({0}));
  cases.push_back({"Det", {signal({kBatch, 40, 40}, -0.2, 0.2)}});
  cases.push_back({"leat.DetGrad", {signal({kBatch}), signal({kBatch, 3, 3})}});
  cases.push_back({"leat.DetGrad", {signal({kBatch}, 0, 1), signal({kBatch, 30, 30}, -0.2, 0.2)}});
}

void add_transforms(std::vector<ConformanceCase>& cases) {
  const Attrs inverse{{"inverse", int64_t{1}}}, one_side{{"onesided", int64_t{1}}},
      real{{"inverse", int64_t{1}}, {"onesided", int64_t{1}}};
  const auto add = [&](Tensor x, const Attrs& attrs, Tensor length = {}, Tensor axis = {}) {
    cases.push_back(ConformanceCase{"DFT", {std::move(x), length, axis}, attrs}.grad({0}));
  };
  const auto number = [](int64_t value) { return Tensor::scalar<int64_t>(value); };
  // Lengths of small factors, and primes; longer and shorter than the signal.
  for (const Attrs& attrs : {Attrs{}, inverse}) {
    add(signal({kBatch, 6, 2}), attrs);
    add(signal({kBatch, 6, 1}), attrs, number(13));
    add(signal({kBatch, 5, 2, 2}), attrs, number(4), number(1));
  }
  add(signal({kBatch, 5, 1}), one_side);
  add(signal({kBatch, 5, 3, 1}), one_side, number(8), number(-3));
  add(signal({kBatch, 9, 1}), one_side, number(6));
  add(signal({kBatch, 4, 2}), real, number(6));
  add(signal({kBatch, 4, 2}), real, number(7));
  add(signal({kBatch, 6, 2}), real, number(5));
  cases.push_back(ConformanceCase{"DFT", {signal({kBatch, 3, 2}), Tensor(), number(0)}}
                      .grad({0})
                      .known_batch()
                      .whole());
  cases.push_back({"DFT", {signal({kBatch, 720, 1})}, one_side});
  cases.push_back({"DFT", {signal({kBatch, 521, 2})}});
  const Tensor like = signal({kBatch, 6, 2}), shape = ints({kBatch, 6, 2});
  cases.push_back(ConformanceCase{"leat.DFTGrad", {signal({kBatch, 6, 2}), like}}.grad({0}));
  cases.push_back(ConformanceCase{"leat.DFTGrad", {signal({kBatch, 8, 1}), shape, number(8)}, real}
                      .grad({0})
                      .known_batch()
                      .whole());
}

void add_caches(std::vector<ConformanceCase>& cases) {
  Tensor places(DType::i64, {kBatch});
  for (int64_t i = 0; i < kBatch; ++i) places.set(i, static_cast<double>(i % 4));
  const Attrs circular{{"mode", std::string("circular")}, {"axis", int64_t{1}}};
  const auto cache = [](int64_t size) { return signal({kBatch, 2, size, 3}); };
  cases.push_back(ConformanceCase{"TensorScatter", {cache(5), cache(2), places}}.grad({0, 1}));
  cases.push_back(ConformanceCase{"TensorScatter", {cache(5), cache(2)}}.grad({0, 1}));
  const Tensor wide = signal({kBatch, 4, 3}), news = signal({kBatch, 3, 3});
  cases.push_back(ConformanceCase{"TensorScatter", {wide, news, places}, circular}.grad({0, 1}));
  cases.push_back({"TensorScatter", {signal({kBatch, 90, 70}), signal({kBatch, 40, 70}), places}});
  cases.push_back({"leat.TensorScatterGrad", {cache(5), cache(2), places}, {}, 2});
  cases.push_back(
      ConformanceCase{"leat.TensorScatterGrad", {wide, ints({kBatch, 3, 3}), places}, circular, 2});
}

// A rule of LinearAttention, with 2 heads of keys of 3 and of values of 2 elements.
void add_linear_attention(std::vector<ConformanceCase>& cases) {
  const auto add = [&](const char* rule, int64_t query_heads, int64_t steps, Tensor past,
                       int64_t decays, int64_t betas) {
    const Attrs attrs{{"update_rule", std::string(rule)},
                      {"q_num_heads", query_heads},
                      {"kv_num_heads", int64_t{2}}};
    const auto gate = [&](int64_t size, double low, double high) {
      return size == 0 ? Tensor() : signal({kBatch, steps, size}, low, high);
    };
    const std::vector<Tensor> inputs{signal({kBatch, steps, 3 * query_heads}),
                                     signal({kBatch, steps, 6}, -0.6, 0.6),
                                     signal({kBatch, steps, 4}),
                                     std::move(past),
                                     gate(decays, -1, 0),
                                     gate(betas, 0.1, 0.9)};
    std::vector<int> of;
    for (int i = 0; i < 6; ++i) {
      if (inputs[static_cast<size_t>(i)].valid()) of.push_back(i);
    }
    const int outputs = of.back() + 1;
    cases.push_back(ConformanceCase{"LinearAttention", inputs, attrs, 2}.grad(of));
    std::vector<Tensor> back = inputs;
    back.push_back(signal({kBatch, steps, 2 * query_heads}));
    back.push_back(signal({kBatch, 2, 3, 2}));
    cases.push_back({"leat.LinearAttentionGrad", back, attrs, outputs});
  };
  add("linear", 2, 3, {}, 0, 0);
  add("gated", 4, 5, signal({kBatch, 2, 3, 2}), 6, 0);
  add("delta", 2, 4, signal({kBatch, 2, 3, 2}), 0, 2);
  add("gated_delta", 2, 6, {}, 2, 1);
}

// Words are numbers from 0 to 4.
void add_n_grams(std::vector<ConformanceCase>& cases) {
  const auto attrs = [](const char* mode, int64_t most_skipped, std::vector<double> weights) {
    Attrs all{{"min_gram_length", int64_t{1}},
              {"max_gram_length", int64_t{3}},
              {"max_skip_count", most_skipped},
              {"mode", std::string(mode)},
              {"ngram_counts", std::vector<int64_t>{0, 2, 6}},
              {"ngram_indexes", std::vector<int64_t>{0, 3, 1, 4, 2}},
              {"pool_int64s", std::vector<int64_t>{1, 4, 1, 2, 4, 4, 0, 1, 2}}};
    if (!weights.empty()) all["weights"] = std::move(weights);
    return all;
  };
  const Tensor words = random_tensor(DType::i64, {kBatch, 40}, 5100, 0, 5);
  cases.push_back({"TfIdfVectorizer", {words}, attrs("TF", 0, {})});
  cases.push_back({"TfIdfVectorizer", {words}, attrs("TFIDF", 3, {1, 2, 0.5, -1, 3})});
  cases.push_back({"TfIdfVectorizer", {words.cast(DType::i32)}, attrs("IDF", 1, {})});
  cases.push_back({"TfIdfVectorizer", {ints({1, 2, 1, 2, 0})}, attrs("IDF", 1, {1, 2, 3, 4, 5})});
}

// Two trees: one of two nodes and a set, and one that is a leaf.
void add_trees(std::vector<ConformanceCase>& cases) {
  for (const int64_t aggregate : {0, 1, 2, 3}) {
    cases.push_back({"leat.TreeEnsemble",
                     {signal({kBatch, 3})},
                     {{"roots", std::vector<int64_t>{0, -2}},
                      {"features", std::vector<int64_t>{1, 2, 0}},
                      {"modes", std::vector<int64_t>{0, 3, 6}},
                      {"splits", std::vector<double>{0.25, -0.5, 0}},
                      {"yes", std::vector<int64_t>{1, -1, -3}},
                      {"no", std::vector<int64_t>{2, -2, -4}},
                      {"missing", std::vector<int64_t>{0, 1, 0}},
                      {"leaf_targets", std::vector<int64_t>{0, 1, 1, 0}},
                      {"leaf_weights", std::vector<double>{1, -2, 0.5, 4}},
                      {"targets", int64_t{2}},
                      {"members", std::vector<double>{1, 0}},
                      {"member_ends", std::vector<int64_t>{2}},
                      {"aggregate", aggregate}}});
  }
}

}  // namespace

void add_signal_cases(std::vector<ConformanceCase>& cases) {
  signal_seed = 5000;
  add_determinants(cases);
  add_transforms(cases);
  add_caches(cases);
  add_linear_attention(cases);
  add_n_grams(cases);
  add_trees(cases);
  cases.push_back(ConformanceCase{"leat.Widen", {signal({kBatch, 5, 3})}}.grad({0}));
  for (const int64_t to : {1, 6, 12}) {
    cases.push_back(ConformanceCase{"BitCast", {signal({kBatch, 5, 3})}, {{"to", to}}}.one_dtype());
  }
  cases.push_back({"Multinomial", {signal({kBatch, 5})}, {{"sample_size", int64_t{7}}}});
  cases.push_back({"Multinomial",
                   {signal({kBatch, 300})},
                   {{"sample_size", int64_t{200}}, {"dtype", int64_t{7}}, {"seed", 3.0}}});
}

}  // namespace leat::testing
