// NonZero, Unique, NonMaxSuppression and ImageDecoder, whose inputs are known before a step runs.
#include "devices/base/files.h"
#include "ops/images/image.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

Tensor floats(const std::vector<float>& values) {
  return Tensor::of<float>({static_cast<int64_t>(values.size())}, values);
}

TEST_CASE("NonZero has the indices of the elements that are not zero") {
  check_identical(run1("NonZero", {Tensor::of<int32_t>({2, 2}, {1, 0, 1, 1})}),
                  Tensor::of<int64_t>({2, 3}, {0, 1, 1, 0, 0, 1}));
  check_identical(run1("NonZero", {floats({0, -0.5f, 0, 2})}), Tensor::of<int64_t>({1, 2}, {1, 3}));
  check_identical(run1("NonZero", {Tensor(DType::f32, {3, 4})}), Tensor(DType::i64, {2, 0}));
  check_identical(run1("NonZero", {Tensor::scalar<bool>(true)}), Tensor(DType::i64, {0, 1}));
}

TEST_CASE("Unique has the elements once, with their first places and counts") {
  const Tensor x = floats({2, 1, 1, 3, 4, 3});
  const auto sorted = run("Unique", {x}, {}, 4);
  check_identical(sorted[0], floats({1, 2, 3, 4}));
  check_identical(sorted[1], ints({1, 0, 3, 4}));
  check_identical(sorted[2], ints({1, 0, 0, 2, 3, 2}));
  check_identical(sorted[3], ints({2, 1, 2, 1}));
  const auto found = run("Unique", {x}, {{"sorted", int64_t{0}}}, 4);
  check_identical(found[0], floats({2, 1, 3, 4}));
  check_identical(found[1], ints({0, 1, 3, 4}));
  check_identical(found[2], ints({0, 1, 1, 2, 3, 2}));
  check_identical(found[3], ints({1, 2, 2, 1}));
  const Tensor big = Tensor::of<uint64_t>({3}, {uint64_t{1} << 63, 7, uint64_t{1} << 63});
  check_identical(run("Unique", {big}, {}, 4)[0],
                  Tensor::of<uint64_t>({2}, {7, uint64_t{1} << 63}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_identical(run("Unique", {floats({nan, 1, nan})}, {}, 4)[3], ints({1, 2}));
}

TEST_CASE("Unique along an axis compares slices") {
  const Tensor x = Tensor::of<float>({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1});
  for (const int64_t axis : {1, -2}) {
    const auto out = run("Unique", {x}, {{"axis", axis}}, 4);
    check_identical(out[0], Tensor::of<float>({2, 3, 2}, {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1}));
    check_identical(out[1], ints({1, 0, 2}));
    check_identical(out[2], ints({1, 0, 2, 0}));
    check_identical(out[3], ints({2, 1, 1}));
  }
  CHECK_THAT(
      run_error("Unique", {Tensor(DType::f32, {1 << 30, 0})}, {{"axis", int64_t{0}}}, 4).message(),
      Catch::Contains("expected at most 4096 slices along the axis, received 1073741824"));
  CHECK_THAT(run_error("Unique", {x}, {{"axis", int64_t{3}}}, 4).message(),
             Catch::Contains("axis: expected in [-3, 2], received 3"));
}

TEST_CASE("NonMaxSuppression keeps the best of boxes that overlap") {
  const Tensor boxes = Tensor::of<float>({1, 3, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11});
  const Tensor scores = Tensor::of<float>({1, 2, 3}, {0.9f, 0.75f, 0.6f, 0.1f, 0.8f, 0.8f});
  const Tensor most = Tensor::of<int64_t>({1}, {3}), half = floats({0.5f});
  check_identical(run1("NonMaxSuppression", {boxes, scores, most, half}),
                  Tensor::of<int64_t>({4, 3}, {0, 0, 0, 0, 0, 2, 0, 1, 1, 0, 1, 2}));
  check_identical(run1("NonMaxSuppression", {boxes, scores, most, half, floats({0.65f})}),
                  Tensor::of<int64_t>({3, 3}, {0, 0, 0, 0, 1, 1, 0, 1, 2}));
  check_identical(run1("NonMaxSuppression", {boxes, scores}), Tensor(DType::i64, {0, 3}));
  const Tensor none(DType::f32, {1 << 30, 0, 4}), no_scores(DType::f32, {1 << 30, 1 << 9, 0});
  check_identical(run1("NonMaxSuppression", {none, no_scores, most}), Tensor(DType::i64, {0, 3}));
  CHECK_THAT(run_error("NonMaxSuppression", {boxes, boxes}).message(),
             Catch::Contains("expected boxes of [N,B,4] and scores of [N,C,B], received [1,3,4]"));
}

TEST_CASE("ImageDecoder has the pixels of an image, and an error for other bytes") {
  const Bytes bytes =
      must(read_file(real_files(), LEAT_SOURCE_DIR "/tests/ops/images/bits.png", 1 << 20));
  Tensor stream(DType::u8, {static_cast<int64_t>(bytes.size())});
  std::memcpy(stream.raw(), bytes.data(), bytes.size());
  const Image image = must(decode_image(bytes, 3));
  const Tensor rgb = run1("ImageDecoder", {stream});
  const Tensor bgr = run1("ImageDecoder", {stream}, {{"pixel_format", std::string("BGR")}});
  REQUIRE(rgb.shape() == Shape{image.view().height, image.view().width, 3});
  for (int64_t i = 0; i < rgb.elements(); ++i) {
    CHECK(rgb.int_at(i) == image.view().pixels[i / 3 / image.view().width * image.view().stride +
                                               i % (3 * image.view().width)]);
    CHECK(bgr.int_at(i - i % 3 + 2 - i % 3) == rgb.int_at(i));
  }
  const Attrs gray{{"pixel_format", std::string("Grayscale")}};
  CHECK(run1("ImageDecoder", {stream}, gray).shape() ==
        Shape{image.view().height, image.view().width, 1});
  CHECK_THAT(run_error("ImageDecoder", {Tensor(DType::u8, {7})}).message(),
             Catch::Contains("ImageDecoder"));
  CHECK_THAT(run_error("ImageDecoder", {stream}, {{"pixel_format", std::string("CMYK")}}).message(),
             Catch::Contains("pixel_format: expected 'RGB', 'BGR' or 'Grayscale'"));
}

TEST_CASE("a size that depends on a fed value is refused with the way out") {
  const auto outcome = infer("NonZero", {tensor_type(DType::f32, {Dim::of(4)})});
  REQUIRE_FALSE(outcome.ok());
  CHECK_THAT(outcome.status().message(),
             Catch::Contains("NonZero") &&
                 Catch::Contains("the size of its output depends on the value of input 0: expected "
                                 "a constant of at most 4096 elements, or an input of the model "
                                 "that is fixed at import; received a value that a step computes"));
}

// The graph y = NODE (x, c), with c fixed.
Result<Graph> fixed_graph(const std::string& node, const Tensor& c) {
  return parse_graph(
      "<ir_version: 10, opset_import: [\"\" : 23]>\ng (float[N, 3] x, bool[K] c) => (y) {\n  y = " +
          node + "\n}\n",
      test_catalogue(), "g", {{"c", c}});
}

TEST_CASE("Compress picks what a fixed condition chooses") {
  Graph graph =
      must(fixed_graph("Compress <axis = 1> (x, c)", Tensor::of<bool>({3}, {true, false, true})));
  REQUIRE(graph.inputs().size() == 1);
  REQUIRE(validate(graph).ok());
  CHECK(graph.type_text(graph.value(graph.outputs()[0]).type).find("N,2") != std::string::npos);
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto values = must(interpret(graph, {{graph.inputs()[0], x}}, graph.outputs()));
  check_identical(values[0], Tensor::of<float>({2, 2}, {1, 3, 4, 6}));
  Graph flat = must(fixed_graph("Compress (x, c)", Tensor::of<bool>({2}, {false, true})));
  const auto second = must(interpret(flat, {{flat.inputs()[0], x}}, flat.outputs()));
  check_identical(second[0], floats({2}));
}

}  // namespace
}  // namespace leat::testing
