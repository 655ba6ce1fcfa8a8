#include "daemon/training/initial_weights.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "devices/base/text.h"
#include "ops/formats/npz.h"
#include "ops/formats/safetensors.h"
#include "ops/graph/op.h"
#include "ops/onnx/import.h"

namespace leat {
namespace {

Result<Variables> read_npz_weights(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  LEAT_ASSIGN_OR_RETURN(const auto members, read_npz_directory(*file));
  Variables values;
  for (const NpzMember& member : members) {
    LEAT_ASSIGN_OR_RETURN(Tensor value, read_npz_member(*file, member));
    values.emplace(member.name, std::move(value));
  }
  return values;
}

// The parts of a name that the stars of a glob stand for; nothing for a name that does not match.
// The stars take as little as they can, from the left; the last one takes the rest.
std::optional<std::vector<std::string>> match_stars(std::string_view glob, std::string_view name) {
  std::vector<std::string> stars;
  size_t star = glob.find('*');
  if (star == glob.npos) return glob == name ? std::optional(stars) : std::nullopt;
  if (!name.starts_with(glob.substr(0, star))) return std::nullopt;
  name.remove_prefix(star);
  for (glob.remove_prefix(star + 1); (star = glob.find('*')) != glob.npos;
       glob.remove_prefix(star + 1)) {
    const size_t next = name.find(glob.substr(0, star));
    if (next == name.npos) return std::nullopt;
    stars.emplace_back(name.substr(0, next));
    name.remove_prefix(next + star);
  }
  if (!name.ends_with(glob)) return std::nullopt;
  stars.emplace_back(name.substr(0, name.size() - glob.size()));
  return stars;
}

std::string with_stars(std::string_view pattern, const std::vector<std::string>& stars) {
  std::string out;
  size_t next = 0;
  for (const char c : pattern) {
    if (c == '*' && next < stars.size()) {
      out += stars[next++];
    } else {
      out += c;
    }
  }
  return out;
}

struct VariableType {
  DType dtype = DType::invalid;
  Shape shape;
};
// The type of each variable of the model.
std::map<std::string, VariableType> types_of(const Graph& model) {
  std::map<std::string, VariableType> types;
  for (NodeId id = 0; id < model.nodes(); ++id) {
    const Node& node = model.node(id);
    if (node.op->full_name() != "leat.Variable") continue;
    const ValueType& type = model.value(node.outputs[0]).type;
    types[attr_string(node.attrs, "name")] = {type.dtype, type.shape.concrete().value_or(Shape())};
  }
  return types;
}

// The most likely other spelling: the same name below another module, or one that differs little.
std::string near(const std::string& name, const std::vector<std::string>& others) {
  for (const std::string& other : others) {
    if (other.ends_with(cat(".", name)) || name.ends_with(cat(".", other)))
      return cat(" (did you mean '", other, "'?)");
  }
  return did_you_mean(name, others);
}

// "lacks 2 variables: 'a', 'b' (did you mean 'c'?)"; "" for no names.
std::string listed(std::string_view verb, std::string_view thing,
                   const std::vector<std::string>& names, const std::vector<std::string>& others) {
  if (names.empty()) return "";
  std::vector<std::string> lines;
  for (const std::string& name : names) lines.push_back(cat("'", name, "'", near(name, others)));
  return cat(verb, " ", names.size(), " ", thing, names.size() == 1 ? "" : "s", ": ",
             join(lines, ", "));
}

}  // namespace

Result<Variables> read_weights_file(Files& files, const std::string& path) {
  if (path.ends_with(".npz")) return read_npz_weights(files, path);
  if (path.ends_with(".onnx")) return read_onnx_weights(files, path);
  LEAT_ASSIGN_OR_RETURN(SafeTensors content, read_safetensors(files, path));
  return std::move(content.tensors);
}

std::string renamed(const std::string& name,
                    const std::vector<std::pair<std::string, std::string>>& rules) {
  for (const auto& [from, to] : rules) {
    if (const auto stars = match_stars(from, name)) return with_stars(to, *stars);
  }
  return name;
}

Result<InitialWeights> read_initial_weights(Files& files, const Job::Model& job,
                                            const Graph& model) {
  LEAT_ASSIGN_OR_RETURN(Variables tensors, read_weights_file(files, job.weights));
  const std::map<std::string, VariableType> types = types_of(model);
  InitialWeights out;
  std::vector<std::string> unexpected, wrong;
  for (auto& [name, value] : tensors) {
    const std::string own = renamed(name, job.rename_weights);
    const auto type = types.find(own);
    if (type == types.end()) {
      unexpected.push_back(own);
    } else if (type->second.shape != value.shape()) {
      wrong.push_back(cat("'", own, "' expected ", type->second.dtype, type->second.shape,
                          ", received ", value.dtype(), value.shape()));
    } else if (!out.values.emplace(own, std::move(value)).second) {
      wrong.push_back(cat("'", own, "' expected once, received again as '", name, "'"));
    }
  }
  std::vector<std::string> problems;
  for (const auto& [name, type] : types) {
    const std::string named = cat("'", name, "' ");
    const bool tried = std::any_of(wrong.begin(), wrong.end(), [&](const std::string& each) {
      return each.starts_with(named);
    });
    if (!out.values.contains(name) && !tried) out.missing.push_back(name);
  }
  const std::string lacks = listed("lacks", "variable", out.missing, unexpected);
  const std::string others = listed("has", "name", unexpected, out.missing);
  // Without strict, a file may lack variables and have others, but not be that of another model.
  const bool names_matter = job.strict_weights || (out.values.empty() && !types.empty());
  if (!lacks.empty() && names_matter) problems.push_back(lacks);
  if (!others.empty() && names_matter) problems.push_back(cat(others, ", which the model lacks"));
  if (!wrong.empty()) problems.push_back(cat("has tensors that do not fit: ", join(wrong, ", ")));
  if (!problems.empty()) {
    std::string_view advice;
    if (wrong.empty() && job.strict_weights)
      advice = "; model.weights takes rename and strict: false in a map";
    else if (wrong.empty())
      advice = "; model.weights takes rename in a map";
    return invalid_argument(cat("'", job.weights, "': expected the variables of '", job.graph,
                                "', the file ", join(problems, "; it "), advice));
  }
  if (!lacks.empty()) {
    out.notes.push_back(cat(job.weights, ": ", out.missing.size(), " of ", types.size(),
                            " variables keep their initial values: '", join(out.missing, "', '"),
                            "'"));
  }
  if (!others.empty()) {
    out.notes.push_back(cat(job.weights, ": ", unexpected.size(), " of ", tensors.size(),
                            " tensors are not used: '", join(unexpected, "', '"), "'"));
  }
  return out;
}

}  // namespace leat
