// The attributes of the input readers, for their definitions and their kernels.
//
// leat.ReadBatch has the types of its columns from attributes, so that a graph can be compiled
// without its files. The kernel compares the attributes with the files when it is made, and returns
// failed_precondition if they differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/data/dataset.h"
#include "ops/graph/attrs.h"

namespace leat {

// The op that reads the next batch of a data set.
inline constexpr std::string_view kReadBatch = "leat.ReadBatch";

// The columns that a reader may have: with the weights, its outputs stay below 32.
inline constexpr size_t kMostColumns = 30;

// The text of a column's type as an attribute: "uint8[28,28]", "int64[]" for scalars.
std::string column_type_text(const ColumnInfo& column);
// Reads such a text; the result has no name. invalid_argument for an unknown dtype, a negative size
// or more sizes than kMaxRank - 1: a batch has one dimension more.
Result<ColumnInfo> parse_column_type(std::string_view text);

// The files and columns of a reader, without the root, and back. The attributes are
// `format`, `files`, `columns` and `types`; for tokens also `window`, `stride` and `token_dtype`;
// and `options` if the format has any.
Attrs reader_attributes(const DatasetFiles& names, const DatasetInfo& info);
DatasetFiles reader_files(const Attrs& attrs, std::string root);
// The columns that the attributes `columns` and `types` describe. invalid_argument if they have
// different lengths, if there are none, and for texts that parse_column_type() and
// parse_column_view() refuse.
Result<std::vector<ColumnInfo>> reader_columns(const Attrs& attrs);

}  // namespace leat
