// The grammar of names that daemons and clients receive from each other. Names become parts of
// paths, of command lines and of terminal output, so every receiver checks a name first.
#pragma once

#include <string>
#include <string_view>

namespace leat {

// As make_job_id() makes them: small letters, digits and '-', a letter or digit first; at most 80.
// Such an id is one part of a path, and no option of a command.
bool is_job_id(std::string_view text);

// Letters, digits, '-', '_' and '.', a letter or digit first; at most 64.
bool is_worker_name(std::string_view text);

// A file that a job has left, relative to the job's folder: a tame path (records.h) without control
// characters, and no dotfile of that folder, which may be fetched into somebody's home.
bool is_left_file(std::string_view name);

// `text` in quotes for a message, cut after 80 bytes.
std::string quoted_start(std::string_view text);

}  // namespace leat
