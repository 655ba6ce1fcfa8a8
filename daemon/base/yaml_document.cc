#include "daemon/base/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

// Limits for texts that come from others, such as a job that is submitted.
constexpr size_t kMaxYamlBytes = size_t{1} << 20;
constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxKeys = 1000;  // of one map
constexpr size_t kMaxKeyBytes = 200;

// The builder throws it through the library, and read_tree() catches it.
struct Refusal {
  YamlPosition at;
  std::string message;
};

YamlPosition position(const YAML::Mark& mark, int source) {
  return {source, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};
}

// Builds the tree from the parser's events, and refuses anything outside our YAML.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(int source) : source_(source) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) refuse(mark, "expected one document, received a second one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add(node(YamlNode::Kind::null, mark));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not supported: write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode scalar = node(YamlNode::Kind::scalar, mark);
    scalar.text = value;
    // The library gives a scalar in quotes the tag "!", and a plain one the tag "?".
    scalar.quoted = tag == "!";
    for (const char c : value) {
      // Escapes in double quotes can make any character, which first_bad_byte() does not see.
      if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
        refuse(mark, "expected text, received a control character");
      }
    }
    add(std::move(scalar));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  // Returns the document's value after all events; a null node if there was no document.
  YamlNode take() { return std::move(result_); }

 private:
  // An exception is the only way to stop the parser from within its events.
  [[noreturn]] void refuse(const YAML::Mark& mark, std::string message) const {
    throw Refusal{position(mark, source_), std::move(message)};
  }
  [[noreturn]] static void refuse(YamlPosition at, std::string message) {
    throw Refusal{at, std::move(message)};
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) refuse(mark, "anchors (&name) are not supported");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    refuse(mark, "tags are not supported, received '" + tag + "'");
  }

  YamlNode node(YamlNode::Kind kind, const YAML::Mark& mark) const {
    YamlNode made;
    made.kind = kind;
    made.at = position(mark, source_);
    return made;
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    // The tree is destroyed recursively, so its depth has a limit.
    if (open_.size() == kMaxDepth) refuse(mark, cat("nested more than ", kMaxDepth, " deep"));
    open_.push_back(node(kind, mark));
  }

  // A list or map goes to its parent when it is complete.
  void close() {
    YamlNode done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode child) {
    if (open_.empty()) {
      result_ = std::move(child);
      return;
    }
    YamlNode& parent = open_.back();
    // The events of a map come in the order key, value, key, value.
    const bool is_key =
        parent.kind == YamlNode::Kind::map && parent.keys.size() == parent.items.size();
    if (is_key) {
      add_key(parent, std::move(child));
    } else {
      parent.items.push_back(std::move(child));
    }
  }

  static void add_key(YamlNode& map, YamlNode key) {
    if (key.kind != YamlNode::Kind::scalar) {
      refuse(key.at, "expected a key, received " + describe(key));
    }
    if (key.text.size() > kMaxKeyBytes || key.text.find_first_of("\n\t") != std::string::npos) {
      refuse(key.at, cat("expected a key of at most ", kMaxKeyBytes, " bytes on one line"));
    }
    if (map.keys.size() == kMaxKeys) refuse(key.at, cat("more than ", kMaxKeys, " keys in a map"));
    if (key.text == "<<") refuse(key.at, "merge keys (<<) are not supported");
    // YAML forbids two equal keys, but the library hands on both.
    for (const YamlNode& other : map.keys) {
      if (other.text != key.text) continue;
      refuse(key.at, cat("duplicate key '", key.text, "', first written at line ", other.at.line,
                         ", column ", other.at.column));
    }
    map.keys.push_back(std::move(key));
  }

  const int source_;
  int documents_ = 0;
  std::vector<YamlNode> open_;  // from the outermost to the current one
  YamlNode result_;
};

// Returns the position of the first byte that is not UTF-8 or is a control character, if any. The
// library does not check this, and takes byte 4 for the end of the file.
std::optional<YamlPosition> first_bad_byte(std::string_view text, int source) {
  YamlPosition at{source, 1, 1};
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence(text.substr(i));
    if (length == 0) return at;
    const char c = text[i];
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    if (is_control && c != '\t' && c != '\n' && c != '\r') return at;
    i += length;
    // The column counts characters, as editors do.
    if (c == '\n') {
      ++at.line;
      at.column = 1;
    } else {
      ++at.column;
    }
  }
  return std::nullopt;
}

// REQUIRES: first_bad_byte() finds nothing in the text. Throws Refusal.
YamlNode parse_tree(std::string_view text, int source) {
  TreeBuilder builder(source);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    // A second document makes the builder refuse the text.
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    throw Refusal{position(error.mark, source), "not valid YAML: " + error.msg};
  }
  return builder.take();
}

struct Tree {
  YamlNode node;
  std::optional<Refusal> refusal;
};

// Checks and parses a text. No exception leaves this function.
Tree read_tree(std::string_view text, int source) {
  if (text.size() > kMaxYamlBytes) {
    return {{},
            Refusal{{source, 1, 1},
                    cat("expected at most ", kMaxYamlBytes, " bytes, received ", text.size())}};
  }
  if (const auto bad = first_bad_byte(text, source)) {
    return {{}, Refusal{*bad, "expected UTF-8 text, received a byte that is none"}};
  }
  try {
    return {parse_tree(text, source), std::nullopt};
  } catch (Refusal& refusal) {
    return {{}, std::move(refusal)};
  } catch (const std::exception& error) {
    return {{}, Refusal{{source, 1, 1}, cat("not valid YAML: ", error.what())}};
  }
}

// Gives all positions inside an override's value the position of the override.
void move_to(YamlNode& node, YamlPosition at) {
  node.at = at;
  for (YamlNode& key : node.keys) key.at = at;
  for (YamlNode& item : node.items) move_to(item, at);
}

void erase_key(YamlNode& map, std::string_view key) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text != key) continue;
    map.keys.erase(map.keys.begin() + static_cast<ptrdiff_t>(i));
    map.items.erase(map.items.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

// Returns the value of a key, and adds the key if it is missing.
YamlNode& slot(YamlNode& map, std::string_view key, YamlPosition at) {
  for (size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text == key) return map.items[i];
  }
  YamlNode name;
  name.kind = YamlNode::Kind::scalar;
  name.text = key;
  name.at = at;
  map.keys.push_back(std::move(name));
  map.items.emplace_back();
  map.items.back().at = at;
  return map.items.back();
}

// Returns the parts between the dots. An empty part stays, so that the caller can refuse it.
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t dot = std::min(path.find('.', begin), path.size());
    parts.emplace_back(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return parts;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

Result<YamlDocument> YamlDocument::parse(std::string_view text, std::string name) {
  YamlDocument document;
  document.sources_.push_back(std::move(name));
  // Source 0 is the file itself.
  Tree tree = read_tree(text, 0);
  if (!tree.refusal && tree.node.kind != YamlNode::Kind::map) {
    // An empty text has no node and no position.
    const YamlPosition at = tree.node.at.line == 0 ? YamlPosition{0, 1, 1} : tree.node.at;
    tree.refusal = Refusal{at, "expected a map of keys, received " + describe(tree.node)};
  }
  if (tree.refusal) {
    return invalid_argument(document.where(tree.refusal->at) + ": " + tree.refusal->message);
  }
  document.top_ = std::move(tree.node);
  return document;
}

Status YamlDocument::set(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  // The flag is cut, because it is a part of each message about the value.
  std::string flag = "--set " + std::string(assignment.substr(0, 100));
  if (equals == std::string_view::npos) {
    return invalid_argument(flag + ": expected path.to.key=value, received no '='");
  }
  return set(assignment.substr(0, equals), assignment.substr(equals + 1), std::move(flag));
}

Status YamlDocument::set(std::string_view path, std::string_view value, std::string flag) {
  // The override becomes the next source. Its name is only added at the end, when nothing can fail
  // any more.
  const YamlPosition at{static_cast<int>(sources_.size()), 0, 0};
  const auto parts = split_path(path);
  if (std::any_of(parts.begin(), parts.end(), [](const auto& p) { return p.empty(); }) ||
      parts.size() > kMaxDepth || first_bad_byte(path, 0)) {
    return invalid_argument(flag + ": expected a key such as optimizer.learning_rate before '='");
  }
  Tree tree = read_tree(value, at.source);
  if (tree.refusal) return invalid_argument(flag + ": " + tree.refusal->message);
  move_to(tree.node, at);

  // Go down to the map of the last key, and make the maps that are missing. A key that is taken
  // away needs no map.
  const bool takes_away = tree.node.kind == YamlNode::Kind::null;
  YamlNode* map = &top_;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (takes_away && map->find(parts[i]) == nullptr) return {};
    YamlNode& next = slot(*map, parts[i], at);
    if (next.kind == YamlNode::Kind::null) next.kind = YamlNode::Kind::map;
    if (next.kind != YamlNode::Kind::map) {
      const auto prefix = join(std::vector(parts.begin(), parts.begin() + ptrdiff_t(i) + 1), ".");
      return invalid_argument(
          cat(flag, ": expected ", prefix, " to be a map, but it is ", describe(next)));
    }
    map = &next;
  }
  sources_.push_back(std::move(flag));
  if (takes_away) {
    erase_key(*map, parts.back());
  } else {
    slot(*map, parts.back(), at) = std::move(tree.node);
  }
  return {};
}

void YamlDocument::remove(std::string_view key) { erase_key(top_, key); }

std::string YamlDocument::where(YamlPosition at) const {
  if (at.source > 0) return sources_[static_cast<size_t>(at.source)];
  return cat(sources_.front(), ":", at.line, ":", at.column);
}

}  // namespace leat
