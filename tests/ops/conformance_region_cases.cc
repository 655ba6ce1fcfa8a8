// The cases of regions of interest, of windows that read at places which an operand moves, of
// images that are decoded and resized, and of distances of sequences.
#include "ops/images/geometry.h"
#include "tests/ops/conformance_more_cases.h"
#include "tests/ops/op_testing.h"
#include "tests/sample_files.h"

namespace leat::testing {
namespace {

uint64_t pixels_seed = 0;  // from 7000 in each table

Tensor pixels(const Shape& shape, double low = -2, double high = 2) {
  return random_tensor(DType::f32, shape, ++pixels_seed, low, high);
}

// kBatch regions of images of about 6 by 7. `first` is a column in front of their corners.
Tensor regions(bool first) {
  const int64_t columns = first ? 5 : 4;
  Tensor rois(DType::f32, {kBatch, columns});
  for (int64_t i = 0; i < kBatch; ++i) {
    const double x = 0.3 + 0.4 * static_cast<double>(i % 5), y = 0.2 + 0.3 * static_cast<double>(i);
    const double values[5] = {static_cast<double>(i % 3), x, y, x + 2.7, y + 1.9};
    for (int64_t c = 0; c < columns; ++c) rois.set(i * columns + c, values[c + 5 - columns]);
  }
  return rois;
}

void add_roi_align(std::vector<ConformanceCase>& cases) {
  const Tensor rois = regions(false), x = pixels({3, 2, 6, 7});
  Tensor images(DType::i64, {kBatch});
  for (int64_t i = 0; i < kBatch; ++i) images.set(i, static_cast<double>(i % 3));
  for (const char* mode : {"avg", "max"}) {
    for (const int64_t samples : {0, 2}) {
      const Attrs attrs{{"mode", std::string(mode)},
                        {"sampling_ratio", samples},
                        {"output_height", int64_t{2}},
                        {"output_width", int64_t{3}},
                        {"spatial_scale", 0.9},
                        {"coordinate_transformation_mode",
                         std::string(samples == 0 ? "half_pixel" : "output_half_pixel")}};
      cases.push_back(ConformanceCase{"RoiAlign", {x, rois, images}, attrs}.grad({0, 1}));
      for (const char* op : {"leat.RoiAlignGrad", "leat.RoiAlignRoisGrad"})
        cases.push_back({op, {pixels({kBatch, 2, 2, 3}), x, rois, images}, attrs});
    }
  }
  cases.push_back(ConformanceCase{"RoiAlign", {pixels({3, 20, 6, 7}), rois, images}});
  const Attrs pooled{{"pooled_shape", std::vector<int64_t>{2, 3}}, {"spatial_scale", 0.9}};
  const Tensor whole = regions(true);
  cases.push_back(ConformanceCase{"MaxRoiPool", {x, whole}, pooled}.grad({0}));
  cases.push_back({"MaxRoiPool", {pixels({3, 20, 6, 7}), whole}, pooled});
  cases.push_back({"leat.MaxRoiPoolGrad", {pixels({kBatch, 2, 2, 3}), x, whole}, pooled});
}

void add_deformed_windows(std::vector<ConformanceCase>& cases) {
  const Attrs attrs{{"strides", std::vector<int64_t>{1, 2}},
                    {"pads", std::vector<int64_t>{1, 0, 0, 1}},
                    {"dilations", std::vector<int64_t>{1, 2}},
                    {"offset_group", int64_t{2}}};
  // Images of 5 by 6, windows of 3 by 2: 4 by 3 of them.
  const Tensor x = pixels({kBatch, 4, 5, 6}), kernel = ints({3, 2}),
               offset = pixels({kBatch, 24, 4, 3}, -1.4, 1.4), mask = pixels({kBatch, 12, 4, 3}),
               dy = pixels({kBatch, 4, 6, 12});
  cases.push_back(
      ConformanceCase{"leat.DeformColumns", {x, offset, kernel, mask}, attrs}.grad({0, 1, 3}));
  cases.push_back({"leat.DeformColumnsGrad", {dy, x, offset, kernel, mask}, attrs, 3});
  cases.push_back({"leat.DeformColumnsGrad", {dy, x, offset, kernel}, attrs, 2});
  const Tensor line = pixels({kBatch, 2, 6}), along = pixels({kBatch, 2, 5}, -0.9, 0.9);
  cases.push_back(ConformanceCase{"leat.DeformColumns", {line, along, ints({2})}}.grad({0, 1}));
  const Tensor cube = pixels({kBatch, 1, 2, 3, 4}), moved = pixels({kBatch, 6, 2, 2, 4}, -1, 1);
  cases.push_back(
      ConformanceCase{"leat.DeformColumns", {cube, moved, ints({1, 2, 1})}}.grad({0, 1}));
}

Tensor draws_of_parts() {
  return random_tensor(DType::f32, {kBatch, kPartDrawCount}, 6001, 0, 0.999);
}

void add_resized_images(std::vector<ConformanceCase>& cases) {
  const auto attrs = [](const char* mode, const char* crop) {
    return Attrs{{"height", int64_t{4}},
                 {"width", int64_t{7}},
                 {"mode", std::string(mode)},
                 {"crop", std::string(crop)}};
  };
  const Tensor images = random_tensor(DType::f32, {kBatch, 2, 6, 5}, 6002, 0, 1),
               gray = random_tensor(DType::f32, {kBatch, 9, 7}, 6003, 0, 1),
               bytes = random_tensor(DType::u8, {kBatch, 3, 33, 40}, 6004, 0, 256);
  cases.push_back({"leat.ResizeImages", {images}, attrs("bilinear", "none")});
  cases.push_back({"leat.ResizeImages", {gray}, attrs("area", "center")});
  cases.push_back({"leat.ResizeImages", {images, draws_of_parts()}, attrs("bicubic", "random")});
  cases.push_back({"leat.ResizeImages", {bytes, draws_of_parts()}, attrs("lanczos", "random")});
  // Files of different sizes in rows of one length.
  constexpr int64_t kRow = 1200;
  Tensor files(DType::u8, {kBatch, kRow});
  for (int64_t n = 0; n < kBatch; ++n) {
    const auto side = static_cast<uint32_t>(5 + n);
    const std::string file = png_of(side, 12, [&](uint32_t x, uint32_t y, int c) {
      return static_cast<uint8_t>(x * 31 + y * 17 + static_cast<uint32_t>(c) * 90 + side);
    });
    for (size_t i = 0; i < file.size(); ++i)
      files.set(n * kRow + static_cast<int64_t>(i), static_cast<uint8_t>(file[i]));
  }
  cases.push_back({"leat.DecodeImages", {files}, attrs("area", "center")});
  cases.push_back({"leat.DecodeImages", {files, draws_of_parts()}, attrs("bilinear", "random")});
}

void add_edit_distances(std::vector<ConformanceCase>& cases) {
  const Tensor made = random_tensor(DType::i64, {kBatch, 9}, 6005, -1, 4),
               wanted = random_tensor(DType::i64, {kBatch, 7}, 6006, -1, 4);
  cases.push_back({"leat.EditDistance", {made, wanted}});
  cases.push_back({"leat.EditDistance", {made, wanted}, {{"blank", int64_t{2}}}});
  cases.push_back({"leat.EditDistance", {made, wanted}, {{"separator", int64_t{0}}}});
}

}  // namespace

void add_region_cases(std::vector<ConformanceCase>& cases) {
  pixels_seed = 7000;
  add_roi_align(cases);
  add_deformed_windows(cases);
  add_resized_images(cases);
  add_edit_distances(cases);
}

}  // namespace leat::testing
