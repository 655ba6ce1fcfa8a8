// Tables for people, and short forms of the values in them. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// A column that becomes narrower if a line is too long: it shrinks to `least` columns of the
// terminal, or disappears if that is 0.
struct GivesWay {
  std::string_view header;
  size_t least = 0;
};

// The limit of a table's width.
struct TableFit {
  size_t columns = 0;                   // of the terminal; 0: no limit
  std::vector<GivesWay> give_way = {};  // in this order, until the lines fit
};

// Formats a table whose columns are as wide as their widest cell, two spaces apart, with one line
// for each row, and a line of headers if wanted. Escapes control characters in cells. Cells that
// `fit` cuts end in "...", and so do lines that are still too long. REQUIRES: rows are as long as
// the headers. The width of a cell is its number of UTF-8 characters.
std::string format_table(const std::vector<std::string>& headers,
                         const std::vector<std::vector<std::string>>& rows, bool with_headers,
                         const TableFit& fit = {});

// Returns an age in its largest unit: "12s", "3m", "5h", "2d".
std::string format_age(int64_t milliseconds);
// Returns "-" for an empty text.
std::string or_dash(std::string text);

}  // namespace leat
