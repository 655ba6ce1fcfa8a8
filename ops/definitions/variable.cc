// Variables are tensors that outlive the step. These ops read and write whole ones.
#include "ops/definitions/variable.h"

#include <cstring>
#include <type_traits>

#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "ops/definitions/definitions.h"
#include "ops/definitions/guard.h"
#include "ops/graph/limits.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

constexpr std::string_view kKindNames[] = {"a tensor", "rows", "a resource", "a token"};
struct DeclaredType {
  DType dtype;
  Shape shape;
};

// The type of a variable from its attributes. The errors have no subject: inference adds the node.
Result<DeclaredType> declared_type(const Attrs& attrs) {
  const std::string name = attr_string(attrs, "dtype");
  const auto dtype = dtype_from_name(name);
  if (!dtype) return invalid_argument(cat("dtype: expected a type's name, received '", name, "'"));
  if (is_narrow(*dtype))
    return invalid_argument(cat("dtype: expected a type that ops compute in, received ", name,
                                ", which is for constants and casts"));
  const auto sizes = attr_ints(attrs, "shape");
  const auto shape = Shape::checked(sizes);
  if (!shape) {
    return invalid_argument(cat("shape: expected at most ", kMaxRank, " sizes >= 0, received [",
                                join(sizes, ","), "]"));
  }
  return DeclaredType{*dtype, *shape};
}

Status infer_variable(InferContext& ctx) {
  const std::string name = attr_string(ctx.attrs(), "name");
  if (name.empty() || name.size() > limits::kNameLength) {
    return ctx.error(
        cat("name: expected 1 to ", limits::kNameLength, " bytes, received ", name.size()));
  }
  // The names in weights files must be UTF-8.
  if (!is_utf8(name)) return ctx.error(cat("name: expected UTF-8, received '", name, "'"));
  const auto type = declared_type(ctx.attrs());
  if (!type.ok()) return ctx.error(type.status().message());
  ctx.set_output(0, ValueType{ValueKind::resource, type->dtype, type->shape});
  return {};
}

// Nodes of the same name share one variable. The first makes it, filled with zeros; a later one
// with another type gets an error of the table.
Result<Resource*> make_variable(const KernelSetup& setup) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  // Only attributes are read, because resources of a plan have no operands.
  LEAT_ASSIGN_OR_RETURN(const DeclaredType type, declared_type(setup.attrs()));
  auto made = setup.resources->variable(attr_string(setup.attrs(), "name"), type.dtype, type.shape,
                                        attr_int(setup.attrs(), "trainable") != 0);
  if (!made.ok()) return made.status().while_doing(cat("making ", setup.subject));
  return static_cast<Resource*>(*made);
}

Status infer_read(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_equal_variables(ctx, 1));
  ctx.set_tensor(0, ctx.dtype(0), ctx.shape(0));
  return {};
}

Status infer_write(InferContext& ctx) {
  LEAT_RETURN_IF_ERROR(expect_equal_variables(ctx, 1));
  LEAT_RETURN_IF_ERROR(expect_fits(ctx, 1));
  LEAT_RETURN_IF_ERROR(infer_guard(ctx, kWriteGuard));
  return infer_done(ctx);
}

// A write has no value as output: `done` is a token, for nodes that must run after it.
Op write_op(std::string_view name, DTypeSet types) {
  return Op(name)
      .input("r", "resource")
      .input("value", "T")
      .optional_input(std::string(kGuard), "float")
      .optional_output("done", "token")
      .type("T", types)
      .writes(0)
      .infer(infer_write);
}

}  // namespace

// An optimizer's slots must have the type of their variable, so that kernels walk all of them with
// one index.
Status expect_equal_variables(InferContext& ctx, int variables) {
  for (int i = 0; i < variables; ++i) {
    // A queue is a resource as well, but has no dtype.
    if (ctx.input(i).kind != ValueKind::resource || ctx.dtype(i) == DType::invalid) {
      return ctx.error(cat("input ", i, ": expected a variable, received ",
                           ctx.input(i).kind == ValueKind::resource
                               ? "another resource"
                               : kKindNames[static_cast<int>(ctx.input(i).kind)]));
    }
    if (ctx.dtype(i) != ctx.dtype(0) || !(ctx.shape(i) == ctx.shape(0))) {
      return ctx.error(cat("input ", i, ": expected ", ctx.dtype(0), ctx.text(ctx.shape(0)),
                           " as variable 0 is, received ", ctx.dtype(i), ctx.text(ctx.shape(i))));
    }
  }
  return {};
}

Status expect_fits(InferContext& ctx, int operand) {
  const SymbolicShape &expected = ctx.shape(0), &received = ctx.shape(operand);
  bool fits = ctx.dtype(operand) == ctx.dtype(0) && expected.rank() == received.rank();
  for (int i = 0; fits && i < expected.rank(); ++i) {
    fits = expected[i] == received[i] || !received[i].is_constant();
  }
  if (fits) return {};
  return ctx.error(cat("input ", operand, ": expected ", ctx.dtype(0), ctx.text(expected),
                       " as the variable is, received ", ctx.dtype(operand), ctx.text(received)));
}

Status infer_done(InferContext& ctx) {
  if (ctx.wants_output(0)) ctx.set_output(0, ValueType{ValueKind::token, DType::invalid, {}});
  return {};
}

void register_variable_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Variable")
                    .output("r", "resource")
                    .attr_required("name", "string")
                    .attr_required("shape", "ints")
                    .attr("dtype", std::string("float"))
                    .attr("trainable", int64_t{1})
                    .infer(infer_variable)
                    .resource(make_variable));
  catalogue.add(Op("leat.Read")
                    .input("r", "resource")
                    .output("value", "any")
                    .reads(0)
                    .view()
                    .infer(infer_read));
  // A Read that always copies: later writes to the variable do not change its output.
  catalogue.add(
      Op("leat.Snapshot").input("r", "resource").output("value", "any").reads(0).infer(infer_read));
  catalogue.add(write_op("leat.Initialize", kAllTypes));
  catalogue.add(write_op("leat.Assign", kAllTypes));
  catalogue.add(write_op("leat.AssignAdd", kNumbers));
}

}  // namespace leat
