#include "daemon/training/class_names.h"

#include <algorithm>

namespace leat {
namespace {

constexpr uint64_t kClassesBytes = uint64_t{64} << 20;

std::string classes_path(const std::string& folder) { return folder + "/classes.txt"; }

std::string class_lines(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    for (const char c : name) {
      if (c == '\n') {
        text += "\\n";
      } else {
        text += c == '\\' ? "\\\\" : std::string(1, c);
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace

Status keep_class_names(Files& files, const std::string& folder,
                        const std::vector<std::string>& names) {
  if (names.empty()) return {};
  const std::string text = class_lines(names), path = classes_path(folder);
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const auto there = read_file(files, path, text.size());
  if (there.ok() && std::equal(there->begin(), there->end(), bytes.begin(), bytes.end())) return {};
  return write_file_atomically(files, path, bytes);
}

Result<std::vector<std::string>> read_class_names(Files& files, const std::string& folder) {
  std::vector<std::string> names;
  LEAT_ASSIGN_OR_RETURN(const bool there, files.exists(classes_path(folder)));
  if (!there) return names;
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(files, classes_path(folder), kClassesBytes));
  std::string name;
  bool escaped = false;
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    if (!escaped && c == '\n') {
      names.push_back(std::move(name));
      name.clear();
    } else if (!escaped && c == '\\') {
      escaped = true;
    } else {
      name += escaped && c == 'n' ? '\n' : c;
      escaped = false;
    }
  }
  return names;
}

}  // namespace leat
