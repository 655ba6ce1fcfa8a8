// The names of the classes that a model was trained on, in a run's folder: classes.txt. The data
// gives them if it knows them, as an image folder does, and predictions can then name the classes.
//
// Each line is the name of one class, in the order of their numbers. In a name, "\\" stands for a
// backslash and "\n" for the end of a line.
#pragma once

#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Writes the file, unless it has these names already. Without names nothing is written.
Status keep_class_names(Files& files, const std::string& folder,
                        const std::vector<std::string>& names);
// The names, by their numbers; empty if the folder has none.
Result<std::vector<std::string>> read_class_names(Files& files, const std::string& folder);

}  // namespace leat
