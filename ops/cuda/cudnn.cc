#include "ops/cuda/cudnn.h"

#include <algorithm>
#include <utility>

#include "devices/base/text.h"
#include "devices/cuda/loaded_library.h"

namespace leat::cuda {
namespace {

constexpr int64_t kOperandAlignment = 16;  // of operands, in bytes
constexpr int64_t kMostConvWorkspace = int64_t{256} << 20;
constexpr int64_t kX = 'x', kY = 'y', kW = 'w';  // the operands' names

bool cudnn_ok(cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; }

cudnnDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return CUDNN_DATA_FLOAT;
  }
}

// A tensor [N, C, ...] whose last axis is contiguous, or whose channels are, which come last then.
CudnnDescriptor tensor(const CudnnFunctions& f, int64_t name, DType dtype, bool channels_last,
                       const std::vector<int64_t>& sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * sizes[i + 1];
  if (channels_last) {
    int64_t step = sizes[1];
    strides[1] = 1;
    for (size_t i = sizes.size(); i-- > 2; step *= sizes[i]) strides[i] = step;
  }
  const auto rank = static_cast<int64_t>(sizes.size());
  CudnnDescriptor made(f, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, name);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, data_type(dtype));
  made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kOperandAlignment);
  made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, sizes.data());
  made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides.data());
  made.finalize();
  return made;
}

// The last `rank` of three axes.
std::vector<int64_t> last(const int64_t (&values)[3], size_t rank) {
  return {values + (3 - rank), values + 3};
}

CudnnDescriptor convolution(const CudnnFunctions& f, const WindowShape& window, size_t rank,
                            DType dtype) {
  const auto axes = static_cast<int64_t>(rank);
  CudnnDescriptor made(f, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t sums = dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  made.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, sums);
  made.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, axes);
  const auto list = [&](cudnnBackendAttributeName_t attribute, const int64_t(&values)[3]) {
    made.set(attribute, CUDNN_TYPE_INT64, axes, last(values, rank).data());
  };
  list(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation);
  list(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride);
  list(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.begin);
  list(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.end);
  made.finalize();
  return made;
}

// The names of an operation's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, y, w;
};
constexpr OperationNames kForward = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W};
constexpr OperationNames kBackwardData = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W};
constexpr OperationNames kBackwardWeights = {
    CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW};
const OperationNames& names_of(ConvOp op) {
  return op == ConvOp::forward         ? kForward
         : op == ConvOp::backward_data ? kBackwardData
                                       : kBackwardWeights;
}

}  // namespace

Result<CudnnFunctions> load_cudnn_from(const std::vector<std::string>& paths) {
  LEAT_ASSIGN_OR_RETURN(LoadedLibrary library, LoadedLibrary::open(paths));
  CudnnFunctions found{};
  library.find(found.get_version, "cudnnGetVersion");
  library.find(found.create, "cudnnCreate");
  library.find(found.destroy, "cudnnDestroy");
  library.find(found.set_stream, "cudnnSetStream");
  library.find(found.create_descriptor, "cudnnBackendCreateDescriptor");
  library.find(found.destroy_descriptor, "cudnnBackendDestroyDescriptor");
  library.find(found.set, "cudnnBackendSetAttribute");
  library.find(found.get, "cudnnBackendGetAttribute");
  library.find(found.finalize, "cudnnBackendFinalize");
  library.find(found.execute, "cudnnBackendExecute");
  LEAT_RETURN_IF_ERROR(library.status());
  return found;
}

CudnnDescriptor::CudnnDescriptor(const CudnnFunctions& functions, cudnnBackendDescriptorType_t type)
    : functions_(&functions), ok_(cudnn_ok(functions.create_descriptor(type, &descriptor_))) {}

CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : functions_(other.functions_),
      descriptor_(std::exchange(other.descriptor_, nullptr)),
      ok_(other.ok_) {}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_) (void)functions_->destroy_descriptor(descriptor_);
}

bool CudnnDescriptor::set(cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type,
                          int64_t count, const void* values) {
  ok_ = ok_ && cudnn_ok(functions_->set(descriptor_, attribute, type, count, values));
  return ok_;
}

bool CudnnDescriptor::finalize() {
  ok_ = ok_ && cudnn_ok(functions_->finalize(descriptor_));
  return ok_;
}

Result<std::unique_ptr<Cudnn>> Cudnn::open(CudaDevice& device) {
  LEAT_ASSIGN_OR_RETURN(const CudnnFunctions functions, load_cudnn());
  std::unique_ptr<Cudnn> library(new Cudnn(functions));
  if (const cudnnStatus_t status = functions.create(&library->handle_); !cudnn_ok(status))
    return internal_error(cat(device.name(), ": cudnnCreate: status ", static_cast<int>(status)));
  return library;
}

const Cudnn* Cudnn::of(const Device& device) {
  return static_cast<const Cudnn*>(static_cast<const CudaDevice&>(device).library(kName));
}

Cudnn::~Cudnn() {
  if (handle_) (void)functions_.destroy(handle_);
}

// The library writes 9.19.0 as 91900.
std::string Cudnn::version() const {
  const size_t number = functions_.get_version();
  return cat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

std::shared_ptr<ConvPlan> ConvPlan::make(const CudnnTarget& target, const ConvCall& call, ConvOp op,
                                         const Elements& elements) {
  const DType dtype = elements.dtype;
  const WindowShape& window = call.window;
  if (call.images * call.inputs * call.outputs * window.input_area() * window.output_area() == 0)
    return nullptr;
  const CudnnFunctions& f = *target.functions;
  // The library has two axes or three.
  const bool flat = window.input[0] == 1 && window.output[0] == 1 && window.kernel[0] == 1;
  const size_t rank = flat ? 2 : 3;
  const auto sizes = [&](int64_t first, int64_t second, const int64_t(&spatial)[3]) {
    std::vector<int64_t> all{first, second};
    const std::vector<int64_t> rest = last(spatial, rank);
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
  };
  const bool last = call.channels_last;
  const CudnnDescriptor x =
      tensor(f, kX, dtype, last, sizes(call.images, call.inputs, window.input));
  const CudnnDescriptor y =
      tensor(f, kY, dtype, last, sizes(call.images, call.outputs, window.output));
  const CudnnDescriptor w =
      tensor(f, kW, dtype, last, sizes(call.outputs, call.inputs / call.groups, window.kernel));
  const CudnnDescriptor shape = convolution(f, window, rank, dtype);
  const OperationNames& names = names_of(op);
  CudnnDescriptor operation(f, names.type);
  operation.set(names.convolution, shape);
  operation.set(names.x, x);
  operation.set(names.y, y);
  operation.set(names.w, w);
  if (dtype == DType::f64) {
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
    operation.set(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
  } else {
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  }
  std::shared_ptr<ConvPlan> plan(new ConvPlan(target));
  return operation.finalize() && plan->choose(operation, elements) ? plan : nullptr;
}

// Takes the first engine of the heuristics that accept() has no objection to.
bool ConvPlan::choose(const CudnnDescriptor& operation, const Elements& elements) {
  const CudnnFunctions& f = *target_.functions;
  CudnnDescriptor graph(f, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target_.handle)
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, target_.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  if (!graph.finalize()) return false;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    CudnnDescriptor heuristics(f, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (target_.device)
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                     target_.device);
    int64_t count = 0;
    if (!heuristics.finalize() ||
        !cudnn_ok(f.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr)))
      continue;
    std::vector<CudnnDescriptor> configs;
    std::vector<cudnnBackendDescriptor_t> into;
    for (int64_t i = 0; i < count; ++i) {
      configs.emplace_back(f, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
      into.push_back(configs.back().get());
    }
    if (!cudnn_ok(f.get(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, into.data())))
      continue;
    for (int64_t i = 0; i < count; ++i) {
      if (accept(configs[static_cast<size_t>(i)], elements)) return true;
    }
  }
  return false;
}

namespace {

// Whether an engine with this property computes what the elements may be computed in.
bool allows(cudnnBackendNumericalNote_t note, const ConvPlan::Elements& elements) {
  const bool is_half = elements.dtype == DType::f16 || elements.dtype == DType::bf16;
  const bool in_tf32 = elements.tf32 && elements.dtype == DType::f32;
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP:
      return true;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return is_half || in_tf32;
    // CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS is no TF32: inputs of 16 bits have another range.
    default:
      return false;
  }
}

}  // namespace

bool ConvPlan::accept(const CudnnDescriptor& config, const Elements& elements) {
  const CudnnFunctions& f = *target_.functions;
  const CudnnDescriptor engine(f, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t into = engine.get();
  int64_t count = 0;
  if (!cudnn_ok(f.get(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                      &count, &into)))
    return false;
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  if (!cudnn_ok(f.get(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                      CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes)))
    return false;
  for (int64_t i = 0; i < count; ++i) {
    if (!allows(notes[i], elements)) return false;
  }
  cudnnBackendBehaviorNote_t behaviors[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  if (!cudnn_ok(f.get(engine.get(), CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                      CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, behaviors)))
    return false;
  if (std::find(behaviors, behaviors + count, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) !=
      behaviors + count)
    return false;
  auto plan = std::make_unique<CudnnDescriptor>(f, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (target_.handle)
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target_.handle);
  if (target_.device)
    plan->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, target_.device);
  int64_t workspace = 0;
  if (!plan->finalize() || !cudnn_ok(f.get(plan->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                           CUDNN_TYPE_INT64, 1, &count, &workspace)))
    return false;
  if (workspace > kMostConvWorkspace) return false;
  plan_ = std::move(plan);
  workspace_bytes_ = static_cast<size_t>(workspace);
  return true;
}

bool ConvPlan::takes(const ConvCall& call) {
  for (const void* operand : {call.x, call.y, call.w}) {
    if (reinterpret_cast<uintptr_t>(operand) % kOperandAlignment != 0) return false;
  }
  return true;
}

cudaError_t ConvPlan::enqueue(const ConvCall& call, void* workspace, cudaStream_t stream) const {
  const CudnnFunctions& f = *target_.functions;
  CudnnDescriptor pack(f, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const int64_t names[] = {kX, kY, kW};
  void* const operands[] = {call.x, call.y, call.w};
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, names);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, operands);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  if (pack.finalize() && cudnn_ok(f.set_stream(target_.handle, stream)) &&
      cudnn_ok(f.execute(target_.handle, plan_->get(), pack.get())))
    return cudaSuccess;
  const cudaError_t error = cudaPeekAtLastError();
  return error == cudaSuccess ? cudaErrorLaunchFailure : error;
}

}  // namespace leat::cuda
