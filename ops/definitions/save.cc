// Tensors in files below the folder of their job: nodes whose effect is outside of the graph.
#include "ops/definitions/save.h"

#include <set>

#include "devices/base/text.h"
#include "ops/data/saved_files.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/limits.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

Status check_saved(const InferContext& ctx) {
  const Status path = check_saved_path(attr_string(ctx.attrs(), "path"));
  if (!path.ok()) return ctx.error(path.message());
  const std::vector<std::string> names = saved_names(ctx.attrs());
  if (names.size() != static_cast<size_t>(ctx.inputs())) {
    return ctx.error(
        cat("names: expected ", ctx.inputs(), ", one for each input, received ", names.size()));
  }
  std::set<std::string> different;
  for (const std::string& name : names) {
    if (name.empty() || name.size() > limits::kNameLength || !different.insert(name).second) {
      return ctx.error(cat("names: expected different names of 1 to ", limits::kNameLength,
                           " bytes, received '", name, "'"));
    }
  }
  return {};
}

Status infer_save(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_saved(ctx));
  if (const int64_t every = attr_int(ctx.attrs(), "every"); every < 1)
    return ctx.error(cat("every: expected at least 1, received ", every));
  if (ctx.wants_output(0)) ctx.set_output(0, ValueType{ValueKind::token, DType::invalid, {}});
  return {};
}

// The inputs say what the file has to have.
Status infer_restore(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(check_saved(ctx));
  if (attr_string(ctx.attrs(), "path").find(kSavedStep) != std::string::npos)
    return ctx.error(cat("path: expected no '", kSavedStep, "', which only leat.Save fills in"));
  if (ctx.outputs() > ctx.inputs()) {
    return ctx.error(cat("expected at most ", ctx.inputs(), " outputs, one for each input, ",
                         "received ", ctx.outputs()));
  }
  for (int i = 0; i < ctx.outputs(); ++i) {
    if (ctx.wants_output(i)) ctx.set_tensor(i, ctx.dtype(i), ctx.shape(i));
  }
  return {};
}

}  // namespace

void register_save_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Save")
                    .variadic_input("x", "T", true)
                    .optional_output("done", "token")
                    .type("T", kAllTypes)
                    .attr_required("path", "string")
                    .attr_required("names", "strings")
                    .attr("every", int64_t{1})
                    .stateful()
                    .infer(infer_save));
  catalogue.add(Op("leat.Restore")
                    .variadic_input("like", "T", true)
                    .variadic_output("x", "T", true)
                    .type("T", kAllTypes)
                    .attr_required("path", "string")
                    .attr_required("names", "strings")
                    .attr("optional", int64_t{0})
                    .stateful()
                    .infer(infer_restore));
}

}  // namespace leat
