#include "ops/onnx/torch_calls.h"

#include "ops/graph/limits.h"

namespace leat {
namespace {

// Takes the text up to `end` off the front of `text`, with `end`; all of it if there is no `end`.
std::string_view take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + end.size());
  return taken;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The texts between the commas, up to the ')' that ends the list. Brackets inside belong together.
std::vector<std::string> read_arguments(std::string_view text) {
  std::vector<std::string> arguments;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size() && arguments.size() < limits::kOperands; ++i) {
    const char c = text[i];
    const bool ends = depth == 0 && (c == ',' || c == ')');
    if (ends) {
      const std::string_view argument = stripped(text.substr(begin, i - begin));
      if (!argument.empty()) arguments.emplace_back(argument);
      begin = i + 1;
    }
    if (ends && c == ')') break;
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
  }
  return arguments;
}

// The last scope but one; nothing if there are fewer.
std::optional<std::string> read_module(std::string_view scopes) {
  std::optional<std::string> last, module;
  while (!scopes.empty()) {
    take_until(scopes, "'");
    if (scopes.empty()) break;
    module = std::move(last);
    last = std::string(take_until(scopes, "'"));
  }
  return module;
}

}  // namespace

std::string_view TorchCall::named(size_t argument) const {
  if (argument >= arguments.size() || !arguments[argument].starts_with('%')) return {};
  return std::string_view(arguments[argument]).substr(1);
}

std::optional<TorchCall> read_torch_call(std::string_view call, std::string_view scopes) {
  take_until(call, "[target=torch.ops.aten.");
  const std::string_view function = take_until(call, ".");
  take_until(call, "(args = (");
  if (function.empty() || call.empty()) return std::nullopt;
  return TorchCall{std::string(function), read_arguments(call), read_module(scopes)};
}

bool may_use(const TorchCall& call, std::string_view parameter) {
  if (!call.module || call.module->empty()) return true;
  return parameter.starts_with(*call.module) &&
         parameter.substr(call.module->size()).starts_with('.');
}

bool is_inside(const TorchCall& call, std::string_view parameter) {
  const size_t dot = parameter.rfind('.');
  if (!call.module || dot == std::string_view::npos) return true;
  return call.module->starts_with(parameter.substr(0, dot + 1));
}

std::map<std::string, std::string, std::less<>> read_torch_names(std::string_view signature) {
  std::map<std::string, std::string, std::less<>> names;
  while (!signature.empty()) {
    std::string_view line = take_until(signature, "\n");
    const std::string_view name = take_until(line, ": ");
    if (!line.starts_with("PARAMETER ") && !line.starts_with("BUFFER ")) continue;
    take_until(line, "target='");
    const std::string_view member = take_until(line, "'");
    if (!name.empty() && !member.empty()) names.emplace(name, member);
  }
  return names;
}

}  // namespace leat
