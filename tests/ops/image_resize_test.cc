// leat.ResizeImages and leat.DecodeImages against Pillow: tests/ops/images has the files and
// Pillow's pixels, which tests/peers/image_cases.py wrote.
#include <cmath>
#include <map>

#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/formats/npz.h"
#include "ops/graph/interpret.h"
#include "ops/images/geometry.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat::testing {
namespace {

const std::string kImages = std::string(LEAT_SOURCE_DIR) + "/tests/ops/images/";

std::map<std::string, Tensor> pillow_pixels() {
  std::map<std::string, Tensor> out;
  const auto file = must(real_files().open(kImages + "references.npz"));
  for (const NpzMember& member : must(read_npz_directory(*file)))
    out.emplace(member.name, must(read_npz_member(*file, member)));
  return out;
}

// [height,width,channels] as one image of [1,channels,height,width].
Tensor in_planes(const Tensor& pixels) {
  const int64_t height = pixels.shape()[0], width = pixels.shape()[1], channels = pixels.shape()[2];
  Tensor out(DType::u8, {1, channels, height, width});
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < height * width; ++i)
      out.set(c * height * width + i, pixels.at(i * channels + c));
  }
  return out;
}

// The image of Pillow's mode F that tests/peers/image_cases.py resizes: red divided by 255, and
// beyond both ends of that range in places.
Tensor float_image(const Tensor& pixels) {
  const int64_t height = pixels.shape()[0], width = pixels.shape()[1];
  Tensor out(DType::f32, {1, height, width});
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const bool beyond = y >= 3 && y < 9 && x >= 5 && x < 12;
      const float red = static_cast<float>(pixels.at((y * width + x) * 3)) / 255;
      out.set(y * width + x, beyond ? red * -3 : red);
    }
  }
  return out;
}

Attrs size_of(int64_t height, int64_t width, const std::string& mode = "bilinear",
              const std::string& crop = "none") {
  return {{"height", height}, {"width", width}, {"mode", mode}, {"crop", crop}};
}

constexpr int64_t kPadding = 99;

// A file as a row that is longer than the file.
Tensor padded_file(const std::string& name) {
  const Bytes bytes = must(read_file(real_files(), kImages + name, 1 << 20));
  Tensor out(DType::u8, {1, static_cast<int64_t>(bytes.size()) + kPadding});
  for (size_t i = 0; i < bytes.size(); ++i)
    out.set(static_cast<int64_t>(i), static_cast<double>(bytes[i]));
  return out;
}

Tensor draws_of(int64_t rows) {
  return random_tensor(DType::f32, {rows, kPartDrawCount}, 7, 0, 0.999);
}

}  // namespace

TEST_CASE("resized bytes and floats have the bits of Pillow") {
  const auto references = pillow_pixels();
  const Tensor bytes = in_planes(references.at("rgb.png"));
  const Tensor floats = float_image(references.at("rgb.png"));
  std::map<std::string, int> compared;
  for (const auto& [name, expected] : references) {
    const std::string kind = name.substr(0, name.find(' '));
    if (kind != "resize" && kind != "floats") continue;
    const std::string mode = name.substr(7, name.rfind(' ') - 7);
    INFO(name);
    const Attrs attrs = size_of(expected.shape()[0], expected.shape()[1], mode);
    ++compared[cat(kind, " ", mode)];
    if (kind == "resize") {
      check_identical(run1("leat.ResizeImages", {bytes}, attrs), in_planes(expected));
      continue;
    }
    const Tensor made = run1("leat.ResizeImages", {floats}, attrs);
    check_identical(made.reshaped(expected.shape()), expected);
    // f64 is not rounded between the passes.
    const Tensor exact = run1("leat.ResizeImages", {floats.cast(DType::f64)}, attrs);
    for (int64_t i = 0; i < made.elements(); ++i) CHECK(std::abs(exact.at(i) - made.at(i)) < 1e-6);
  }
  for (const char* mode : {"nearest", "area", "bilinear", "bicubic", "lanczos"}) {
    CHECK(compared[cat("resize ", mode)] == 4);
    CHECK(compared[cat("floats ", mode)] == 4);
  }
}

// Pillow clips bytes between its passes, which floats are not: where a filter has weights below 0
// they differ by more.
TEST_CASE("colours as floats are within a level of 255 of those as bytes") {
  const Tensor bytes = in_planes(pillow_pixels().at("rgb.png"));
  Tensor colours(DType::f32, bytes.shape());
  for (int64_t i = 0; i < bytes.elements(); ++i) colours.set(i, bytes.at(i) / 255);
  for (const char* mode : {"area", "bilinear"}) {
    const Attrs attrs = size_of(23, 17, mode);
    const Tensor of_bytes = run1("leat.ResizeImages", {bytes}, attrs),
                 of_floats = run1("leat.ResizeImages", {colours}, attrs);
    double worst = 0;
    for (int64_t i = 0; i < of_bytes.elements(); ++i)
      worst = std::max(worst, std::abs(of_floats.at(i) - of_bytes.at(i) / 255));
    CHECK(worst <= 1.0 / 255 + 1e-6);
  }
}

TEST_CASE("files of images are decoded whole, whatever stands behind them") {
  const auto references = pillow_pixels();
  for (const char* name : {"444.jpg", "rgb.png", "lossless.webp"}) {
    INFO(name);
    const Tensor wanted = in_planes(references.at(name));
    const int64_t height = wanted.shape()[2], width = wanted.shape()[3];
    check_identical(run1("leat.DecodeImages", {padded_file(name)}, size_of(height, width)), wanted);
    // Decoding and resizing is what the two ops do one after the other.
    for (const char* crop : {"none", "center"}) {
      const Attrs attrs = size_of(12, 17, "area", crop);
      check_identical(run1("leat.DecodeImages", {padded_file(name)}, attrs),
                      run1("leat.ResizeImages", {wanted}, attrs));
    }
    const Attrs drawn = size_of(12, 17, "bicubic", "random");
    check_identical(run1("leat.DecodeImages", {padded_file(name), draws_of(1)}, drawn),
                    run1("leat.ResizeImages", {wanted, draws_of(1)}, drawn));
  }
}

TEST_CASE("a random part has the area and the proportions that were asked for") {
  ImageGeometry geometry{.height = 8, .width = 8, .crop = ImageCrop::random_resized};
  geometry.scale_min = 0.2, geometry.scale_max = 0.5;
  const ImageHeader header{ImageFormat::png, 100, 60};
  const Tensor draws = draws_of(200);
  int differs = 0;
  ImagePart last;
  for (int64_t n = 0; n < 200; ++n) {
    const ImagePart part =
        drawn_part(header, geometry, {draws.data<float>() + n * kPartDrawCount, kPartDrawCount});
    CHECK((part.x >= 0 && part.y >= 0 && part.x + part.width <= 100 && part.y + part.height <= 60));
    const double area = static_cast<double>(part.width * part.height) / 6000;
    const double ratio = static_cast<double>(part.width) / static_cast<double>(part.height);
    CHECK((area > 0.19 && area < 0.52));
    CHECK((ratio > 0.72 && ratio < 1.38));
    differs += part == last ? 0 : 1;
    last = part;
  }
  CHECK(differs > 190);
  CHECK(middle_part_of_row(header, geometry) == ImagePart{20, 0, 60, 60});
  geometry.height = 4;
  CHECK(middle_part_of_row(header, geometry) == ImagePart{0, 5, 100, 50});
}

TEST_CASE("images are resized and decoded alike in any tiles") {
  check_tiles("leat.ResizeImages", {random_tensor(DType::f32, {7, 2, 9, 11}, 1, 0, 1), draws_of(7)},
              size_of(5, 6, "area", "random"));
  check_tiles("leat.ResizeImages", {counting(DType::u8, {7, 5, 7})}, size_of(13, 4));
  // 16-bit floats are rounded once, from the sums of float32.
  const Tensor halves = random_tensor(DType::bf16, {2, 3, 9, 11}, 3, 0, 1);
  check_identical(
      run1("leat.ResizeImages", {halves, draws_of(2)}, size_of(5, 6, "bicubic", "random")),
      run1("leat.ResizeImages", {halves.cast(DType::f32), draws_of(2)},
           size_of(5, 6, "bicubic", "random"))
          .cast(DType::bf16));
}

// A batch of three files of which the second is `bytes`, cut to `size` of them. Ok, or the error.
Status decoded_status(const Tensor& whole, int64_t size, int64_t flipped = -1) {
  const int64_t row = whole.elements();
  Tensor files(DType::u8, {3, row});
  for (int64_t n = 0; n < 3; ++n) {
    for (int64_t i = 0; i < (n == 1 ? size : row); ++i) files.set(n * row + i, whole.at(i));
  }
  if (flipped >= 0) files.set(row + flipped, static_cast<double>(whole.int_at(flipped) ^ 0x55));
  return run_op(*test_catalogue().find("leat.DecodeImages"), size_of(5, 7), {files}, 1,
                "leat.DecodeImages")
      .status();
}

constexpr const char* kEveryFile[] = {
    "420.jpg",  "422.jpg",    "444.jpg",        "progressive.jpg", "gray.jpg",
    "cmyk.jpg", "rgb.png",    "rgba.png",       "palette.png",     "gray.png",
    "bits.png", "gray16.png", "interlaced.png", "lossy.webp",      "lossless.webp"};

TEST_CASE("a file of any channels becomes images of the channels that were asked for") {
  for (const char* name : kEveryFile) {
    INFO(name);
    for (const int64_t channels : {1, 3}) {
      Attrs attrs = size_of(6, 4);
      attrs["channels"] = channels;
      CHECK(run1("leat.DecodeImages", {padded_file(name)}, attrs).shape() ==
            Shape{1, channels, 6, 4});
    }
  }
  for (const int64_t channels : {0, 2, 4}) {
    Attrs attrs = size_of(6, 4);
    attrs["channels"] = channels;
    CHECK(run_error("leat.DecodeImages", {padded_file("rgb.png")}, attrs).message() ==
          cat("leat.DecodeImages: channels: expected 1 or 3, received ", channels));
  }
}

TEST_CASE("a damaged file among others is decoded, or named by its row") {
  int refused = 0;
  for (const char* name : kEveryFile) {
    INFO(name);
    const Tensor file = padded_file(name);
    const int64_t size = file.elements() - kPadding;
    for (int64_t cut = 0; cut + 16 < size; cut += 1 + size / 23) {
      const Status status = decoded_status(file, cut);
      // A WebP file has no end that its decoder looks for: the zeros behind a cut are pixels.
      if (status.ok() && std::string_view(name).ends_with(".webp")) continue;
      INFO(cut << " of " << size << " bytes");
      CHECK_THAT(std::string(status.message()), Catch::StartsWith("leat.DecodeImages: row 1: "));
    }
    for (int64_t at = 0; at < size; at += 1 + size / 41) {
      const Status status = decoded_status(file, file.elements(), at);
      if (status.ok()) continue;
      ++refused;
      CHECK_THAT(std::string(status.message()), Catch::StartsWith("leat.DecodeImages: row 1: "));
    }
  }
  CHECK(refused > 100);
}

TEST_CASE("a file that claims too many pixels is refused before memory is taken for them") {
  Tensor jpeg = padded_file("420.jpg");
  for (int64_t i = 0; i + 9 < jpeg.elements(); ++i) {
    if (jpeg.int_at(i) != 0xff || jpeg.int_at(i + 1) != 0xc0) continue;
    for (int64_t k = 5; k < 9; ++k) jpeg.set(i + k, 0xf0);
    break;
  }
  const Status refused = run_error("leat.DecodeImages", {jpeg}, size_of(4, 4));
  CHECK(refused.code() == Code::resource_exhausted);
  CHECK_THAT(std::string(refused.message()), Catch::StartsWith("leat.DecodeImages: row 0: "));
}

TEST_CASE("numbers that are none draw a part of the image, too") {
  const ImageGeometry geometry{.height = 8, .width = 8, .crop = ImageCrop::random_resized};
  const ImageHeader header{ImageFormat::png, 30, 20};
  for (const float bad : {std::nanf(""), -INFINITY, INFINITY, -1e30f, 1e30f, 1.0f, 2.0f}) {
    for (const size_t first : {size_t{0}, size_t{20}}) {
      std::vector<float> draws(kPartDrawCount, 0.5f);
      for (size_t i = first; i < draws.size(); ++i) draws[i] = bad;
      const ImagePart part = drawn_part(header, geometry, draws);
      INFO(bad << " from number " << first << " on");
      CHECK((part.x >= 0 && part.y >= 0 && part.width > 0 && part.height > 0));
      CHECK((part.x + part.width <= 30 && part.y + part.height <= 20));
    }
  }
}

TEST_CASE("a file that is no image fails the step with its row") {
  const auto refused = [](Tensor file) {
    return std::string(run_error("leat.DecodeImages", {std::move(file)}, size_of(4, 4)).message());
  };
  CHECK_THAT(refused(Tensor(DType::u8, {1, 40})), Catch::Contains("leat.DecodeImages: row 0: "));
  Tensor cut(DType::u8, {1, 500});
  const Tensor whole = padded_file("444.jpg");
  for (int64_t i = 0; i < 500; ++i) cut.set(i, whole.at(i));
  const std::string of_cut(refused(cut));
  CHECK_THAT(of_cut, Catch::StartsWith("leat.DecodeImages: row 0: a JPEG image: "));
  CHECK_THAT(of_cut, Catch::EndsWith("; the file fills the 500 bytes of its column, and may be "
                                     "longer"));
  CHECK(run_error("leat.ResizeImages", {counting(DType::u8, {1, 4, 4})}, size_of(2, 2, "box"))
            .message() ==
        "leat.ResizeImages: mode: expected 'nearest', 'area', 'bilinear', 'bicubic' or 'lanczos', "
        "received 'box'");
  CHECK(run_error("leat.ResizeImages", {counting(DType::u8, {1, 4, 4})},
                  size_of(2, 2, "area", "random"))
            .message() == "leat.ResizeImages: draws: expected numbers with this crop");
}

}  // namespace leat::testing
