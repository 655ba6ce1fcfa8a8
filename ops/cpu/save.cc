// CPU kernels of ops/definitions/save.cc. Unlike other kernels they wait for the disk, allocate
// memory and use names: a step that saves or restores is no fast one.
#include "ops/definitions/save.h"

#include <cstring>
#include <memory>
#include <utility>

#include "devices/base/files.h"
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/data/save_folder.h"
#include "ops/formats/safetensors.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The place of the file and the tensors in it, which both kernels have.
class SavedFileKernel : public Kernel {
 public:
  SavedFileKernel(const KernelSetup& setup, std::string folder)
      : subject_(setup.subject),
        folder_(std::move(folder)),
        path_(attr_string(setup.attrs(), "path")),
        names_(saved_names(setup.attrs())) {
    for (const OperandType& type : setup.types.inputs) types_.push_back(type);
  }

  Progress run(KernelContext& context, int, int) override {
    const Status done = work(context);
    if (done.ok()) return Progress::done;
    context.step->fail(context.instruction,
                       Status(done.code(), cat(subject_, ": ", done.message())));
    return Progress::failed;
  }

 protected:
  virtual Status work(KernelContext& context) = 0;
  // Links may change between steps.
  Result<std::string> place() const { return locate_saved(folder_, path_); }

  const std::string subject_, folder_, path_;
  const std::vector<std::string> names_;
  std::vector<OperandType> types_;
};

class SaveKernel final : public SavedFileKernel {
 public:
  SaveKernel(const KernelSetup& setup, std::string folder)
      : SavedFileKernel(setup, std::move(folder)),
        every_(static_cast<uint64_t>(attr_int(setup.attrs(), "every"))) {}

 private:
  Status work(KernelContext& context) override {
    const uint64_t steps = context.step->step + 1;
    if (steps % every_ != 0) return {};
    LEAT_ASSIGN_OR_RETURN(const std::string path, place());
    LEAT_RETURN_IF_ERROR(real_files().make_directories(directory_of(path)));
    SafeTensors content;
    content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(steps)}};
    for (size_t i = 0; i < names_.size(); ++i) {
      // The file is written from the operands themselves, which outlive the call.
      content.tensors.emplace(names_[i],
                              Tensor::wrap(types_[i].dtype, types_[i].shape,
                                           const_cast<void*>(context.inputs[i]), nullptr));
    }
    return write_safetensors(real_files(), path, content);
  }

  const uint64_t every_;
};

class RestoreKernel final : public SavedFileKernel {
 public:
  RestoreKernel(const KernelSetup& setup, std::string folder)
      : SavedFileKernel(setup, std::move(folder)),
        outputs_(setup.types.outputs.size()),
        optional_(attr_int(setup.attrs(), "optional") != 0) {}

 private:
  Status work(KernelContext& context) override {
    LEAT_ASSIGN_OR_RETURN(const std::string path, place());
    if (optional_) {
      LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
      if (!there) return keep(context);
    }
    LEAT_ASSIGN_OR_RETURN(const auto file, real_files().open(path));
    LEAT_ASSIGN_OR_RETURN(const SafeTensorsIndex index, read_safetensors_index(*file));
    LEAT_RETURN_IF_ERROR(check(index));
    for (size_t i = 0; i < outputs_; ++i) {
      if (context.outputs[i] == nullptr) continue;
      LEAT_ASSIGN_OR_RETURN(const Tensor value,
                            read_safetensors_entry(*file, names_[i], index.entries.at(names_[i])));
      if (value.bytes() > 0) std::memcpy(context.outputs[i], value.raw(), value.bytes());
    }
    return {};
  }

  Status keep(KernelContext& context) const {
    for (size_t i = 0; i < outputs_; ++i) {
      const size_t bytes = types_[i].bytes();
      if (context.outputs[i] != nullptr && bytes > 0)
        std::memcpy(context.outputs[i], context.inputs[i], bytes);
    }
    return {};
  }

  // All that is missing or of another type, at once, before anything is read.
  Status check(const SafeTensorsIndex& index) const {
    std::vector<std::string> wrong, there;
    for (const auto& [name, entry] : index.entries) there.push_back(name);
    for (size_t i = 0; i < names_.size(); ++i) {
      const auto found = index.entries.find(names_[i]);
      if (found == index.entries.end()) {
        wrong.push_back(cat("'", names_[i], "' is not there", did_you_mean(names_[i], there)));
      } else if (found->second.dtype != types_[i].dtype || found->second.shape != types_[i].shape) {
        wrong.push_back(cat("'", names_[i], "' is ", found->second.dtype, found->second.shape,
                            ", expected ", types_[i].dtype, types_[i].shape));
      }
    }
    if (wrong.empty()) return {};
    return invalid_argument(
        cat("'", path_, "': expected the tensors of the node: ", join(wrong, "; ")));
  }

  const size_t outputs_;
  const bool optional_;
};

template <typename K>
Result<std::unique_ptr<Kernel>> make_saved_file_kernel(const KernelSetup& setup) {
  if (setup.resources == nullptr)
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  auto folder = save_folder(*setup.resources);
  if (!folder.ok())
    return Status(folder.status().code(), cat(setup.subject, ": ", folder.status().message()));
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup, std::move(folder).value()));
}

}  // namespace

void add_save_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Save", "cpu", make_saved_file_kernel<SaveKernel>);
  catalogue.add_kernel("leat.Restore", "cpu", make_saved_file_kernel<RestoreKernel>);
}

}  // namespace leat
