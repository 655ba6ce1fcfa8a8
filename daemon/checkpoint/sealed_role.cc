#include "daemon/checkpoint/sealed_role.h"

#include <span>

#include "daemon/checkpoint/checkpoint_part.h"
#include "daemon/checkpoint/sealed_values.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kDamaged = "damaged-";
constexpr std::string_view kExports = "export";
constexpr std::string_view kTemporaryEnd = ".tmp";
constexpr std::string_view kSaved = "saved/";
constexpr std::string_view kSavedHash = "saved-sha256/";
constexpr std::string_view kNoRun = "-";  // no id of a job begins with it
constexpr size_t kLongestRole = 255;      // SealedHeader::role

std::string_view last_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_count(std::string_view text) {
  return text.find_first_not_of("0123456789-") == std::string_view::npos;
}

// "weights.safetensors" of "weights.safetensors.4711-0.tmp", the name of a file that is written.
std::string_view without_temporary(std::string_view name) {
  if (!name.ends_with(kTemporaryEnd)) return name;
  name.remove_suffix(kTemporaryEnd.size());
  const size_t dot = name.rfind('.');
  return dot != std::string_view::npos && is_count(name.substr(dot + 1)) ? name.substr(0, dot)
                                                                         : name;
}

// "step-00000500" of a checkpoint's folder, also of one that is being written or set aside.
std::string_view step_folder(std::string_view folder) {
  if (folder.starts_with(kTemporaryCheckpoint)) {
    folder.remove_prefix(kTemporaryCheckpoint.size() - kStep.size());
  } else if (folder.starts_with(kDamaged)) {
    folder.remove_prefix(kDamaged.size());
  }
  if (!folder.starts_with(kStep)) return "";
  return folder.substr(0, folder.find_first_not_of("0123456789", kStep.size()));
}

// The name behind "/saved/" in the folder of a run; "" if the path is not below it.
std::string_view behind_saved(std::string_view path, std::string_view run) {
  if (!path.starts_with(run)) return "";
  path.remove_prefix(run.size());
  if (!path.starts_with('/')) return "";
  path.remove_prefix(1);
  return path.starts_with(kSaved) ? path.substr(kSaved.size()) : "";
}

// The path that a file has when it is whole: "deep/v" of "deep/v.4711-0.tmp", and of
// "deep/4711-0.tmp/v", as run_copy.cc writes a long name.
std::string whole_path(std::string_view path) {
  const std::string_view last = without_temporary(last_of(path));
  std::string_view folder = path.substr(0, path.size() - last_of(path).size());
  if (!folder.empty()) {
    const std::string_view inner = last_of(folder.substr(0, folder.size() - 1));
    if (inner.ends_with(kTemporaryEnd) &&
        is_count(inner.substr(0, inner.size() - kTemporaryEnd.size())))
      folder.remove_suffix(inner.size() + 1);
  }
  return cat(folder, last);
}

// Whether it is the role of a file of that name in some run.
bool is_of_name(std::string_view role, std::string_view name) {
  if (!is_saved_role(role)) return false;
  std::string_view run = role.substr(role.find('/') + 1);
  run = run.substr(0, run.find('/'));
  return role == saved_role(run, name);
}

// Whether the path ends with "saved/" and the name of a file of that role.
bool ends_with_name_of(std::string_view path, std::string_view role) {
  for (size_t at = path.find(kSaved); at != path.npos; at = path.find(kSaved, at + 1)) {
    const bool is_folder = at == 0 || path[at - 1] == '/';
    if (is_folder && is_of_name(role, path.substr(at + kSaved.size()))) return true;
  }
  return false;
}

}  // namespace

std::string sealed_role(std::string_view path) {
  const std::string whole = whole_path(path);
  const std::string_view name = last_of(whole);
  const size_t slash = whole.rfind('/');
  const std::string_view folder =
      slash == std::string::npos ? "" : last_of(std::string_view(whole).substr(0, slash));
  const std::string_view step = step_folder(folder);
  if (!step.empty() && name.starts_with("part-") && name.ends_with(".safetensors"))
    return cat(step, "/", name);
  if (folder == kExports) return cat(kExports, "/", name);
  for (const std::string_view each :
       {"weights.safetensors", "raw_weights.safetensors", "best_weights.safetensors"}) {
    if (name == each) return std::string(name);
  }
  return "";
}

std::string saved_role(std::string_view run, std::string_view name) {
  if (run.empty()) run = kNoRun;
  std::string role = cat(kSaved, run, "/", name);
  if (role.size() <= kLongestRole) return role;
  return cat(kSavedHash, run, "/", to_hex(sha256(std::as_bytes(std::span(name)))));
}

bool is_saved_role(std::string_view role) {
  return role.starts_with(kSaved) || role.starts_with(kSavedHash);
}

RunFolders RunFolders::with_others(std::vector<RunFolder> runs) {
  RunFolders out(std::move(runs));
  out.reads_others_ = true;
  return out;
}

RunFolders RunFolders::of_jobs(std::string folder) {
  RunFolders out;
  out.of_jobs_ = std::move(folder);
  return out;
}

std::optional<RunFolders::SavedPlace> RunFolders::saved_place(std::string_view path) const {
  std::string_view run, name;
  bool takes_older = false;
  for (const RunFolder& each : runs_) {
    const std::string_view behind = behind_saved(path, each.path);
    // The shortest name is that in the innermost folder.
    if (behind.empty() || (!name.empty() && name.size() <= behind.size())) continue;
    run = each.id;
    takes_older = each.takes_older || each.id.empty();
    name = behind;
  }
  if (!of_jobs_.empty() && path.starts_with(of_jobs_ + "/")) {
    const size_t begin = of_jobs_.size() + 1, end = path.find('/', begin);
    if (end != path.npos) {
      run = path.substr(begin, end - begin);
      name = behind_saved(path, path.substr(0, end));
    }
  }
  if (name.empty()) return std::nullopt;
  return SavedPlace{run, whole_path(name), takes_older};
}

std::string RunFolders::role_of(std::string_view path) const {
  const auto place = saved_place(path);
  return place ? saved_role(place->run, place->name) : sealed_role(path);
}

bool RunFolders::is_below_run(std::string_view path) const {
  for (const RunFolder& each : runs_) {
    if (path.starts_with(each.path) && path.substr(each.path.size()).starts_with('/')) return true;
  }
  return !of_jobs_.empty() && path.starts_with(of_jobs_ + "/");
}

bool RunFolders::allows(std::string_view path, std::string_view role) const {
  const std::string by_path = sealed_role(path);
  if (const auto place = saved_place(path)) {
    if (place->takes_older && !by_path.empty() && role == by_path) return true;
    if (place->run.empty()) return is_of_name(role, place->name);
    return role == saved_role(place->run, place->name) ||
           (place->takes_older && role == saved_role("", place->name));
  }
  if (is_saved_role(role)) {
    if (is_empty()) return by_path.empty() || ends_with_name_of(path, role);
    return reads_others_ && !is_below_run(path) && ends_with_name_of(path, role);
  }
  // A value of a database is no file.
  return by_path.empty() ? !role.starts_with(kSealedValueRole) : role == by_path;
}

}  // namespace leat
