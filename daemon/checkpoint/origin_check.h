// Checks what the manifests of a run's checkpoints say of their origin: that each was made by this
// run, from the one before it, and is signed by the right key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/checkpoint/manifest.h"
#include "daemon/checkpoint/provenance.h"
#include "devices/base/status.h"

namespace leat {

// The facts that a checkpoint has to agree with; what is empty is not compared.
struct ExpectedOrigin {
  std::string key;  // the public key that has to have signed them
  // The file of the run's folder that says which checkpoints belong to it.
  std::optional<ProvenanceFile> identity;
  std::string run;  // the id of the job that was asked for
  // Checkpoints between two may be missing, as in a copy that is made more slowly than they are.
  bool allows_gaps = false;
};

// How far the manifest of a checkpoint can be believed.
enum class OriginTrust : uint8_t {
  not_signed,
  signed_by_key,  // of the manifest, which is the expected one if there is one
  vouched_for,    // by the next checkpoint of the run, which is signed and has its hash
};

// Takes the manifests of one run, the newest first.
//
// The newest has to belong to the run, and to be signed if a key is expected. Each older one has to
// be the one that the next newer one names by the hash of its manifest: then it may be of another
// run that this one went on from, and signed by another key or none. Threads: one.
class OriginCheck {
 public:
  explicit OriginCheck(ExpectedOrigin expected) : expected_(std::move(expected)) {}

  // Checks the next manifest. invalid_argument begins with `subject`, the manifest's file, and says
  // what was expected and received.
  Status check(const Manifest& manifest, std::string_view subject);
  // The next checkpoint cannot be read: the one behind it is compared with no other.
  void pass_over() { after_.reset(); }
  // Of the manifest that the last check() took.
  OriginTrust trust() const { return trust_; }

 private:
  Status check_link(const Manifest& manifest, std::string_view subject) const;
  Status check_key(const Manifest& manifest, bool is_linked, std::string_view subject);
  Status check_run(const Manifest& manifest, std::string_view subject) const;

  const ExpectedOrigin expected_;
  std::optional<Manifest> after_;  // the next newer one, if it was in order
  OriginTrust trust_ = OriginTrust::not_signed;
};

}  // namespace leat
