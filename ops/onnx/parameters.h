// The choice of the initializers of a model that are trained. Exporters mix a module's parameters
// with its buffers and with constants computed from others, and write equal ones once. Files of
// PyTorch's current exporter record the kind of each; other files show some of it in names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/onnx/torch_calls.h"
#include "ops/text/draft.h"

namespace leat {

// The program that made a file, as the file describes it.
struct OnnxOrigin {
  // The model's producer_name, such as "pytorch". Without a signature, the names that PyTorch's
  // older exporter makes up are told from those of parameters only if it is "pytorch".
  std::string producer;
  // For each member of the exported module, by name: true for a parameter, false for a buffer or a
  // constant. It comes from the signature that PyTorch's exporter writes; empty if the file has
  // none.
  std::map<std::string, bool, std::less<>> members;
  // The members, by the names that calls know them under.
  std::map<std::string, std::string, std::less<>> names;
  // By the offset of a draft's node: the call that it was made from.
  std::map<size_t, TorchCall> calls;
  // The ranks of constants and of declared values, by name.
  std::map<std::string, int> ranks;

  // True if the file has a signature, so that names need no guesses.
  bool knows() const { return !members.empty(); }
};
// Reads the signature's text, which has a line "p_w: PARAMETER target='w'" for each member. Lines
// of another form are skipped, so any text is accepted.
std::map<std::string, bool, std::less<>> read_signature(std::string_view text);

// The choice for one model. Only float constants with a rank can become variables; scalars are
// constants such as epsilons. Threads: one. The draft must outlive this object.
class OnnxParameters {
 public:
  OnnxParameters(OnnxOrigin origin, DraftGraph& graph);

  // Splits constants that the exporter merged because they were equal at the time: an Identity's
  // output with the name of a parameter gets a constant of its own, and so do running statistics
  // that are also weights, and whatever restore_members() is certain of. Any other constant with
  // only one name is not split. A constant that the exporter
  // computed by transposing a parameter of the file becomes a Transpose of it again, so that
  // weights that the module shares stay shared.
  void separate();
  // Call this instead of separate() for a model without an origin: all constants are trained, each
  // as it is in the file, except the statistics of a BatchNormalization.
  void take_all();
  // REQUIRES: the name of a constant, after separate() or take_all().
  bool trains(const std::string& constant) const;
  // True for a constant that tells an op what to do, such as the scales of a Resize: it does not
  // even become a variable that is not trained.
  bool stays_constant(const std::string& constant) const { return settings_.contains(constant); }
  // Notes for people: the trained and the other constants, those that the exporter merged, computed
  // or folded, and how to keep them. REQUIRES: separate() or take_all() ran.
  std::vector<std::string> notes() const;

 private:
  // No gradient changes running means and variances.
  enum class Role : uint8_t { weights, mean, variance };
  void separate_aliases();
  void restore_transposed();
  void separate_roles();
  void find_uses();
  bool is_parameter_name(const std::string& name) const;
  void find_missing();
  void separate_modules();
  bool is_computed(const std::string& constant) const;
  std::string trained_note() const;
  std::string folded_note() const;
  std::string missing_note() const;
  size_t folded_norms() const;

  const OnnxOrigin origin_;
  DraftGraph& graph_;
  // Names of running statistics, of ops' weights, of masks, and of zeros that are the first states
  // of recurrent ops.
  std::set<std::string> statistics_, weights_, masks_, states_, settings_;
  // Values that nodes read which may have used a missing parameter.
  std::set<std::string> near_;
  // Parameters of the module that no initializer is named after, without those of folded
  // normalizations.
  std::vector<std::string> missing_;
  size_t separated_ = 0, restored_ = 0, left_out_ = 0, shared_ = 0, norms_ = 0;
};

}  // namespace leat
