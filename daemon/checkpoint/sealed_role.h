// The role of an encrypted file: which file of a run it is. It is authenticated with the file, so
// that no file can take the place of another.
//
//   step-00000500/part-00000-of-00002.safetensors   a part of a checkpoint
//   weights.safetensors, export/model.onnx          weights at the end, an export
//   saved/mnist-7f3a/deep/v                         job mnist-7f3a saved it as deep/v
//   saved-sha256/mnist-7f3a/0123...                 the same with the hash of a long name
//
// A run of `leat train` has no id, and "-" in the place of one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat {

// The role of a file with weights by its path alone, in the folder of any run; also of one in a
// folder under a temporary name or one that is set aside. "" for a file that is never encrypted,
// and for one whose name says nothing, such as a blob.
std::string sealed_role(std::string_view path);

// The role of a file that a graph saved (leat.Save): `name` is the one below the folder `saved` of
// its run, `run` the id of the job or "".
std::string saved_role(std::string_view run, std::string_view name);
// True for each of those, and for no role of another file.
bool is_saved_role(std::string_view role);

// The folder of a run.
struct RunFolder {
  std::string path;
  std::string id = {};  // of the job; "" for a run of `leat train`, and if it is not known
  // Whether it may be a copy that is older than its provenance.txt or than saved_role().
  bool takes_older = false;
};

// The folders of runs that a program reads and writes. A saved file may have any name, so that its
// path alone does not tell it from others. Paths are compared as texts: "run" is not "./run".
class RunFolders {
 public:
  // Of no folder.
  RunFolders() = default;
  explicit RunFolders(std::vector<RunFolder> runs) : runs_(std::move(runs)) {}
  // The same for a program that reads saved files of other runs, too, as weights for instance.
  static RunFolders with_others(std::vector<RunFolder> runs);
  // Each folder in `folder` is that of the job whose id is its name.
  static RunFolders of_jobs(std::string folder);

  // The role that a new file gets: sealed_role(), or saved_role() below a folder `saved`.
  std::string role_of(std::string_view path) const;
  // Whether an encrypted file of that role may be read at `path`. It has to be role_of(path), with
  // these exceptions:
  //   - A file without a role, such as a blob, may be any of a run but a saved one.
  //   - A run without an id may go on where a job of a master has ended, so its saved files may be
  //     those of any run; and versions before there was saved_role() gave them sealed_role().
  //   - With `takes_older` a saved file of a job may be one of a run without an id, or have
  //     sealed_role().
  //   - Of with_others(), a saved file is read under its name behind "saved/" in any folder
  //     but these.
  //   - Without any folder, a saved file is read under its name behind "saved/", and anywhere under
  //     a name without a role.
  bool allows(std::string_view path, std::string_view role) const;

 private:
  struct SavedPlace {
    std::string_view run;  // its id, or ""
    std::string name;      // below `saved`
    bool takes_older;      // also if there is no id
  };
  // Nothing if the path is not that of a saved file.
  std::optional<SavedPlace> saved_place(std::string_view path) const;
  bool is_below_run(std::string_view path) const;
  bool is_empty() const { return runs_.empty() && of_jobs_.empty(); }

  std::vector<RunFolder> runs_;
  bool reads_others_ = false;
  std::string of_jobs_;  // "": none
};

}  // namespace leat
