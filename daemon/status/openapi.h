// The OpenAPI document of a master's JSON, made from the same facts as the JSON itself.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace leat {

// Returns an OpenAPI 3.0 document on one line: all paths under /api/v1 and the objects that they
// answer with. `version` is that of the program.
std::string openapi_json(std::string_view version);

}  // namespace leat
