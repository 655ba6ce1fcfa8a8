// Transforms as nodes: their values, what they draw, and that shards draw what the whole batch
// does.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/interpret.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "scheduler/graph/op_name.h"
#include "scheduler/graph/train_graph.h"
#include "scheduler/recipes/transform.h"
#include "scheduler/recipes/transform_builder.h"
#include "scheduler/recipes/transform_entries.h"
#include "tests/labelled_reader.h"
#include "tests/scheduler/scheduler_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using Arguments = std::map<std::string, std::vector<double>, std::less<>>;

// A transform with the defaults of its entry, and these arguments in their place.
Transform make_transform(const std::string& name, Arguments given = {}, std::string column = "") {
  Transform out{name, std::move(column), std::move(given)};
  for (const TransformArgument& argument : find_transform(name)->arguments) {
    out.arguments.try_emplace(std::string(argument.name), argument.initial.begin(),
                              argument.initial.end());
  }
  return out;
}

// A graph of transforms on the columns "image" and "labels".
struct TransformGraph {
  TransformGraph(const std::vector<Transform>& transforms, const ValueType& image_type,
                 DType label_type, TransformSetting setting, bool in_training = true)
      : graph(scheduler_catalogue()) {
    GraphBuilder g(graph);
    image = g.input("image", image_type.dtype, image_type.shape);
    labels = g.input("labels", label_type, {Dim::of(setting.rows)});
    std::vector<BatchColumn> columns{{"labels", labels}, {"image", image}};
    TransformBuilder builder(g, setting, columns);
    status = builder.apply(transforms, in_training);
    out_image = columns[1].value, out_labels = columns[0].value;
  }
  // The operand of the first node of this op.
  ValueId operand(std::string_view op, size_t i) const {
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      if (is_op(graph.node(id), op)) return graph.node(id).inputs[i];
    }
    FAIL("no node " << op);
    return kNone;
  }
  Graph graph;
  Status status;
  ValueId image = kNone, labels = kNone, out_image = kNone, out_labels = kNone;
};

TransformSetting setting_of(int64_t rows, double rescale = 1) {
  TransformSetting setting;
  setting.rows = rows, setting.rescale = rescale, setting.classes = 10;
  return setting;
}

struct Batches {
  Tensor image, labels;
};

Tensor all_labels(int64_t rows) {
  Tensor labels(DType::i64, {rows});
  for (int64_t i = 0; i < rows; ++i) labels.set(i, static_cast<double>(i % 10));
  return labels;
}

Tensor cut_rows(const Tensor& from, int64_t first, int64_t rows) {
  Shape shape = from.shape();
  shape.set(0, rows);
  Tensor out(from.dtype(), shape);
  const int64_t row = shape.elements(1, shape.rank());
  for (int64_t i = 0; i < rows * row; ++i) out.set(i, from.at(first * row + i));
  return out;
}

// Applies transforms as a shard does whose rows begin at `first_row`.
Batches apply_transforms(const std::vector<Transform>& transforms, const Tensor& image,
                         double rescale = 1, uint64_t step = 0, int64_t first_row = 0) {
  const int64_t rows = image.shape()[0];
  TransformGraph made(transforms, {ValueKind::tensor, image.dtype(), image.shape()}, DType::i64,
                      setting_of(rows, rescale));
  must(made.status);
  for (NodeId id = 0; id < made.graph.nodes(); ++id) {
    Node& node = made.graph.node(id);
    if (is_op(node, "RandomUniformLike")) node.first_row = first_row;
  }
  InterpretOptions options;
  options.seed = 17, options.step = step;
  auto out = must(interpret(made.graph, {{made.image, image}, {made.labels, all_labels(rows)}},
                            {made.out_image, made.out_labels}, {}, options));
  return {out[0], out[1]};
}

// Rows of images whose elements are all different within a row: 1, 2, 3...
Tensor numbered(DType dtype, int64_t rows, const Shape& row, double factor = 1) {
  Shape shape{rows};
  for (const int64_t size : row) shape.push_back(size);
  Tensor out(dtype, shape);
  const int64_t elements = row.elements();
  for (int64_t i = 0; i < out.elements(); ++i)
    out.set(i, factor * static_cast<double>(i % elements + 1));
  return out;
}

void check_same_elements(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  REQUIRE(a.dtype() == b.dtype());
  int64_t different = 0;
  for (int64_t i = 0; i < a.elements(); ++i) different += a.at(i) != b.at(i);
  CHECK(different == 0);
}

std::string failure(const std::vector<Transform>& transforms, DType dtype, const Shape& image) {
  TransformGraph made(transforms, {ValueKind::tensor, dtype, image}, DType::i64,
                      setting_of(image[0]));
  return made.status.message();
}

}  // namespace

TEST_CASE("normalize subtracts the mean and divides by the deviation of each channel") {
  const Tensor image = numbered(DType::u8, 2, {3, 2, 2});
  const auto out =
      apply_transforms({make_transform("normalize", {{"statistics", {1}}})}, image, 1.0 / 255);
  const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
  REQUIRE(out.image.dtype() == DType::f32);
  for (int64_t i = 0; i < 12; ++i) {
    const float x = static_cast<float>(image.at(i)) * static_cast<float>(1.0 / 255);
    CHECK(static_cast<float>(out.image.at(i)) == (x - mean[i / 4]) / std[i / 4]);
  }
  const auto one = apply_transforms({make_transform("normalize", {{"mean", {2}}, {"std", {4}}})},
                                    numbered(DType::f32, 1, {4}));
  CHECK(one.image.at(0) == -0.25);
  CHECK(one.image.at(3) == 0.5);
}

TEST_CASE("images are cropped in the middle, padded and made floats once") {
  const auto cropped = apply_transforms({make_transform("crop", {{"size", {1, 2}}})},
                                        numbered(DType::u8, 1, {3, 4}));
  check_same_elements(cropped.image, Tensor::of<uint8_t>({1, 1, 2}, {6, 7}));
  const auto padded =
      apply_transforms({make_transform("pad", {{"padding", {1, 0, 0, 2}}, {"fill", {9}}})},
                       numbered(DType::u8, 1, {1, 1, 2}));
  check_same_elements(padded.image, Tensor::of<uint8_t>({1, 1, 3, 3}, {9, 1, 2, 9, 9, 9, 9, 9, 9}));
  // The factor counts once, whatever follows.
  const auto floats = apply_transforms(
      {make_transform("cast", {{"dtype", {0}}}), make_transform("resize", {{"size", {2, 2}}})},
      numbered(DType::u8, 1, {2, 2}), 0.5);
  check_same_elements(floats.image, Tensor::of<float>({1, 2, 2}, {0.5f, 1, 1.5f, 2}));
}

TEST_CASE("labels become ones in rows of zeros, and labels that are no class none") {
  TransformGraph made({make_transform("one_hot", {{"classes", {3}}})},
                      {ValueKind::tensor, DType::f32, Shape{3, 1}}, DType::i64, setting_of(3));
  must(made.status);
  const auto out = must(interpret(made.graph, {{made.labels, Tensor::of<int64_t>({3}, {2, -1, 3})}},
                                  {made.out_labels}));
  check_same_elements(out[0], Tensor::of<float>({3, 3}, {0, 0, 1, 0, 0, 0, 0, 0, 0}));
}

TEST_CASE("a flip mirrors as many rows as its probability says, in other rows each step") {
  const Tensor image = numbered(DType::u8, 4000, {1, 2, 3});
  const std::vector<Transform> flip{make_transform("flip", {{"probability", {0.25}}})};
  std::vector<std::set<int64_t>> flipped(2);
  for (uint64_t step = 0; step < 2; ++step) {
    const Tensor out = apply_transforms(flip, image, 1, step).image;
    for (int64_t row = 0; row < 4000; ++row) {
      const bool mirrored = out.at(row * 6) == 3;
      if (mirrored) flipped[step].insert(row);
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t from = mirrored ? i / 3 * 3 + 2 - i % 3 : i;
        if (out.at(row * 6 + i) != image.at(from)) FAIL("row " << row << " has other elements");
      }
    }
  }
  // 1000 are expected, with a deviation of 27.
  CHECK(flipped[0].size() == 1020);
  CHECK(flipped[1].size() == 983);
  CHECK(flipped[0] != flipped[1]);
  const Tensor upside =
      apply_transforms({make_transform("flip", {{"axis", {1}}, {"probability", {1}}})},
                       numbered(DType::u8, 1, {2, 2}))
          .image;
  check_same_elements(upside, Tensor::of<uint8_t>({1, 2, 2}, {3, 4, 1, 2}));
}

TEST_CASE("a random crop takes each place equally often") {
  const int64_t rows = 8100;
  const Tensor image = numbered(DType::u8, rows, {9, 9});
  const Tensor out =
      apply_transforms({make_transform("random_crop", {{"padding", {4}}})}, image).image;
  std::vector<int> counts(81);
  for (int64_t row = 0; row < rows; ++row) {
    // The element in the middle is of line 4 + top and column 4 + left.
    const auto middle = static_cast<size_t>(out.at(row * 81 + 40)) - 1;
    REQUIRE(middle < 81);
    ++counts[middle];
    const bool corner_outside = middle / 9 < 4 || middle % 9 < 4;
    if ((out.at(row * 81) == 0) != corner_outside) FAIL("row " << row << " has another corner");
  }
  // 100 are expected of each, with a deviation of 10; the sum of squares is that of 80 degrees.
  double chi = 0;
  for (const int count : counts) chi += (count - 100) * (count - 100) / 100.0;
  CHECK(*std::min_element(counts.begin(), counts.end()) >= 65);
  CHECK(*std::max_element(counts.begin(), counts.end()) <= 135);
  CHECK(chi < 120);
}

TEST_CASE("shards of any size draw what the whole batch draws") {
  const std::vector<Transform> all{
      make_transform("flip"),
      make_transform("random_crop", {{"size", {5, 6}}, {"padding", {1}}}),
      make_transform(
          "color_jitter",
          {{"brightness", {0.4}}, {"contrast", {0.4}}, {"saturation", {0.4}}, {"hue", {0.1}}}),
      make_transform("rand_augment"),
      make_transform("normalize", {{"statistics", {2}}}),
      make_transform("random_erasing"),
  };
  const Tensor image = numbered(DType::u8, 12, {3, 7, 7});
  const Tensor whole = apply_transforms(all, image, 1.0 / 255, 5).image;
  for (const int64_t rows : {1, 3, 6}) {
    for (int64_t first = 0; first < 12; first += rows) {
      const Tensor part =
          apply_transforms(all, cut_rows(image, first, rows), 1.0 / 255, 5, first).image;
      check_same_elements(part, cut_rows(whole, first, rows));
    }
  }
}

TEST_CASE("colour jitter draws factors from its ranges and all orders of its steps") {
  const int64_t rows = 2400;
  TransformGraph made(
      {make_transform("color_jitter", {{"brightness", {0.4}}, {"contrast", {2}}, {"hue", {0.1}}})},
      {ValueKind::tensor, DType::f32, Shape{rows, 3, 1, 2}}, DType::i64, setting_of(rows));
  must(made.status);
  const auto out = must(
      interpret(made.graph, {{made.image, numbered(DType::f32, rows, {3, 1, 2}, 0.1)}},
                {made.operand("leat.AugmentImages", 1), made.operand("leat.AugmentImages", 2)}));
  std::map<std::vector<int64_t>, int> orders;
  double least[5] = {9, 9, 9, 9, 9}, most[5] = {-9, -9, -9, -9, -9};
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<int64_t> order;
    for (int64_t s = 0; s < 4; ++s) {
      const auto kind = static_cast<int64_t>(out[0].at(row * 4 + s));
      order.push_back(kind);
      least[kind] = std::min(least[kind], out[1].at(row * 4 + s));
      most[kind] = std::max(most[kind], out[1].at(row * 4 + s));
    }
    ++orders[order];
  }
  // Brightness, contrast, saturation and hue, in the order of ImageStep.
  const double low[] = {0, 0.6, 0, 1, -0.1}, high[] = {0, 1.4, 3, 1, 0.1};
  for (int kind = 1; kind <= 4; ++kind) {
    INFO(kind);
    const double slack = (high[kind] - low[kind]) / 200;
    CHECK(least[kind] >= low[kind] - 1e-6);
    CHECK(least[kind] <= low[kind] + slack + 1e-6);
    CHECK(most[kind] <= high[kind] + 1e-6);
    CHECK(most[kind] >= high[kind] - slack - 1e-6);
  }
  CHECK(orders.size() == 24);
  for (const auto& [order, count] : orders) CHECK((count > 60 && count < 145));
}

TEST_CASE("RandAugment draws 14 steps with the values of its magnitude") {
  const int64_t rows = 1400;
  TransformGraph made({make_transform("rand_augment", {{"magnitude", {9}}})},
                      {ValueKind::tensor, DType::f32, Shape{rows, 3, 4, 33}}, DType::i64,
                      setting_of(rows));
  must(made.status);
  const auto out = must(
      interpret(made.graph, {{made.image, numbered(DType::f32, rows, {3, 4, 33}, 1e-3)}},
                {made.operand("leat.AugmentImages", 1), made.operand("leat.AugmentImages", 2)}));
  REQUIRE(out[0].shape() == Shape({rows, 2}));
  // The kinds in the order of ImageStep, with torchvision's values: the magnitude is 9 of 30.
  const std::map<int64_t, std::set<float>> expected = {{0, {0}},
                                                       {1, {0.73f, 1.27f}},
                                                       {2, {0.73f, 1.27f}},
                                                       {3, {0.73f, 1.27f}},
                                                       {5, {0.73f, 1.27f}},
                                                       {6, {7}},
                                                       {7, {0.7f}},
                                                       {8, {0}},
                                                       {9, {0}},
                                                       {10, {-0.09f, 0.09f}},
                                                       {11, {-0.09f, 0.09f}},
                                                       {12, {-4, 4}},
                                                       {13, {0}},
                                                       {14, {-9, 9}}};
  std::map<int64_t, std::set<float>> drawn;
  std::map<int64_t, int> counts;
  for (int64_t i = 0; i < out[0].elements(); ++i) {
    const auto kind = static_cast<int64_t>(out[0].at(i));
    drawn[kind].insert(static_cast<float>(out[1].at(i)) + 0.0f);  // 0 in place of -0
    ++counts[kind];
  }
  CHECK(drawn == expected);
  for (const auto& [kind, count] : counts) CHECK((count > 150 && count < 250));
}

TEST_CASE("random erasing cuts boxes of the share and the ratio that it is asked for") {
  const int64_t rows = 1000, side = 20;
  const Tensor image = numbered(DType::f32, rows, {1, side, side});
  const Tensor out =
      apply_transforms({make_transform("random_erasing", {{"probability", {0.3}}})}, image).image;
  int erased = 0;
  double least = 1, most = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t top = side, bottom = -1, left = side, right = -1, zeros = 0;
    for (int64_t i = 0; i < side * side; ++i) {
      if (out.at(row * side * side + i) != 0) continue;
      ++zeros;
      top = std::min(top, i / side), bottom = std::max(bottom, i / side);
      left = std::min(left, i % side), right = std::max(right, i % side);
    }
    if (zeros == 0) continue;
    ++erased;
    if (zeros != (bottom - top + 1) * (right - left + 1)) FAIL("row " << row << " has no box");
    least = std::min(least, static_cast<double>(zeros) / (side * side));
    most = std::max(most, static_cast<double>(zeros) / (side * side));
  }
  CHECK(erased == 298);  // 300 are expected, with a deviation of 14
  CHECK((least >= 0.015 && least < 0.03));
  CHECK((most > 0.31 && most < 0.36));
}

TEST_CASE("mixup adds shares of two rows and of their labels") {
  const int64_t rows = 4;
  const Tensor image = cut_rows(numbered(DType::f32, 1, {rows, 2}), 0, 1);
  const Tensor batch = image.reshaped({rows, 2});
  std::set<double> shares;
  for (uint64_t step = 0; step < 20; ++step) {
    const auto out = apply_transforms({make_transform("mixup", {{"alpha", {1}}})}, batch, 1, step);
    REQUIRE(out.labels.shape() == Shape({rows, 10}));
    const double share = out.labels.at(0);  // of row 0 in its own class, 0
    shares.insert(share);
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t other = (row + rows - 1) % rows;
      for (int64_t i = 0; i < 2; ++i) {
        const double expected =
            share * batch.at(row * 2 + i) + (1 - share) * batch.at(other * 2 + i);
        CHECK(out.image.at(row * 2 + i) == Approx(expected).epsilon(1e-5));
      }
      CHECK(out.labels.at(row * 10 + row) == Approx(share).margin(1e-6));
      CHECK(out.labels.at(row * 10 + other) == Approx(1 - share).margin(1e-6));
    }
  }
  CHECK(shares.size() == 20);
  CHECK(*shares.begin() < 0.2);
  CHECK(*shares.rbegin() > 0.8);
  // A batch that is not mixed keeps its rows, and its labels become ones.
  const auto kept =
      apply_transforms({make_transform("mixup", {{"alpha", {1}}, {"probability", {0}}})}, batch);
  check_same_elements(kept.image, batch);
  CHECK(kept.labels.at(0) == 1);
}

TEST_CASE("cutmix takes a box from another row, and labels have the share of the box") {
  const int64_t rows = 3, height = 6, width = 8;
  Tensor batch(DType::u8, {rows, 2, height, width});
  const int64_t row_elements = 2 * height * width;
  for (int64_t i = 0; i < batch.elements(); ++i)
    batch.set(i, static_cast<double>(i / row_elements));
  std::set<double> shares;
  for (uint64_t step = 0; step < 20; ++step) {
    const auto out = apply_transforms({make_transform("cutmix", {{"alpha", {1}}})}, batch, 1, step);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t own = 0;
      for (int64_t i = 0; i < row_elements; ++i)
        own += out.image.at(row * row_elements + i) == static_cast<double>(row);
      const double share = static_cast<double>(own) / static_cast<double>(row_elements);
      CHECK(out.labels.at(row * 10 + row) == Approx(share).margin(1e-6));
      CHECK(out.labels.at(row * 10 + (row + 2) % 3) == Approx(1 - share).margin(1e-6));
      shares.insert(share);
    }
  }
  CHECK(shares.size() > 5);
}

TEST_CASE("the quantiles of mixup are those of the beta distribution") {
  // scipy.stats.beta.ppf at 0.01, 0.1, 0.25 and 0.4.
  const std::map<double, std::vector<double>> expected = {
      {0.2,
       {2.4780562407696293e-09, 0.00024776469190814675, 0.023814718768253692, 0.21634185887579316}},
      {1, {0.01, 0.1, 0.25, 0.4}},
      {2, {0.058903135778195254, 0.19580010565909173, 0.3263518223330697, 0.43293107714773177}},
      {50, {0.3849604982926191, 0.4360264190724911, 0.46622973766350095, 0.48730298673442285}},
  };
  for (const auto& [alpha, quantiles] : expected) {
    const auto points = transforms::beta_quantiles(alpha, 4001);
    const size_t at[] = {40, 400, 1000, 1600};
    for (size_t k = 0; k < 4; ++k) {
      CHECK(points[at[k]] == Approx(quantiles[k]).epsilon(1e-9));
      CHECK(points[4000 - at[k]] == Approx(1 - quantiles[k]).epsilon(1e-9));
    }
    CHECK(points[2000] == 0.5);
    CHECK(std::is_sorted(points.begin(), points.end()));
  }
}

TEST_CASE("an evaluation has the transforms that draw nothing") {
  Graph model = must(
      expand_layers(must(parse_graph(small_cnn("small", false), scheduler_catalogue(), "model"))));
  must(validate(model));
  TrainSpec spec;
  spec.input.reader = testing::labelled_reader("npy", "x.npy", "y.npy", {1, 8, 8});
  spec.input.rescale = 1.0 / 255;
  spec.input.transforms = {make_transform("flip"), make_transform("random_erasing"),
                           make_transform("normalize", {{"mean", {0.5}}})};
  spec.global_batch = 8, spec.shards = 2;
  const auto count = [](const Graph& graph, std::string_view op) {
    int found = 0;
    for (NodeId id = 0; id < graph.nodes(); ++id) found += is_op(graph.node(id), op);
    return found;
  };
  const JobGraph train = must(make_train_graph(model, spec));
  const JobGraph eval = must(make_eval_graph(model, spec));
  CHECK(count(train.graph, "RandomUniformLike") == 2);
  CHECK(count(train.graph, "leat.CropImages") == 1);
  CHECK(count(eval.graph, "RandomUniformLike") == 0);
  CHECK(count(eval.graph, "leat.CropImages") == 0);
  CHECK(count(eval.graph, "Sub") > 0);
  std::set<uint32_t> sources;
  for (NodeId id = 0; id < train.graph.nodes(); ++id) {
    if (is_op(train.graph.node(id), "RandomUniformLike"))
      sources.insert(train.graph.node(id).source);
  }
  CHECK(sources == std::set<uint32_t>{0x80000000, 0x80000040});
}

TEST_CASE("files of images are decoded by the transform that gives them their size") {
  const auto crop = make_transform("random_resized_crop", {{"size", {8, 6}}, {"mode", {3}}});
  const ValueType files{ValueKind::tensor, DType::u8, Shape{4, 99}};
  for (const bool in_training : {true, false}) {
    TransformGraph made({make_transform("decode"), crop}, files, DType::i64, setting_of(4),
                        in_training);
    REQUIRE(made.status.ok());
    const Node& node = made.graph.node(made.graph.value(made.out_image).producer);
    CHECK(is_op(node, "leat.DecodeImages"));
    CHECK(attr_string(node.attrs, "mode") == "area");
    CHECK(attr_string(node.attrs, "crop") == (in_training ? "random" : "center"));
    CHECK(node.inputs.size() == (in_training ? 2 : 1));
    CHECK(made.graph.value(made.out_image).type.shape.concrete() == Shape{4, 3, 8, 6});
  }
  TransformGraph gray({make_transform("decode", {{"colours", {1}}, {"size", {5}}}),
                       make_transform("resize", {{"size", {7}}, {"keep_bytes", {1}}})},
                      files, DType::i64, setting_of(4));
  REQUIRE(gray.status.ok());
  CHECK(gray.graph.value(gray.out_image).type.shape.concrete() == Shape{4, 1, 7, 7});
  CHECK(gray.graph.value(gray.out_image).type.dtype == DType::u8);
  const auto decode = make_transform("decode");
  CHECK(failure({decode}, DType::u8, {4, 99}) ==
        "data.transforms[0]: decode: column 'image': expected a size of decode, or resize or "
        "random_resized_crop behind it, received none");
  CHECK(failure({decode, make_transform("flip")}, DType::u8, {4, 99}) ==
        "data.transforms[1]: flip: column 'image': expected resize or random_resized_crop behind "
        "decode, which has no size, received flip");
  CHECK(failure({make_transform("decode", {{"size", {0, 7}}})}, DType::u8, {4, 99})
            .ends_with("size: expected [HEIGHT, WIDTH] or none, received [0, 7]"));
  CHECK(failure({make_transform("decode", {{"mode", {1}}})}, DType::u8, {4, 99})
            .ends_with("mode: expected with a size, received without one"));
  CHECK(failure({decode}, DType::f32, {4, 99}) ==
        "data.transforms[0]: decode: column 'image': expected the bytes of files of images, "
        "uint8[SIZE], as the key bytes of a column makes them, received float[99]");
}

TEST_CASE("resizing makes floats of bytes unless the job keeps them") {
  const Tensor bytes = numbered(DType::u8, 2, {3, 6, 4});
  const auto resized = [&](const Arguments& more) {
    Arguments all = more;
    all["size"] = {3, 2};
    return apply_transforms({make_transform("resize", all)}, bytes, 1).image;
  };
  for (const double mode : {0, 1, 2, 3, 4}) {
    CHECK(resized({{"mode", {mode}}}).dtype() == DType::f32);
    CHECK(resized({{"mode", {mode}}, {"keep_bytes", {1}}}).dtype() == DType::u8);
  }
  const Tensor floats = resized({{"mode", {3}}}),
               kept = resized({{"mode", {3}}, {"keep_bytes", {1}}});
  CHECK(floats.shape() == Shape{2, 3, 3, 2});
  // Each is the mean of two by two.
  for (int64_t i = 0; i < floats.elements(); ++i) {
    const int64_t plane = i / 6, y = i % 6 / 2, x = i % 2, first = plane * 24 + y * 8 + x * 2;
    const double mean =
        (bytes.at(first) + bytes.at(first + 1) + bytes.at(first + 4) + bytes.at(first + 5)) / 4;
    CHECK(floats.at(i) == Approx(mean));
    CHECK(std::abs(kept.at(i) - mean) <= 1);
  }
  const std::string antialias =
      "data.transforms[0]: resize: antialias: expected true, as Pillow has it, with area, lanczos "
      "and bytes that stay bytes, received false";
  const Arguments area{{"size", {2}}, {"mode", {3}}, {"antialias", {0}}},
      bilinear{{"size", {2}}, {"keep_bytes", {1}}, {"antialias", {0}}};
  CHECK(failure({make_transform("resize", area)}, DType::u8, {2, 3, 4, 4}) == antialias);
  CHECK(failure({make_transform("resize", bilinear)}, DType::u8, {2, 3, 4, 4}) == antialias);
  CHECK(failure({make_transform("resize", {{"size", {2}}, {"keep_bytes", {1}}})}, DType::f32,
                {2, 3, 4, 4}) ==
        "data.transforms[0]: resize: keep_bytes: expected it of a column of uint8, received column "
        "'image' of float");
}

TEST_CASE("every transform has defaults and nodes, and its order is that of the alphabet") {
  std::string before;
  const Arguments required = {
      {"dtype", {0}}, {"size", {2}}, {"alpha", {1}}, {"padding", {1}}, {"classes", {10}}};
  for (const TransformEntry& entry : all_transforms()) {
    INFO(entry.name);
    CHECK(before < entry.name);
    before = entry.name;
    Arguments given;
    for (const TransformArgument& argument : entry.arguments) {
      if (argument.initial.empty())
        given[std::string(argument.name)] = required.find(argument.name)->second;
    }
    for (const Shape& image : {Shape{4, 3, 6, 6}, Shape{4, 1, 6, 6}, Shape{4, 6, 6}}) {
      TransformGraph made({make_transform(std::string(entry.name), given)},
                          {ValueKind::tensor, DType::u8, image}, DType::i64,
                          setting_of(4, 1.0 / 255));
      if (entry.name != "normalize" && entry.name != "decode") CHECK(made.status.message().empty());
      TransformGraph evaluated({make_transform(std::string(entry.name), given)},
                               {ValueKind::tensor, DType::u8, image}, DType::i64,
                               setting_of(4, 1.0 / 255), false);
      if (entry.random) CHECK(evaluated.graph.nodes() == 0);
    }
  }
}

TEST_CASE("the page about data has every transform with its arguments") {
  std::ifstream in(std::string(LEAT_SOURCE_DIR) + "/docs/data.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const TransformEntry& entry : all_transforms()) {
    INFO(entry.name);
    const size_t begin = page.find(cat("\n| `", entry.name, "` |"));
    REQUIRE(begin != std::string::npos);
    const std::string row = page.substr(begin + 1, page.find('\n', begin + 1) - begin - 1);
    for (const TransformArgument& argument : entry.arguments)
      CHECK_THAT(row, Catch::Contains(cat("`", argument.name)));
    CHECK((row.find("| yes |") != std::string::npos) == entry.random);
  }
}

TEST_CASE("a transform that does not fit its column names its place in the list") {
  const auto flip = make_transform("flip");
  CHECK(failure({flip, make_transform("crop", {{"size", {9, 2}}})}, DType::u8, {2, 3, 4, 4}) ==
        "data.transforms[1]: crop: size: expected at most 4 by 4, the size of the images, received "
        "9 by 2");
  CHECK(failure({make_transform("color_jitter")}, DType::u8, {2, 3, 4, 4}) ==
        "data.transforms[0]: color_jitter: column 'image': expected colours from 0 to 1, received "
        "integers; write data.rescale: 0.00392156862745098, which is 1/255");
  CHECK(failure({flip}, DType::f32, {2, 4}) ==
        "data.transforms[0]: flip: column 'image': expected images of [channels,height,width] or "
        "[height,width], received [4]");
  CHECK(failure({make_transform("flip", {}, "imag")}, DType::u8, {2, 4, 4}) ==
        "data.transforms[0]: flip: column: expected a column of the data, which has labels, image, "
        "received 'imag' (did you mean 'image'?)");
  CHECK(failure({make_transform("rand_augment")}, DType::f32, {2, 4, 4, 3}) ==
        "data.transforms[0]: rand_augment: column 'image': expected images of 1 or 3 channels, "
        "[channels,height,width], received [4,4,3]");
  CHECK(failure({make_transform("normalize", {{"mean", {1, 2}}})}, DType::f32, {2, 3, 4, 4}) ==
        "data.transforms[0]: normalize: mean and std: expected one number, or one for each channel "
        "of [3,4,4], received 2 and 1");
  CHECK(failure({make_transform("random_crop", {{"size", {9}}, {"padding", {2}}})}, DType::u8,
                {2, 3, 4, 4}) ==
        "data.transforms[0]: random_crop: size: expected at most 8, the side of the padded images, "
        "received 9");
}

}  // namespace leat
