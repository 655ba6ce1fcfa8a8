// docs/gpu.md lists the ops that have no CUDA kernel, with the reasons.
#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/definitions/branches.h"
#include "tests/catch.h"

namespace leat {
namespace {

// The names in backquotes of the first column of the table behind the heading.
std::set<std::string> listed() {
  std::ifstream page(LEAT_SOURCE_DIR "/docs/gpu.md");
  std::set<std::string> names;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) inside = line == "## Ops without a kernel";
    if (!inside || !line.starts_with("| `")) continue;
    const std::string column = line.substr(0, line.find('|', 1));
    for (size_t at = 0; (at = column.find('`', at)) != std::string::npos;) {
      const size_t end = column.find('`', at + 1);
      names.insert(column.substr(at + 1, end - at - 1));
      at = end + 1;
    }
  }
  return names;
}

}  // namespace

TEST_CASE("the page about GPUs lists the ops that have no CUDA kernel") {
  Catalogue catalogue = standard_catalogue();
  cuda::add_cuda_kernels(catalogue);
  std::set<std::string> missing;
  for (const OpDef* op : catalogue.all()) {
    if (op->kernels.contains("cpu") && !op->kernels.contains("cuda") && op->domain != kWhen)
      missing.insert(op->full_name());
  }
  std::vector<std::string> not_listed, not_missing;
  const std::set<std::string> on_page = listed();
  std::set_difference(missing.begin(), missing.end(), on_page.begin(), on_page.end(),
                      std::back_inserter(not_listed));
  std::set_difference(on_page.begin(), on_page.end(), missing.begin(), missing.end(),
                      std::back_inserter(not_missing));
  INFO("not on the page: " << join(not_listed, " ")
                           << "; on it, but there is a kernel: " << join(not_missing, " "));
  CHECK(not_listed.empty());
  CHECK(not_missing.empty());
}

}  // namespace leat
