#include "daemon/training/export_model.h"

#include <algorithm>
#include <utility>

#include "daemon/base/version.h"
#include "devices/base/text.h"
#include "ops/formats/npz.h"
#include "ops/formats/safetensors.h"
#include "ops/onnx/export.h"

namespace leat {
namespace {

using Format = Job::ExportFormat;

OnnxExportOptions onnx_options(const Model& model, std::optional<int64_t> opset) {
  OnnxExportOptions options;
  options.opset = opset;
  options.source_opset = model.opset;
  options.version = leat_version();
  return options;
}

// The folder of `path` may be missing, or be a file.
Status remove_if_there(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(path));
  return there ? files.remove_all(path) : Status();
}

}  // namespace

// The names of the formats in the job file are their extensions.
std::string_view extension_of(Format format) { return name_of(format); }

std::optional<Format> export_format_of(std::string_view path) {
  for (const Format format : {Format::onnx, Format::safetensors, Format::npz}) {
    if (path.ends_with(cat(".", extension_of(format)))) return format;
  }
  return std::nullopt;
}

Status export_variables(Files& files, const std::string& path, Format format, Variables variables,
                        int64_t step) {
  if (format == Format::npz) {
    LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(path)));
    return write_file_atomically(
        files, path, [&](const TakeBytes& take) { return format_npz(variables, take); });
  }
  SafeTensors content;
  content.tensors = std::move(variables);
  // The format "pt" tells readers of PyTorch that they may load the file.
  content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(step)}};
  return write_safetensors(files, path, content);
}

Result<int64_t> export_onnx(Files& files, const std::string& path, const Model& model,
                            const Variables& variables, std::optional<int64_t> opset) {
  LEAT_ASSIGN_OR_RETURN(
      const OnnxExported exported,
      write_onnx(files, path, model.inference, variables, onnx_options(model, opset)));
  return exported.opset;
}

Status check_exports(const Job& job, const Model& model) {
  if (std::find(job.exports.begin(), job.exports.end(), Format::onnx) == job.exports.end())
    return {};
  return check_onnx_export(model.inference, onnx_options(model, {}))
      .status()
      .while_doing("checking 'export: [onnx]' of the job");
}

Status write_exports(Files& files, const std::string& folder, const Job& job, const Model& model,
                     const Variables& weights, int64_t step) {
  const std::string exports = cat(folder, "/", kRunExports);
  // An earlier run in this folder may have left other formats, and data beside its model.
  for (const Format format : {Format::onnx, Format::safetensors, Format::npz}) {
    if (std::find(job.exports.begin(), job.exports.end(), format) != job.exports.end()) continue;
    const std::string path = cat(exports, "/model.", extension_of(format));
    LEAT_RETURN_IF_ERROR(remove_if_there(files, path));
    if (format == Format::onnx) LEAT_RETURN_IF_ERROR(remove_if_there(files, path + ".data"));
  }
  if (job.exports.empty()) return {};
  LEAT_RETURN_IF_ERROR(files.make_directories(exports));
  for (const Format format : job.exports) {
    const std::string path = cat(exports, "/model.", extension_of(format));
    const Status written = format == Format::onnx
                               ? export_onnx(files, path, model, weights).status()
                               : export_variables(files, path, format, weights, step);
    LEAT_RETURN_IF_ERROR(written.while_doing(cat("exporting to ", path)));
  }
  return {};
}

}  // namespace leat
