// Tables for people, and the short forms of what stands in them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// A column that gives way where a line has no room for all of them: it becomes as narrow as `least`
// columns of the terminal, or goes if that is 0.
struct GivesWay {
  std::string_view header;
  size_t least = 0;
};

// How wide a table may be.
struct TableFit {
  size_t columns = 0;                   // of the terminal; 0: as wide as it is
  std::vector<GivesWay> give_way = {};  // in this order, until the lines fit
};

// Columns as wide as their widest cell, two spaces apart, each row a line; headers in the first, if
// wanted. Control characters in a cell are escaped. With a fit cells end in "..." where they are
// cut, and so do lines that are still too long. REQUIRES: rows are as long as the headers.
std::string format_table(const std::vector<std::string>& headers,
                         const std::vector<std::vector<std::string>>& rows, bool with_headers,
                         const TableFit& fit = {});

// "12s", "3m", "5h", "2d": how long ago, in the largest unit that fits.
std::string format_age(int64_t milliseconds);
// "-" for what is not known.
std::string or_dash(std::string text);
// `text`, or its beginning and "..." if it is wider than `most` characters of UTF-8.
std::string shortened(std::string_view text, size_t most);

}  // namespace leat
