#include "daemon/spec/read_transforms.h"

#include <algorithm>

#include "daemon/base/yaml_document.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kMostTransforms = 64;

void read_argument(YamlMap& map, std::string_view key, const TransformArgument& argument,
                   std::vector<double>& out) {
  const Need need = argument.initial.empty() ? Need::required : Need::optional;
  if (argument.kind == ArgumentKind::word) {
    if (size_t index = 0; map.get_choice(key, need, argument.words, index))
      out = {static_cast<double>(index)};
    return;
  }
  const FloatRange range = {
      .min = argument.min, .max = argument.max, .min_open = argument.min_open};
  map.get_numbers(key, need, range, argument.kind == ArgumentKind::integer, argument.least,
                  argument.most, out);
}

void read_arguments(YamlMap& entry, const TransformEntry& known, Transform& out) {
  for (const TransformArgument& argument : known.arguments) {
    out.arguments[std::string(argument.name)] = {argument.initial.begin(), argument.initial.end()};
  }
  if (!entry.is_map(known.name)) {
    const TransformArgument& first = known.arguments.front();
    return read_argument(entry, known.name, first, out.arguments[std::string(first.name)]);
  }
  YamlMap map = entry.get_map(known.name, Need::required);
  for (const TransformArgument& argument : known.arguments)
    read_argument(map, argument.name, argument, out.arguments[std::string(argument.name)]);
  map.finish();
}

Transform read_transform(YamlMap& entry) {
  Transform out;
  std::vector<std::string> names;
  for (const TransformEntry& known : all_transforms()) names.emplace_back(known.name);
  for (const std::string& key : entry.keys()) {
    if (key == "column") {
      entry.get_string(key, Need::optional, out.column, "the name of a column");
      continue;
    }
    const TransformEntry* const known = find_transform(key);
    if (known && out.name.empty()) {
      out.name = key;
      read_arguments(entry, *known, out);
      continue;
    }
    entry.skip(key);
    entry.fail(
        key, known ? "expected one transform in each entry of the list"
                   : cat("unknown transform", did_you_mean(key, names).empty()
                                                  ? cat("; the transforms are ", join(names, ", "))
                                                  : did_you_mean(key, names)));
    if (out.name.empty()) out.name = key;
  }
  if (out.name.empty()) entry.fail("column", "expected a transform beside it, received none");
  entry.finish();
  return out;
}

std::string argument_text(const TransformArgument& argument, const std::vector<double>& values) {
  if (argument.kind == ArgumentKind::word)
    return std::string(argument.words[static_cast<size_t>(values.front())]);
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(shortest(value));
  return texts.size() == 1 ? texts[0] : "[" + join(texts, ", ") + "]";
}

}  // namespace

void read_transforms(YamlMap& data, std::vector<Transform>& out) {
  std::vector<YamlMap> entries = data.get_maps("transforms", Need::optional);
  if (entries.size() > kMostTransforms) {
    return data.fail("transforms", cat("expected at most ", kMostTransforms, " entries, received ",
                                       entries.size()));
  }
  for (YamlMap& entry : entries) out.push_back(read_transform(entry));
}

std::string print_transforms(const std::vector<Transform>& transforms, std::string_view indent) {
  std::string text;
  for (const Transform& transform : transforms) {
    std::vector<std::string> arguments;
    for (const TransformArgument& argument : find_transform(transform.name)->arguments) {
      arguments.push_back(
          cat(argument.name, ": ", argument_text(argument, transform.list(argument.name))));
    }
    text +=
        cat(indent, "- {", transform.name, ": {", join(arguments, ", "), "}",
            transform.column.empty() ? "" : ", column: " + yaml_string(transform.column), "}\n");
  }
  return text;
}

}  // namespace leat
