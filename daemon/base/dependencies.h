// The code of others that Leat is made of, with its versions: for `leat version --all`, and for the
// bill of materials that deploy/sbom makes from its output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace leat {

// A library, or headers alone.
struct Dependency {
  std::string name;     // as its authors write it: "oneDNN"
  std::string license;  // as SPDX has it: "Apache-2.0"
  // The version that Leat was compiled with: that of its headers, or of its package where headers
  // have none.
  std::string built;
  // The version that the loaded library tells; "" if it tells none, or is in the headers alone.
  std::string runs = {};
  // The names of its libraries that ours load, without version and ".so": "libdnnl". None if it is
  // in the headers alone.
  std::vector<std::string> libraries = {};
  // The paths of those that this process has loaded, without symbolic links.
  std::vector<std::string> files = {};
};

// All of them, in the order of their names. A test compares them with the libraries that our
// programs load. Threads: any.
std::vector<Dependency> dependencies();

// The compiler with its version: "GCC 12.2.0".
std::string_view compiler_version();

}  // namespace leat
