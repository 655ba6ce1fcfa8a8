// The answers of S3 in XML: the list of keys (ListObjectsV2) and single elements. Private to
// ops/data.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

struct S3List {
  std::vector<std::string> names;  // of keys and of folders, behind the prefix and without '/'
  std::string next;                // the token of the next page; empty: this is the last
};

// Reads the XML of a page. invalid_argument for a text that is none: no end of an element, or a key
// that does not begin with the prefix.
Result<S3List> parse_s3_list(std::span<const std::byte> xml, std::string_view prefix);

// The text of the first element of that name; "" if there is none.
std::string s3_element(std::span<const std::byte> xml, std::string_view name);

}  // namespace leat
