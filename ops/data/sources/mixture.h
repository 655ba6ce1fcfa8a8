// The parts of a mixture of data sets, as options of the format `mixture`, and back.
#pragma once

#include <string>
#include <vector>

#include "ops/data/dataset_files.h"

namespace leat {

struct MixturePart {
  std::string name;    // for messages
  double weight = 1;   // in proportion to the others
  DatasetFiles names;  // without columns
};

// The parts in the order of the options; none if the options are not those of a mixture.
std::vector<MixturePart> mixture_parts(const DatasetFiles& names);
// Adds the texts of a part to the options of a mixture.
void add_mixture_part(const MixturePart& part, std::vector<std::string>& options);

}  // namespace leat
