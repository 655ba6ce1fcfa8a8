// Reads and prints `data.train` and `data.validation` of a job file: a format and its files. The
// keys of a format are those of its SourceFormat (ops/data/source.h).
#pragma once

#include <string>
#include <vector>

#include "daemon/base/yaml_reader.h"
#include "daemon/spec/job.h"

namespace leat {

// The reader of the map gets the errors: unknown formats and keys, values outside of their limits.
void read_data_files(YamlMap map, Job::Files& files);
// "{format: csv, files: [a.csv], ...}". The text reads back as the same files.
std::string print_data_files(const Job::Files& files);

// Reads a map from names of columns to a text each, as "NAME=VALUE". `paths`: the texts are paths
// below data.root; otherwise columns, as parse_column_view() takes them.
std::vector<std::string> read_named_texts(YamlMap map, bool paths);
// Prints "NAME=VALUE" entries as a map.
std::string print_named_texts(const std::vector<std::string>& items);

}  // namespace leat
