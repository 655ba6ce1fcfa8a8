// The table of the formats of data. The names of its entries are those of `format` in a job file.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ops/data/source.h"

namespace leat {

// All formats, in the order in which messages list them.
std::span<const SourceFormat* const> source_formats();
// Null if no format has the name.
const SourceFormat* find_source_format(std::string_view name);
// The names for messages: "'idx', 'npy' or 'tokens'".
std::string source_format_names();

// The entries, each in a file of ops/data/sources/.
const SourceFormat& idx_source();
const SourceFormat& npy_source();
const SourceFormat& npz_source();
const SourceFormat& tokens_source();
const SourceFormat& synthetic_source();
const SourceFormat& csv_source();
const SourceFormat& tsv_source();
const SourceFormat& jsonl_source();
const SourceFormat& safetensors_source();
const SourceFormat& sqlite_source();
const SourceFormat& mixture_source();
const SourceFormat& image_folder_source();
const SourceFormat& webdataset_source();
const SourceFormat& tfrecord_source();

}  // namespace leat
