// The option --data of the commands that use a trained model: data in place of the job's own.
#pragma once

#include <string>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// Returns the overrides of a run's job file that make the data of the option its validation data.
// An entry is either a map as the key data.validation takes it, with paths relative to the working
// directory, or "COLUMN=FILE" for each column, where FILE is .npy or IDX, also with .gz: one format
// for all. invalid_argument for other texts, and for a map with anything beside it.
//
//   --data '{format: npz, files: new.npz}'      --data features=x.npy --data labels=y.npy
Result<std::vector<std::string>> data_overrides(const std::vector<std::string>& data);

// The format of a file of one array by its name: "npy" or "idx".
std::string array_format(const std::string& path);

}  // namespace leat
