#include "daemon/wire/submission.h"

#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "transport/rpc/chunks.h"

namespace leat {
namespace {

void write_file(const AttachedFile& file, wire::AttachedFile::Builder out) {
  out.setName(file.name.c_str());
  if (file.bytes) {
    out.setBytes({reinterpret_cast<const kj::byte*>(file.bytes->data()), file.bytes->size()});
    return;
  }
  auto blob = out.initBlob();
  blob.setSha256({file.sha256.data(), file.sha256.size()});
  blob.setSize(file.size);
}

Result<AttachedFile> read_file(wire::AttachedFile::Reader in, const SubmissionLimits& limits) {
  AttachedFile file;
  file.name = to_string(in.getName());
  if (in.isBlob()) {
    LEAT_ASSIGN_OR_RETURN(file.sha256, read_digest(in.getBlob().getSha256()));
    file.size = in.getBlob().getSize();
    return file;
  }
  const auto bytes = in.getBytes();
  if (bytes.size() > limits.inline_bytes) {
    return invalid_argument(
        cat("attached file '", file.name, "': expected at most ", human_bytes(limits.inline_bytes),
            " in a file that is not uploaded, received ", human_bytes(bytes.size())));
  }
  file.bytes.emplace(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  return file;
}

// Counts the files before the reader copies them: check_submission() runs only after the job file
// is read.
Status check_count(capnp::List<wire::AttachedFile>::Reader files, const SubmissionLimits& limits) {
  size_t others = 0;
  for (const auto each : files) {
    const std::string_view name(each.getName().cStr(), each.getName().size());
    if (!name.starts_with(kResumed)) ++others;
  }
  const size_t resumed = files.size() - others;
  if (others <= limits.files && resumed <= kMaxResumedFiles) return {};
  if (resumed == 0) {
    return invalid_argument(
        cat("submit: expected at most ", limits.files, " attached files, received ", others));
  }
  return invalid_argument(cat("submit: expected at most ", limits.files, " attached files and ",
                              kMaxResumedFiles, " of a checkpoint, received ", others, " and ",
                              resumed));
}

}  // namespace

void write_submission(const Submission& submission, const std::string& resume,
                      wire::SubmitRequest::Builder out) {
  out.setRequestId(submission.request_id.c_str());
  out.setJob({submission.text.data(), submission.text.size()});
  out.setResume(resume.c_str());
  write_texts(submission.overrides,
              out.initOverrides(static_cast<uint32_t>(submission.overrides.size())));
  write_texts(submission.chaos, out.initChaos(static_cast<uint32_t>(submission.chaos.size())));
  out.setUser(submission.terms.user.c_str());
  out.setPaused(submission.terms.paused);
  auto files = out.initFiles(static_cast<uint32_t>(submission.files.size()));
  for (uint32_t i = 0; i < files.size(); ++i) write_file(submission.files[i], files[i]);
}

Result<Submission> read_submission(wire::SubmitRequest::Reader in, const SubmissionLimits& limits) {
  Submission submission;
  LEAT_RETURN_IF_ERROR(check_count(in.getFiles(), limits));
  submission.request_id = to_string(in.getRequestId());
  submission.text = to_string(in.getJob());
  submission.overrides = read_texts(in.getOverrides());
  submission.chaos = read_texts(in.getChaos());
  submission.terms.user = to_string(in.getUser());
  submission.terms.paused = in.getPaused();
  for (const auto each : in.getFiles()) {
    LEAT_ASSIGN_OR_RETURN(AttachedFile file, read_file(each, limits));
    submission.files.push_back(std::move(file));
  }
  return submission;
}

}  // namespace leat
