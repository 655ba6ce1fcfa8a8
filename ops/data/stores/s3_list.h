// The answer of S3 to a request for a list of keys (ListObjectsV2). Private to ops/data.
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

}  // namespace leat
