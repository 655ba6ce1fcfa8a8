// The names of values in the job file, in the order of the enums of job.h.
#pragma once

#include <array>
#include <string_view>

#include "devices/base/dtype.h"

namespace leat::job_names {

// The types of tokens in files without a header. The first one is the default.
inline constexpr auto kTokenTypes = std::to_array<std::string_view>(
    {"uint16", "uint8", "uint32", "uint64", "int8", "int16", "int32", "int64"});
inline constexpr auto kModes = std::to_array<std::string_view>({"sync", "async"});
inline constexpr auto kDroppedSamples = std::to_array<std::string_view>({"requeue", "drop"});
inline constexpr auto kOnNan = std::to_array<std::string_view>({"fail", "ignore", "skip"});
// The last names are short for others. Commands and pages write the long ones.
inline constexpr auto kPrecisions =
    std::to_array<std::string_view>({"float32", "float64", "bfloat16", "float16", "bf16", "fp16"});
inline constexpr auto kPrecisionTypes =
    std::to_array({DType::f32, DType::f64, DType::bf16, DType::f16, DType::bf16, DType::f16});
inline constexpr auto kMatmulPrecisions = std::to_array<std::string_view>({"float32", "tf32"});
inline constexpr auto kExports = std::to_array<std::string_view>({"onnx", "safetensors", "npz"});

}  // namespace leat::job_names
