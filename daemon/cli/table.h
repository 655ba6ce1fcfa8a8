// Tables for people, and the short forms of what stands in them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// Columns as wide as their widest cell, two spaces apart, each row a line; headers in the first, if
// wanted. Control characters in a cell are escaped. REQUIRES: rows are as long as the headers.
std::string format_table(const std::vector<std::string>& headers,
                         const std::vector<std::vector<std::string>>& rows, bool with_headers);

// "12s", "3m", "5h", "2d": how long ago, in the largest unit that fits.
std::string format_age(int64_t milliseconds);
// "-" for what is not known.
std::string or_dash(std::string text);
// `text`, or its beginning and "..." if it is longer than `most`.
std::string shortened(std::string_view text, size_t most);

}  // namespace leat
