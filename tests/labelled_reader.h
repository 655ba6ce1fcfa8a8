// The attributes of a reader of images and classes, for tests that make a training graph by hand.
#pragma once

#include <string>

#include "ops/definitions/input.h"

namespace leat::testing {

// Files of bytes with the columns "features", of rows of this shape, and "labels", scalars.
inline Attrs labelled_reader(const std::string& format, const std::string& features,
                             const std::string& labels, const Shape& row) {
  DatasetInfo info;
  info.columns = {{"features", DType::u8, row}, {"labels", DType::u8, {}}};
  return reader_attributes(labelled_files(format, features, labels, ""), info);
}

}  // namespace leat::testing
