#include "daemon/status/list_query.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 4> kListKeys = {"state", "name", "after", "limit"};
constexpr uint64_t kMostItems = 10'000;  // of a page

const std::string* query_text(const HttpRequest& request, std::string_view name) {
  for (const auto& [key, text] : request.query)
    if (key == name) return &text;
  return nullptr;
}

// The states of the query; empty for all. `known` are the valid ones.
Result<std::vector<std::string>> wanted_states(const HttpRequest& request,
                                               const std::vector<std::string>& known) {
  const std::string* text = query_text(request, "state");
  if (text == nullptr) return std::vector<std::string>();
  std::vector<std::string> states;
  for (std::string_view rest = *text;;) {
    const std::string& state = states.emplace_back(rest.substr(0, rest.find(',')));
    if (std::find(known.begin(), known.end(), state) == known.end())
      return invalid_argument(
          cat("state: expected some of ", join(known, ", "), ", got '", state, "'"));
    if (state.size() == rest.size()) return states;
    rest.remove_prefix(state.size() + 1);
  }
}

Status check_keys(const HttpRequest& request) {
  for (const auto& [key, value] : request.query) {
    if (std::find(kListKeys.begin(), kListKeys.end(), key) == kListKeys.end())
      return invalid_argument(
          cat(key, ": unknown; expected some of ", join(kListKeys, ", "), " in the query"));
  }
  return {};
}

// The part of the query that both lists have.
struct ListFilter {
  std::vector<std::string> states;
  std::string name;
  uint64_t limit = 0;

  bool takes(std::string_view state, std::string_view named) const {
    return named.find(name) != std::string_view::npos &&
           (states.empty() || std::find(states.begin(), states.end(), state) != states.end());
  }
};

Result<ListFilter> read_filter(const HttpRequest& request, const std::vector<std::string>& known) {
  LEAT_RETURN_IF_ERROR(check_keys(request));
  ListFilter filter;
  LEAT_ASSIGN_OR_RETURN(filter.states, wanted_states(request, known));
  if (const std::string* name = query_text(request, "name")) filter.name = *name;
  LEAT_ASSIGN_OR_RETURN(filter.limit,
                        query_number(request, "limit", std::numeric_limits<uint64_t>::max()));
  const bool given = query_text(request, "limit") != nullptr;
  if (given && (filter.limit < 1 || filter.limit > kMostItems))
    return invalid_argument(cat("limit: expected 1 to ", kMostItems, ", got ", filter.limit));
  return filter;
}

// Keeps the first items that `takes` is true for. `key` is the place of an item in the list.
template <typename T, typename Takes, typename Key>
ListPage<T> page_of(std::vector<T> all, uint64_t limit, Takes takes, Key key) {
  ListPage<T> page;
  for (T& item : all) {
    if (!takes(item)) continue;
    if (page.items.size() == limit) {
      page.next = key(page.items.back());
      break;
    }
    page.items.push_back(std::move(item));
  }
  return page;
}

template <typename States>
std::vector<std::string> names_of(const States& states) {
  std::vector<std::string> names;
  for (const auto state : states) names.emplace_back(name_of(state));
  return names;
}

}  // namespace

Result<uint64_t> whole_number_of(std::string_view subject, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return invalid_argument(cat(subject, ": expected a whole number, got '", text, "'"));
}

Result<uint64_t> query_number(const HttpRequest& request, std::string_view name,
                              uint64_t otherwise) {
  const std::string* text = query_text(request, name);
  return text == nullptr ? otherwise : whole_number_of(name, *text);
}

Result<ListPage<JobView>> page_of_jobs(const HttpRequest& request, std::vector<JobView> jobs) {
  LEAT_ASSIGN_OR_RETURN(const ListFilter filter, read_filter(request, names_of(kJobStates)));
  LEAT_ASSIGN_OR_RETURN(const uint64_t after, query_number(request, "after", 0));
  return page_of(
      std::move(jobs), filter.limit,
      [&](const JobView& job) {
        return job.number > after && filter.takes(name_of(job.condition.state), job.id);
      },
      [](const JobView& job) { return std::to_string(job.number); });
}

Result<ListPage<NodeView>> page_of_nodes(const HttpRequest& request, std::vector<NodeView> nodes) {
  LEAT_ASSIGN_OR_RETURN(const ListFilter filter, read_filter(request, names_of(kWorkerStates)));
  const std::string* after = query_text(request, "after");
  return page_of(
      std::move(nodes), filter.limit,
      [&](const NodeView& node) {
        const std::string& name = node.worker.info.worker.name;
        return (after == nullptr || name > *after) &&
               filter.takes(name_of(node.worker.state), name);
      },
      [](const NodeView& node) { return node.worker.info.worker.name; });
}

}  // namespace leat
