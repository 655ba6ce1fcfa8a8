// Decodes and resizes images as Pillow does: tests/ops/images has the files and Pillow's pixels,
// which tests/peers/image_cases.py wrote.
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <sstream>

#include "devices/base/philox.h"
#include "devices/base/text.h"
#include "ops/formats/npz.h"
#include "ops/images/image.h"
#include "ops/images/resize.h"
#include "ops/images/resize_rows.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

const std::string kImageFolder = std::string(LEAT_SOURCE_DIR) + "/tests/ops/images/";

const std::map<std::string, Tensor>& image_references() {
  static const auto references = [] {
    std::map<std::string, Tensor> out;
    const auto file = must(real_files().open(kImageFolder + "references.npz"));
    for (const NpzMember& member : must(read_npz_directory(*file)))
      out.emplace(member.name, must(read_npz_member(*file, member)));
    return out;
  }();
  return references;
}

Bytes image_file(const std::string& name) {
  return must(read_file(real_files(), kImageFolder + name, 1 << 20));
}

// The pixels of a view, without the gaps between its rows.
std::vector<uint8_t> pixels_of(const ImageView& view) {
  std::vector<uint8_t> out;
  for (int64_t y = 0; y < view.height; ++y)
    out.insert(out.end(), view.row(y), view.row(y) + view.width * view.channels);
  return out;
}

std::vector<uint8_t> pixels_of(const Tensor& tensor) {
  const auto* data = static_cast<const uint8_t*>(tensor.raw());
  return {data, data + tensor.elements()};
}

int largest_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

std::vector<std::string> image_names() {
  std::vector<std::string> names;
  for (const auto& [name, pixels] : image_references()) {
    if (name.find('.') != std::string::npos && name.find(' ') == std::string::npos)
      names.push_back(name);
  }
  return names;
}

TEST_CASE("images of every kind decode to Pillow's pixels") {
  CHECK(image_names().size() == 15);
  for (const std::string& name : image_names()) {
    INFO(name);
    const Tensor& expected = image_references().at(name);
    const auto image = must(decode_image(image_file(name), 3));
    CHECK(image.view().height == expected.shape()[0]);
    CHECK(image.view().width == expected.shape()[1]);
    CHECK(largest_difference(pixels_of(image.view()), pixels_of(expected)) == 0);
  }
}

TEST_CASE("an image in colour becomes gray as in Pillow") {
  const auto image = must(decode_image(image_file("rgb.png"), 1));
  CHECK(pixels_of(image.view()) == pixels_of(image_references().at("rgb.png L")));
  const auto gray = must(decode_image(image_file("gray.jpg"), 1));
  const auto three = pixels_of(image_references().at("gray.jpg"));
  const auto one = pixels_of(gray.view());
  REQUIRE(three.size() == 3 * one.size());
  for (size_t i = 0; i < one.size(); ++i) REQUIRE(one[i] == three[3 * i]);
  // The luminance of a JPEG is in the file.
  CHECK(must(decode_image(image_file("420.jpg"), 1)).view().channels == 1);
  CHECK(must(decode_image(image_file("cmyk.jpg"), 1)).view().channels == 1);
}

TEST_CASE("a part of an image has the pixels that the whole has there") {
  const RandomStream random(7, 0, 0);
  uint64_t draw = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.uniform_f64(draw++) * static_cast<double>(n));
  };
  for (const std::string& name : image_names()) {
    const Bytes bytes = image_file(name);
    for (const int64_t channels : {1, 3}) {
      const auto whole = must(decode_image(bytes, channels));
      const int64_t width = whole.view().width, height = whole.view().height;
      for (int i = 0; i < 60; ++i) {
        ImagePart part{below(width), below(height), 0, 0};
        part.width = 1 + below(width - part.x);
        part.height = 1 + below(height - part.y);
        INFO(cat(name, " ", part.x, ",", part.y, " ", part.width, "x", part.height));
        const auto image = must(decode_image(bytes, channels, part));
        REQUIRE(pixels_of(image.view()) == pixels_of(whole.view().part(part)));
      }
    }
  }
}

TEST_CASE("a part that is not in the image is refused") {
  const Bytes bytes = image_file("rgb.png");
  for (const ImagePart& part : {ImagePart{0, 0, 41, 30}, ImagePart{-1, 0, 4, 4},
                                ImagePart{0, 29, 1, 2}, ImagePart{0, 0, 0, 1}}) {
    CHECK(decode_image(bytes, 3, part).status().code() == Code::invalid_argument);
  }
  CHECK(decode_image(bytes, 2).status().code() == Code::invalid_argument);
}

TEST_CASE("an image that ends early, or has other bytes, is an error or an image") {
  for (const std::string& name : image_names()) {
    INFO(name);
    const Bytes whole = image_file(name);
    const auto header = must(read_image_header(whole));
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
      const auto cut = decode_image(std::span(whole).first(size), 3);
      // The last bytes of some files hold no pixels.
      if (size + 16 < whole.size()) CHECK(!cut.ok());
    }
    for (size_t at = 0; at < whole.size(); at += 1 + whole.size() / 211) {
      Bytes bytes = whole;
      bytes[at] ^= std::byte{0x55};
      const auto image = decode_image(bytes, 3);
      if (image.ok()) CHECK(image->view().channels == 3);
      if (!image.ok()) CHECK(!image.status().message().empty());
    }
    CHECK(header.width > 0);
  }
}

TEST_CASE("an image with too many pixels is refused by its header") {
  Bytes png = image_file("rgb.png");
  // The width is at byte 16. The checksum of the header is wrong then, and is corrected.
  const auto with_width = [&](uint32_t width) {
    for (int i = 0; i < 4; ++i) png[16 + i] = static_cast<std::byte>(width >> (24 - 8 * i));
    uint32_t crc = 0xffffffff;
    for (size_t i = 12; i < 29; ++i) {
      crc ^= static_cast<uint32_t>(png[i]);
      for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    for (int i = 0; i < 4; ++i) png[29 + i] = static_cast<std::byte>(~crc >> (24 - 8 * i));
    return read_image_header(png).status();
  };
  CHECK(with_width(40).ok());
  CHECK(with_width(65'501).code() == Code::resource_exhausted);
  CHECK(with_width(0x7fffffff).code() == Code::resource_exhausted);
  CHECK(with_width(0x80000000).code() == Code::invalid_argument);
  Bytes jpeg = image_file("420.jpg");
  for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] != std::byte{0xff} || jpeg[i + 1] != std::byte{0xc0}) continue;
    for (size_t k = 5; k < 9; ++k) jpeg[i + k] = std::byte{0xf0};
    break;
  }
  CHECK(read_image_header(jpeg).status().code() == Code::resource_exhausted);
  CHECK(read_image_header(Bytes(100)).status().message() ==
        "an image: expected JPEG, PNG or WebP, received 100 bytes of something else");
}

std::vector<uint8_t> resized(const ImageView& image, const std::optional<ResizeBox>& box,
                             int64_t width, int64_t height, ResizeFilter filter) {
  std::vector<uint8_t> out(static_cast<size_t>(width * height * image.channels));
  Resizer resizer;
  must(resizer.resize(image, box, width, height, filter, out));
  // A second time, with the weights and the memory of the first one.
  std::vector<uint8_t> again(out.size());
  must(resizer.resize(image, box, width, height, filter, again));
  CHECK(out == again);
  return out;
}

TEST_CASE("resizing gives Pillow's bits for every filter, size and box") {
  const auto colour = must(decode_image(image_file("rgb.png"), 3)),
             gray = must(decode_image(image_file("rgb.png"), 1));
  int cases = 0;
  for (const auto& [name, expected] : image_references()) {
    std::istringstream text(name);
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    if (words.size() != 3 || words[0] == "floats") continue;  // image_resize_test.cc has those
    INFO(name);
    std::optional<ResizeBox> box;
    if (words[0] == "box0") box = ResizeBox{3, 2, 33, 21};
    if (words[0] == "box1") box = ResizeBox{0.25f, 1.5f, 39.5f, 28.75f};
    const auto filter = resize_filter_from_name(words[1]);
    REQUIRE(filter);
    CHECK(resize_filter_name(*filter) == words[1]);
    const auto& image = words[0] == "gray" ? gray : colour;
    const auto out = resized(image.view(), box, expected.shape()[1], expected.shape()[0], *filter);
    CHECK(largest_difference(out, pixels_of(expected)) == 0);
    ++cases;
  }
  CHECK(cases == 35);
  CHECK(!resize_filter_from_name("hamming"));
}

TEST_CASE("vector instructions give the bits of the plain loops") {
  const RandomStream random(3, 0, 0);
  Image image = must(decode_image(image_file("420.jpg"), 3));
  for (int64_t y = 0; y < image.view().height; ++y) {
    for (int64_t x = 0; x < 3 * image.view().width; ++x) {
      // Black, white and random pixels: extremes overflow first.
      const double value = random.uniform_f64(static_cast<uint64_t>(y * 1000 + x));
      image.mutable_row(y)[x] = static_cast<uint8_t>(std::clamp(value * 512 - 128, 0.0, 255.0));
    }
  }
  const ImageView& view = image.view();
  for (const auto filter :
       {ResizeFilter::area, ResizeFilter::bilinear, ResizeFilter::bicubic, ResizeFilter::lanczos}) {
    for (const int64_t size : {1, 7, 16, 37, 75}) {
      const ResizeWeights across(view.width, 0, static_cast<float>(view.width), size, filter),
          down(view.height, 0, static_cast<float>(view.height), size, filter);
      std::vector<uint8_t> a(static_cast<size_t>(3 * view.width) + kResizeSlack), b(a.size());
      a.resize(std::max(a.size(), static_cast<size_t>(3 * size) + kResizeSlack));
      b.resize(a.size());
      for (int64_t y = 0; y + 1 < view.height; ++y) {
        resize_row(view.row(y), 3, across, size, a.data());
        resize_row_portable(view.row(y), 3, across, size, b.data());
        REQUIRE(std::memcmp(a.data(), b.data(), static_cast<size_t>(3 * size)) == 0);
      }
      for (int64_t y = 0; y < size; ++y) {
        resize_column(view, down, y, 3 * view.width, a.data());
        resize_column_portable(view, down, y, 3 * view.width, b.data(), 0);
        REQUIRE(std::memcmp(a.data(), b.data(), static_cast<size_t>(3 * view.width)) == 0);
      }
    }
  }
}

TEST_CASE("a part is resized as an image of its own") {
  const auto image = must(decode_image(image_file("rgb.png"), 3));
  const ImageView part = image.view().part({5, 3, 31, 27});
  const std::vector<uint8_t> alone = pixels_of(part);
  const ImageView copy{alone.data(), 31, 27, 3, 93};
  CHECK(resized(part, {}, 12, 40, ResizeFilter::lanczos) ==
        resized(copy, {}, 12, 40, ResizeFilter::lanczos));
  // Rows of a few bytes, with nothing behind the last one.
  for (int64_t width = 1; width < 7; ++width) {
    const ImageView narrow = image.view().part({7, 9, width, 8 - width});
    const std::vector<uint8_t> tight = pixels_of(narrow);
    CHECK(
        resized(narrow, {}, 9, 9, ResizeFilter::bilinear) ==
        resized({tight.data(), width, 8 - width, 3, 3 * width}, {}, 9, 9, ResizeFilter::bilinear));
  }
}

TEST_CASE("resizing refuses sizes and boxes that are none") {
  const auto image = must(decode_image(image_file("rgb.png"), 3));
  Resizer resizer;
  std::vector<uint8_t> out(300);
  const auto status = [&](const ResizeBox& box, int64_t width, int64_t height) {
    return resizer.resize(image.view(), box, width, height, ResizeFilter::area, out).message();
  };
  CHECK(status({0, 0, 40, 30}, 10, 10) == "");
  CHECK(status({0, 0, 41, 30}, 10, 10) ==
        "resize: expected a box within 40x30 pixels, received 0,0 to 41,30");
  CHECK(status({5, 0, 5, 30}, 10, 10) != "");
  CHECK(status({0, NAN, 5, 30}, 10, 10) != "");
  CHECK(status({0, 0, 40, 30}, 0, 10) ==
        "resize: expected 1 to 65500 rows and columns, received 0x10");
}

TEST_CASE("an image becomes planes, mirrored if asked to") {
  const std::vector<uint8_t> pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const ImageView view{pixels.data(), 2, 2, 3, 6};
  std::vector<uint8_t> planes(12);
  copy_to_planes(view, false, planes);
  CHECK(planes == std::vector<uint8_t>{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12});
  copy_to_planes(view, true, planes);
  CHECK(planes == std::vector<uint8_t>{4, 1, 10, 7, 5, 2, 11, 8, 6, 3, 12, 9});
}

}  // namespace
}  // namespace leat
