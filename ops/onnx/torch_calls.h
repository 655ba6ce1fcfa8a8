// The calls of a PyTorch program that the nodes of a file were made from. PyTorch's exporter writes
// the call into the metadata of each node, with the names of the parameters that it had, whatever
// became of them in the file. Private to ops/onnx.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// `%addmm : [...] = call_function[target=torch.ops.aten.addmm.default](args = (%p_b, %x, %p_w),
// kwargs = {})` has the function "addmm" and the arguments "%p_b", "%x" and "%p_w".
struct TorchCall {
  std::string function;                // of aten, without its overload
  std::vector<std::string> arguments;  // texts: "%p_b" names a value; others are "1e-05", "[3, 4]"
  std::optional<std::string> module;   // that made the call, such as "layers.0.fc", if it is known

  // The value that an argument names, such as "p_b"; "" if it is no name or not there.
  std::string_view named(size_t argument) const;
};

// The keys of the texts in a node's metadata.
inline constexpr std::string_view kTorchCallProperty = "pkg.torch.onnx.fx_node";
inline constexpr std::string_view kTorchScopesProperty = "pkg.torch.onnx.name_scopes";

// Reads the texts; nothing if `call` has another form, or calls no function of aten. The scopes are
// those of the modules from the outermost to the one that made the call, and the value's name:
// "['', 'layers', 'layers.0', 'add']".
std::optional<TorchCall> read_torch_call(std::string_view call, std::string_view scopes);

// False if a call did not use a parameter, not even through values that need no input of the model:
// a module uses its own parameters and the results of those inside it. True if it may have.
bool may_use(const TorchCall& call, std::string_view parameter);
// True if the module that made a call is inside the one that has the parameter, or is not known.
bool is_inside(const TorchCall& call, std::string_view parameter);

// Reads the signature of a module, which has a line "p_w: PARAMETER target='w'" for each member:
// the members' names, by those that calls know them under. Lines of another form are skipped.
std::map<std::string, std::string, std::less<>> read_torch_names(std::string_view signature);

}  // namespace leat
