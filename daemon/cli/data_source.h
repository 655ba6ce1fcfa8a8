// The argument SOURCE of `leat data`: the sets of data of a job file, or a file that tells what it
// is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/data/dataset.h"

namespace leat {

// A set of data that a command reads.
struct NamedData {
  std::string name;  // train, validation or the name of another set; "data" without a job file
  DatasetFiles names;
  std::vector<std::string> notes;  // sentences about a guess
};

// Finds the sets that `source` names:
//
//   job.yaml                           those of data.train and data.validation, in this order; the
//                                      model is not looked at
//   '{format: csv, files: a.csv}'      a map as data.train takes it, with paths relative to the
//                                      working directory
//   people.csv                         a file or a folder whose name tells the format, also of a
//                                      store: see ops/data/guess.h, also for most_records
//
// The errors are those of load_job(), guess_dataset() and of reading; failed_precondition for a job
// without data.
Result<std::vector<NamedData>> find_data(Files& files, const std::string& source,
                                         int64_t most_records);
// The path on this machine that `source` is; empty for a map and for a file of a store.
std::string path_of_source(const std::string& source);

// True for each column of `info` whose bytes are a text, filled up with zeros.
std::vector<bool> text_columns(const DatasetFiles& names, const DatasetInfo& info);

}  // namespace leat
