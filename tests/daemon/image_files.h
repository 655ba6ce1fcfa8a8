// The same images in a folder, in tar shards and in TFRecord, for tests of trainings on them.
#pragma once

#include <string>

namespace leat {

inline constexpr const char* kImageFormats[] = {"image_folder", "webdataset", "tfrecord"};

// Writes so many images in each of the formats into the folder. Row i is of the class
// i * classes / rows, and each class is bright in one of three colours. REQUIRES: at most 100
// classes.
void write_image_files(const std::string& folder, int rows, int classes);

// The value of `data.train`: random crops of 6 x 6 pixels as the column `image`, and `labels`.
std::string image_source(const std::string& format);

}  // namespace leat
