#include "daemon/spec/read_loss.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/base/yaml_document.h"
#include "daemon/spec/read_settings.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kOutput = "output";

// `all`: with the entry that a loss by itself has without its name, {output: NAME}.
std::vector<std::string_view> loss_names(bool all) {
  std::vector<std::string_view> names;
  for (const LossRecipe& each : all_losses()) {
    if (each.has_name || all) names.push_back(each.name);
  }
  return names;
}

// Those of the losses of classes that are lists, or that may be absent.
void read_class_keys(YamlMap& map, LossSpec& loss) {
  const bool classes = loss.labels() == Labels::classes;
  if (map.has("class_weights") && !classes) {
    map.fail("class_weights", cat("is not a key of ", loss.name));
    map.skip("class_weights");
  }
  if (map.has("ignore_index") && !loss.has_class_labels() && loss.labels() != Labels::sequence) {
    map.fail("ignore_index",
             cat("is not a key of ", loss.name, classes ? " with soft_labels" : ""));
    map.skip("ignore_index");
    return;
  }
  if (int64_t ignored = 0; map.get_int("ignore_index", Need::optional, {}, ignored))
    loss.ignore_index = ignored;
  map.get_floats("class_weights", Need::optional, {.min = 0, .min_open = true}, loss.class_weights);
}

// The output and the columns that the loss compares.
void read_places(YamlMap& map, LossSpec& loss) {
  const Need output = loss.recipe().has_name ? Need::optional : Need::required;
  map.get_string(kOutput, output, loss.output, "the name of an output of the graph");
  const auto column = [&](std::string_view key, bool fits, std::string& name) {
    if (!fits && map.has(key)) {
      map.fail(key, cat("is not a key of ", loss.name));
      map.skip(key);
    }
    map.get_string(key, Need::optional, name, "the name of a column");
  };
  column("labels", loss.labels() != Labels::none, loss.column);
  column("input_lengths", loss.labels() == Labels::sequence, loss.input_lengths);
  column("label_lengths", loss.labels() == Labels::sequence, loss.label_lengths);
  if (loss.ignore_index && !loss.label_lengths.empty())
    map.fail("ignore_index", "expected ignore_index or label_lengths, received both");
}

// The keys of a map beside its name.
void read_keys(YamlMap& map, LossSpec& loss) {
  const std::span<const Setting> settings = loss.recipe().settings;
  for (const LossRecipe& each : all_losses())
    refuse_other_settings(map, loss.name, settings, each.settings);
  read_settings(map, settings, loss.settings);
  read_class_keys(map, loss);
  read_places(map, loss);
}

// A loss by itself: a name, a map with a name, or a map with the graph's output that is the loss.
void read_one(YamlMap& top, LossSpec& loss) {
  const std::vector<std::string_view> names = loss_names(false);
  size_t index = 0;
  if (!top.is_map("loss")) {
    if (top.get_choice("loss", Need::required, names, index)) loss = LossSpec::of(names[index]);
    return;
  }
  YamlMap map = top.get_map("loss", Need::required);
  if (map.has(kOutput) && !map.has("name")) {
    loss = LossSpec::of(kOutput);
    map.get_string(kOutput, Need::required, loss.output, "the name of an output of the graph");
  } else if (map.get_choice("name", Need::required, names, index)) {
    loss = LossSpec::of(names[index]);
    read_keys(map, loss);
  } else {
    return;  // without a name, its other keys are not known
  }
  map.finish();
}

// The name of a term becomes a part of names of numbers in files and metrics.
bool is_name_of_term(const std::string& name) {
  return name.size() <= 40 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_';
         });
}

void read_term(YamlNamed& entry, LossSpec& loss) {
  YamlMap& map = entry.map;
  if (!map.present()) return;
  read_keys(map, loss);
  map.get_float("weight", Need::optional, {}, loss.weight);
  if (map.get_string("as", Need::optional, loss.term, "a name") && !is_name_of_term(loss.term)) {
    map.fail("as", cat("expected a name of letters, digits and '_', at most 40, received '",
                       loss.term, "'"));
  }
  // Rows of metrics have that number already where the scale is dynamic.
  if (loss.term == "scale")
    map.fail("as", "expected another name than 'scale': loss_scale is the factor of float16");
  map.finish();
}

// A sum: a list of terms.
void read_sum(YamlMap& top, Job& job) {
  const std::vector<std::string_view> names = loss_names(true);
  std::vector<YamlNamed> entries;
  if (!top.get_named("loss", Need::required, names, entries)) return;
  if (entries.size() < 2) {
    top.fail("loss", cat("expected a list of at least 2 terms, received ", entries.size(),
                         "; a loss by itself is no list"));
    return;
  }
  std::vector<LossSpec> terms;
  for (YamlNamed& entry : entries) {
    LossSpec term = LossSpec::of(names[entry.choice]);
    read_term(entry, term);
    const bool again = std::any_of(terms.begin(), terms.end(), [&](const LossSpec& each) {
      return each.shown_name() == term.shown_name();
    });
    if (again) {
      top.fail("loss", cat("expected terms of different names, received ", term.shown_name(),
                           " again; the key `as` gives a term a name"));
    }
    terms.push_back(std::move(term));
  }
  job.loss = std::move(terms[0]);
  job.more_losses.assign(std::make_move_iterator(terms.begin() + 1),
                         std::make_move_iterator(terms.end()));
}

// A loss without options is its name.
std::string print_term(const LossSpec& loss, bool in_sum) {
  if (!loss.recipe().has_name && !in_sum)
    return flow_map({cat("output: ", yaml_string(loss.output))});
  std::vector<std::string> entries{"name: " + loss.name};
  const auto add = [&](std::string_view key, const std::string& text) {
    if (!text.empty()) entries.push_back(cat(key, ": ", yaml_string(text)));
  };
  add("as", loss.term);
  add(kOutput, loss.output);
  add("labels", loss.column);
  add("input_lengths", loss.input_lengths);
  add("label_lengths", loss.label_lengths);
  if (loss.weight != 1) entries.push_back(cat("weight: ", shortest(loss.weight)));
  if (loss.ignore_index) entries.push_back(cat("ignore_index: ", *loss.ignore_index));
  print_changed(loss.recipe().settings, loss.settings, entries);
  std::vector<std::string> weights;
  for (const double weight : loss.class_weights) weights.push_back(shortest(weight));
  if (!weights.empty()) entries.push_back(cat("class_weights: [", join(weights, ", "), "]"));
  return entries.size() == 1 ? loss.name : flow_map(entries);
}

}  // namespace

void read_loss(YamlMap& top, Job& job) {
  if (top.is_list("loss"))
    read_sum(top, job);
  else
    read_one(top, job.loss);
}

std::string print_loss(const Job& job) {
  if (job.more_losses.empty()) return print_term(job.loss, false);
  std::vector<std::string> terms;
  for (const LossSpec* term : job.losses()) terms.push_back(print_term(*term, true));
  return "[" + join(terms, ", ") + "]";
}

}  // namespace leat
