// Completions for shells, made from the parser itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class App;
}  // namespace CLI

namespace leat {

// A script for bash, zsh or fish that completes the commands and flags of `app`, and files for
// their values; nothing for another shell.
std::optional<std::string> completion_script(const CLI::App& app, std::string_view shell);

// The same words as JSON, one object on each line, for tools of other kinds: an object of kind
// "Command" for each command, followed by those of kinds "Option" and "Argument" for what it takes.
std::string completion_json(const CLI::App& app);

}  // namespace leat
