// Reads and prints data.transforms of a job file (scheduler/recipes/transform.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/yaml_reader.h"
#include "scheduler/recipes/transform.h"

namespace leat {

// Reads the key `transforms` of the map, if it is there. An entry is {NAME: ARGUMENTS}, perhaps
// with `column: COLUMN` beside the name. The arguments are a map, or the value of the first of
// them.
void read_transforms(YamlMap& data, std::vector<Transform>& out);

// The list with every argument, an entry on each line. `indent` begins each line.
std::string print_transforms(const std::vector<Transform>& transforms, std::string_view indent);

}  // namespace leat
