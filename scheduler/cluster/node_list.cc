// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cluster/node_list.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>

namespace bellows::scheduler {
namespace {

constexpr std::size_t kMostNames = 100'000;
constexpr std::size_t kLongestText = 1 << 20;

bool plain(const std::string& part) {
  if (part.starts_with('-') || part.starts_with('.')) return false;  // it would be an option
  return std::ranges::all_of(part, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
  });
}

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {
    if (text.empty() || text.size() > kLongestText) fail("it is empty or too long");
  }

  std::vector<std::string> parse() {
    std::size_t start = 0;
    int depth = 0;
    for (std::size_t at = 0; at <= text_.size(); ++at) {
      const char c = at < text_.size() ? text_[at] : ',';
      if (c == '[') ++depth;
      if (c == ']') --depth;
      if (depth < 0 || depth > 1) fail("its brackets do not match");
      if (c == ',' && depth == 0) {
        item(text_.substr(start, at - start));
        start = at + 1;
      }
    }
    if (depth != 0) fail("its brackets do not match");
    return std::move(names_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw BadNodeList("'" + text_.substr(0, 200) + "' is no list of nodes: " + why);
  }

  void item(const std::string& text) {
    const std::size_t open = text.find('[');
    if (open == std::string::npos) {
      add(text);
      return;
    }
    const std::size_t close = text.find(']');
    const std::string head = text.substr(0, open), tail = text.substr(close + 1);
    std::string ranges = text.substr(open + 1, close - open - 1);
    for (std::size_t start = 0; start <= ranges.size();) {
      const std::size_t comma = std::min(ranges.find(',', start), ranges.size());
      range(head, ranges.substr(start, comma - start), tail);
      start = comma + 1;
    }
  }

  // "7", "1-3", "01-12": the width of the first number is kept.
  void range(const std::string& head, const std::string& text, const std::string& tail) {
    const std::size_t dash = text.find('-');
    const std::string first = text.substr(0, dash);
    const auto low = number(first);
    const auto high = dash == std::string::npos ? low : number(text.substr(dash + 1));
    if (!low || !high || *high < *low) fail("'" + text + "' is no range");
    if (*high - *low >= kMostNames) fail("it names too many");
    for (std::size_t n = *low; n <= *high; ++n) {
      std::string digits = std::to_string(n);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      add(head + digits + tail);
    }
  }

  static std::optional<std::size_t> number(const std::string& text) {
    std::size_t value = 0;
    const auto [after, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = failed == std::errc() && after == text.data() + text.size();
    if (!whole || text.size() > 9) return std::nullopt;
    return value;
  }

  void add(const std::string& name) {
    if (name.empty() || !plain(name)) fail("'" + name + "' is no name of a node");
    if (!seen_.insert(name).second) return;
    if (names_.size() >= kMostNames) fail("it names too many");
    names_.push_back(name);
  }

  const std::string& text_;
  std::vector<std::string> names_;
  std::set<std::string> seen_;
};

}  // namespace

std::vector<std::string> parse_node_list(const std::string& text) { return Parser(text).parse(); }

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string join(const std::vector<std::string>& names, const char* between) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

}  // namespace bellows::scheduler
