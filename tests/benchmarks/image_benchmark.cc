// Images per second of CPU time that the rows of an image folder take: read, decoded, cropped,
// resized, mirrored and normalized to floats. Beside it the bare work: decode all of an image and
// resize it.
//
//   image_benchmark FOLDER [SECONDS]    prints one JSON line; FOLDER has a folder for each class
//   image_benchmark --quick             on two images of the tests
//
// Time is that of the CPU, so that another program on the machine changes little.
#include <ctime>
#include <filesystem>
#include <iostream>
#include <vector>

#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/images/geometry.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr int64_t kSide = 224;
constexpr size_t kPixels = 3 * kSide * kSide;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Calls `work` with 0, 1, ... for that time, after the first few, and returns calls per second.
template <typename F>
Result<double> rate_of(double seconds, F work) {
  for (int64_t i = 0; i < 8; ++i) LEAT_RETURN_IF_ERROR(work(i));
  const double begin = cpu_seconds();
  for (int64_t i = 0;; ++i) {
    LEAT_RETURN_IF_ERROR(work(i));
    if (const double used = cpu_seconds() - begin; used > seconds)
      return static_cast<double>(i + 1) / used;
  }
}

// The mean and the deviation that models of ImageNet are trained with.
void normalize(const std::vector<uint8_t>& pixels, std::vector<float>& out) {
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f}, kDeviation[] = {0.229f, 0.224f, 0.225f};
  for (size_t c = 0; c < 3; ++c) {
    const float scale = 1.0f / (255.0f * kDeviation[c]), shift = -kMean[c] / kDeviation[c];
    const uint8_t* in = pixels.data() + c * kSide * kSide;
    float* to = out.data() + c * kSide * kSide;
    for (size_t i = 0; i < kSide * kSide; ++i) to[i] = static_cast<float>(in[i]) * scale + shift;
  }
}

Status measure(const std::string& folder, double seconds) {
  DatasetFiles names;
  names.format = "image_folder";
  names.files = {folder};
  names.options = {cat("size=", kSide), "crop=random_resized", "flip=0.5"};
  LEAT_ASSIGN_OR_RETURN(const auto data, Dataset::open(real_files(), names));
  const int64_t rows = data->info().count;
  std::vector<uint8_t> pixels(kPixels);
  std::vector<float> floats(kPixels);
  std::vector<std::byte*> outs{reinterpret_cast<std::byte*>(pixels.data()), nullptr};
  LEAT_ASSIGN_OR_RETURN(const double pipeline, rate_of(seconds, [&](int64_t i) -> Status {
                          const RowKey key{1, static_cast<uint64_t>(i)};
                          LEAT_RETURN_IF_ERROR(data->read_row(i % rows, key, outs));
                          normalize(pixels, floats);
                          return {};
                        }));
  // The same files, already in memory.
  std::vector<Bytes> encoded;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file()) continue;
    LEAT_ASSIGN_OR_RETURN(Bytes bytes, read_file(real_files(), each.path().string(), 1 << 26));
    encoded.push_back(std::move(bytes));
  }
  Resizer resizer;
  LEAT_ASSIGN_OR_RETURN(
      const double bare, rate_of(seconds, [&](int64_t i) -> Status {
        LEAT_ASSIGN_OR_RETURN(const Image image,
                              decode_image(encoded[static_cast<size_t>(i) % encoded.size()], 3));
        return resizer.resize(image.view(), {}, kSide, kSide, ResizeFilter::bilinear, pixels);
      }));
  LEAT_ASSIGN_OR_RETURN(
      const double decode, rate_of(seconds, [&](int64_t i) -> Status {
        return decode_image(encoded[static_cast<size_t>(i) % encoded.size()], 3).status();
      }));
  std::cout << "{\"images\": " << rows << ", \"pipeline\": " << pipeline
            << ", \"decode_and_resize\": " << bare << ", \"decode\": " << decode << "}\n";
  return {};
}

// A folder with two of the tests' images.
Status measure_quickly() {
  const TemporaryDirectory directory;
  for (const char* name : {"420.jpg", "progressive.jpg"}) {
    const std::string folder = directory / std::string(name).substr(0, 3);
    std::filesystem::create_directories(folder);
    std::filesystem::copy(cat(LEAT_SOURCE_DIR, "/tests/ops/images/", name), folder);
  }
  return measure(directory.path(), 0.01);
}

}  // namespace
}  // namespace leat

int main(int count, char** arguments) {
  const std::string first = count > 1 ? arguments[1] : "";
  if (first.empty() || count > 3) {
    std::cerr << "usage: image_benchmark FOLDER [SECONDS] | --quick\n";
    return 2;
  }
  const double seconds = count > 2 ? std::atof(arguments[2]) : 3;
  const leat::Status status =
      first == "--quick" ? leat::measure_quickly() : leat::measure(first, seconds);
  if (!status.ok()) std::cerr << "image_benchmark: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
