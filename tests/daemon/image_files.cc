#include "tests/daemon/image_files.h"

#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "devices/base/text.h"
#include "tests/sample_files.h"

namespace leat {

void write_image_files(const std::string& folder, int rows, int classes) {
  std::vector<std::pair<std::string, std::string>> shards[2];
  std::vector<std::string> records;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(cat(folder, "/", name), std::ios::binary) << bytes;
  };
  for (int row = 0; row < rows; ++row) {
    const int label = row * classes / rows;
    const std::string image =
        png_of(static_cast<uint32_t>(9 + row % 4), 8, [&](uint32_t x, uint32_t y, int c) {
          const auto noise = static_cast<uint32_t>(row * 37) + x * 11 + y * 23;
          return static_cast<uint8_t>(noise % 60 + (c == label % 3 ? 180 : 20));
        });
    // Names of one length, so that their order is that of the numbers.
    const std::string name = std::to_string(100 + row),
                      of_class = cat("train/class-", label < 10 && classes > 10 ? "0" : "", label);
    std::filesystem::create_directories(cat(folder, "/", of_class));
    write(cat(of_class, "/", name, ".png"), image);
    auto& shard = shards[row * 2 < rows ? 0 : 1];
    shard.emplace_back(name + ".png", image);
    shard.emplace_back(name + ".cls", std::to_string(label));
    records.push_back(example_of(
        {feature_of("image", texts_of({image})), feature_of("labels", integers_of({label}))}));
  }
  for (const int i : {0, 1}) write(cat("shard-", i, ".tar"), tar_of(shards[i]));
  write("train.tfrecord", tfrecord_of(records));
}

std::string image_source(const std::string& format) {
  const std::string crop = "size: 6, crop: random_resized, flip: 0.5}";
  if (format == "image_folder") return cat("{format: image_folder, files: train, ", crop);
  if (format == "webdataset") {
    return cat("{format: webdataset, files: 'shard-*.tar', columns: {image: {ext: png, ", crop,
               ", labels: {ext: cls, dtype: int64}}}");
  }
  return cat("{format: tfrecord, files: train.tfrecord, columns: {image: {", crop,
             ", labels: {dtype: int64}}}");
}

}  // namespace leat
