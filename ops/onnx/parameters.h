// Which initializers of a model are trained. Exporters mix a module's parameters with its buffers,
// with constants that they computed from others, and write equal ones once; files of PyTorch's
// current exporter say what was what, others let some of it be seen in names.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ops/text/draft.h"

namespace leat {

// The program that a file comes from, as the file describes it.
struct OnnxOrigin {
  std::string producer;
  // By name, of the module that was exported: is it a parameter? Else it is a buffer or a constant.
  // From the signature that PyTorch's exporter leaves; empty if the file has none.
  std::map<std::string, bool, std::less<>> members;

  bool knows() const { return !members.empty(); }
};
// The signature's text: a line "p_w: PARAMETER target='w'" for each.
std::map<std::string, bool, std::less<>> read_signature(std::string_view text);

// Threads: one. The draft outlives it.
class OnnxParameters {
 public:
  OnnxParameters(OnnxOrigin origin, DraftGraph& graph);

  // Gives a constant of their own to those that the exporter wrote as one because they were equal
  // at the time: what an Identity gives the name of a parameter, and running statistics that are
  // also weights. What one name says stays one.
  void separate();
  // Instead of separate(), without an origin: all are trained, each as it stands in the file, but
  // what a BatchNormalization has as its statistics.
  void take_all();
  // REQUIRES: the name of a constant, after separate() or take_all().
  bool trains(const std::string& constant) const;
  // For people: what is trained and what is not, what the exporter merged, computed or folded, and
  // how it keeps them. After separate() or take_all().
  std::vector<std::string> notes() const;

 private:
  // Running means and variances are what no gradient moves.
  enum class Role : uint8_t { weights, mean, variance };
  void separate_aliases();
  void separate_roles();
  void find_uses();
  bool is_parameter_name(const std::string& name) const;
  void find_missing();
  bool is_computed(const std::string& constant) const;
  std::string trained_note() const;
  std::string folded_note() const;
  std::string missing_note() const;
  size_t folded_norms() const;

  const OnnxOrigin origin_;
  DraftGraph& graph_;
  std::set<std::string> statistics_, weights_;  // names: of running statistics, of ops' weights
  // Parameters of the module that no initializer is called after, without those of normalizations
  // that were folded.
  std::vector<std::string> missing_;
  size_t separated_ = 0, norms_ = 0;
};

}  // namespace leat
