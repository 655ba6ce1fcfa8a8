// The description of a data set as its files themselves give it, for commands that look at a file
// of which no job file tells the columns. A training never guesses: its job file says what it
// reads.
//
//   LEAT_ASSIGN_OR_RETURN(const GuessedData data, guess_dataset(files, "people.csv", 1000));
//   data.names.options;   // "columns:age=", "columns:age:dtype=int64", ...
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/data/dataset_files.h"

namespace leat {

// A description, and sentences about what it leaves out or fills in.
struct GuessedData {
  DatasetFiles names;
  std::vector<std::string> notes;
};

// The extensions that guess_dataset() knows, for help and messages.
inline constexpr char kGuessedFiles[] =
    ".npy, .npz, .idx, .csv, .tsv, .jsonl, .sqlite, .db, .safetensors, .tfrecord, .tar or a folder "
    "of images";

// Finds the format by the name of the file, and the columns by its first `most_records` records:
//
//   csv, tsv, jsonl, sqlite  a column for each field: int64 if all values are integers, else
//   float64
//                            if they are numbers, else the bytes of the longest text; a number that
//                            is missing becomes 0
//   webdataset, tfrecord     a column for each extension or feature; images have the size of the
//                            first one
//   image_folder             images of the size of the first one
//   npy, idx                 one column with the name of the file
//
// Threads: any. It blocks as long as the file system takes. invalid_argument for a name that tells
// no format and for a file without a record that is good; the errors of reading, also those of a
// store that does not list a folder.
Result<GuessedData> guess_dataset(Files& files, const std::string& path, int64_t most_records);

}  // namespace leat
