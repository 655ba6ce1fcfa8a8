// CPU kernels of ops/definitions/save.cc. Unlike other kernels they may wait for the disk, allocate
// memory and use names: a step that saves or restores is no fast one.
#include "ops/definitions/save.h"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/data/saved_files.h"
#include "ops/formats/safetensors.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

// The file of a node, which another thread may write or open. The step waits for the answer without
// a thread: the kernel is blocked until the answer is there.
class SavedFileKernel : public Kernel {
 public:
  SavedFileKernel(const KernelSetup& setup, std::shared_ptr<SavedFiles> files)
      : subject_(setup.subject),
        files_(std::move(files)),
        path_(attr_string(setup.attrs(), "path")),
        names_(saved_names(setup.attrs())) {
    for (const OperandType& type : setup.types.inputs) types_.push_back(type);
  }
  bool may_block() const final { return true; }

 protected:
  Progress report(KernelContext& context, const Status& status) const {
    if (status.ok()) return Progress::done;
    context.step->fail(context.instruction,
                       Status(status.code(), cat(subject_, ": ", status.message())));
    return Progress::failed;
  }

  const std::string subject_;
  const std::shared_ptr<SavedFiles> files_;
  const std::string path_;
  const std::vector<std::string> names_;
  std::vector<OperandType> types_;
};

// The outcome of one call at a time. The callee may give it after the kernel is gone.
template <typename T>
class Answer {
 public:
  // Begins a call, whose outcome goes to the function that this returns.
  std::function<void(T)> ask() {
    waits_ = true;
    ++calls_;
    return [shared = shared_, call = calls_](T outcome) {
      shared->outcome.emplace(std::move(outcome));
      shared->answered.signal(call);
    };
  }
  // True from ask() until take().
  bool waits() const { return waits_; }
  // False if there is no outcome yet; the context then says when to come again.
  bool ready(KernelContext& context) const {
    if (shared_->answered.reached(calls_)) return true;
    context.await = &shared_->answered;
    context.await_value = calls_;
    return false;
  }
  // REQUIRES: ready().
  T take() {
    waits_ = false;
    T outcome = std::move(*shared_->outcome);
    shared_->outcome.reset();
    return outcome;
  }

 private:
  struct Shared {
    Timeline answered;         // at n: the nth call has its outcome
    std::optional<T> outcome;  // of the last call; `answered` orders the accesses
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  uint64_t calls_ = 0;
  bool waits_ = false;
};

class SaveKernel final : public SavedFileKernel {
 public:
  SaveKernel(const KernelSetup& setup, std::shared_ptr<SavedFiles> files)
      : SavedFileKernel(setup, std::move(files)),
        every_(static_cast<uint64_t>(attr_int(setup.attrs(), "every"))) {}

  Progress run(KernelContext& context, int, int) override {
    const uint64_t steps = context.step->step + 1;
    if (steps % every_ != 0) return Progress::done;
    if (!written_.waits()) write(context, steps);
    if (!written_.ready(context)) return Progress::blocked;
    return report(context, written_.take());
  }

 private:
  void write(const KernelContext& context, uint64_t steps) {
    SafeTensors content;
    content.metadata = {{"format", "pt"}, {"leat.step", std::to_string(steps)}};
    for (size_t i = 0; i < names_.size(); ++i) {
      // The file is made from the operands themselves.
      content.tensors.emplace(names_[i],
                              Tensor::wrap(types_[i].dtype, types_[i].shape,
                                           const_cast<void*>(context.inputs[i]), nullptr));
    }
    files_->write(saved_path_of(path_, steps), content, written_.ask());
  }

  const uint64_t every_;
  Answer<Status> written_;
};

class RestoreKernel final : public SavedFileKernel {
 public:
  RestoreKernel(const KernelSetup& setup, std::shared_ptr<SavedFiles> files)
      : SavedFileKernel(setup, std::move(files)),
        outputs_(setup.types.outputs.size()),
        optional_(attr_int(setup.attrs(), "optional") != 0) {}

  Progress run(KernelContext& context, int, int) override {
    if (!opened_.waits()) files_->open(path_, opened_.ask());
    if (!opened_.ready(context)) return Progress::blocked;
    return report(context, take(context, opened_.take()));
  }

 private:
  Status take(KernelContext& context, const SavedFiles::Opened& opened) const {
    LEAT_RETURN_IF_ERROR(opened.status());
    const auto& file = *opened;
    if (!file && optional_) return keep(context);
    if (!file) return failed_precondition(cat("'", path_, "': there is no such file"));
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
  Answer<SavedFiles::Opened> opened_;
};

template <typename K>
Result<std::unique_ptr<Kernel>> make_saved_file_kernel(const KernelSetup& setup) {
  if (setup.resources == nullptr)
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  auto files = saved_files(*setup.resources);
  if (!files.ok())
    return Status(files.status().code(), cat(setup.subject, ": ", files.status().message()));
  return std::unique_ptr<Kernel>(std::make_unique<K>(setup, std::move(files).value()));
}

}  // namespace

void add_save_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Save", "cpu", make_saved_file_kernel<SaveKernel>);
  catalogue.add_kernel("leat.Restore", "cpu", make_saved_file_kernel<RestoreKernel>);
}

}  // namespace leat
