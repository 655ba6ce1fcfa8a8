#include "daemon/spec/fixed_inputs.h"

#include <utility>

#include "devices/base/text.h"
#include "ops/formats/npy.h"

namespace leat {

Result<FixedInputs> fixed_inputs_of(const std::map<std::string, std::string>& values) {
  FixedInputs out;
  for (const auto& [name, text] : values) {
    auto value = parse_fixed_value(text);
    if (!value.ok())
      return invalid_argument(cat("fixed input '", name, "': ", value.status().message(),
                                  ", received '", text.substr(0, 100), "'"));
    out.emplace(name, std::move(*value));
  }
  return out;
}

Result<FixedInputs> read_fixed_inputs(Files& files, const std::vector<std::string>& texts) {
  FixedInputs out;
  std::map<std::string, std::string> values;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (equals == std::string::npos || name.empty())
      return invalid_argument(
          cat("--fix: expected NAME=VALUE or NAME=FILE.npy, received '", text, "'"));
    if (values.contains(name) || out.contains(name))
      return invalid_argument(cat("--fix: expected one value of '", name, "', received two"));
    std::string value = text.substr(equals + 1);
    if (!value.ends_with(".npy")) {
      values.emplace(name, std::move(value));
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(Tensor array, read_npy(files, value));
    out.emplace(name, std::move(array));
  }
  LEAT_ASSIGN_OR_RETURN(FixedInputs parsed, fixed_inputs_of(values));
  out.merge(parsed);
  return out;
}

}  // namespace leat
