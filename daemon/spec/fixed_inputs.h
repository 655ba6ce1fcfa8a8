// The values of inputs that a job or a command fixes when a graph is loaded
// (ops/text/fix_inputs.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/text/fix_inputs.h"

namespace leat {

// Values by the names of the inputs, as model.fixed has them: "12", "[1, 2]". invalid_argument
// names the input of a text that is no value.
Result<FixedInputs> fixed_inputs_of(const std::map<std::string, std::string>& values);

// The same for texts "NAME=VALUE" of a command line, where a value may also be the path of an .npy
// file. invalid_argument for another form and for a name that is there twice; else errors of
// reading.
Result<FixedInputs> read_fixed_inputs(Files& files, const std::vector<std::string>& texts);

}  // namespace leat
