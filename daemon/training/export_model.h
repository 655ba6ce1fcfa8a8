// Writes a trained model for other programs: as an ONNX file that they run, or its weights alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/spec/job.h"
#include "daemon/training/model.h"
#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// The folder within a run's folder for the files that the job's key `export` asks for.
inline constexpr const char* kRunExports = "export";

// "onnx", "safetensors" or "npz": what the names of such files end in, behind a dot.
std::string_view extension_of(Job::ExportFormat format);
// The format of a file by its name; nothing for another extension.
std::optional<Job::ExportFormat> export_format_of(std::string_view path);

// Writes variables by their names, as a whole or not at all. A safetensors file notes the step.
// unimplemented for an element type that the format lacks. REQUIRES: the format is not onnx.
Status export_variables(Files& files, const std::string& path, Job::ExportFormat format,
                        Variables variables, int64_t step);

// Writes the model in its form for inference, with these values of its variables, as write_onnx()
// does it. `opset`: of the file; without it that of the model's file, or a newer one if the nodes
// need it. Returns the opset.
Result<int64_t> export_onnx(Files& files, const std::string& path, const Model& model,
                            const Variables& variables, std::optional<int64_t> opset = {});

// Checks that the formats that the job asks for can be written: unimplemented names the nodes that
// ONNX lacks.
Status check_exports(const Job& job, const Model& model);

// Writes what the job asks for into the folder of its run: "export/model.onnx" and so on. Removes
// the files there that an earlier run wrote in other formats. `weights` are the variables after
// `step`, without the optimizer's.
Status write_exports(Files& files, const std::string& folder, const Job& job, const Model& model,
                     const Variables& weights, int64_t step);

}  // namespace leat
