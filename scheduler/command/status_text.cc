// SPDX-License-Identifier: Apache-2.0
#include "scheduler/command/status_text.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <vector>

namespace bellows::scheduler {
namespace json = boost::json;

namespace {

constexpr const char* kUnknown = "-";

std::string real(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

const json::value* find(const json::object& object, const char* name) {
  return object.if_contains(name);
}

std::optional<double> number(const json::object& object, const char* name) {
  const json::value* value = find(object, name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double n = value->to_number<double>();
  return std::isfinite(n) ? std::optional(n) : std::nullopt;
}

// Text, or a number as it is.
std::string shown(const json::object& object, const char* name) {
  const json::value* value = find(object, name);
  if (value == nullptr) return kUnknown;
  if (value->is_string()) return printable(std::string_view(value->get_string()));
  if (value->is_int64() || value->is_uint64()) return json::serialize(*value);
  return kUnknown;
}

// A member or rank that is not there yet is -1.
std::string shown_rank(const json::object& object) {
  const auto rank = number(object, "rank");
  return rank && *rank < 0 ? kUnknown : shown(object, "rank");
}

// 0.25 s, 12 s, 3:05, 1:02:03
std::string duration(const json::object& object, const char* name) {
  const auto seconds = number(object, name);
  if (!seconds || *seconds < 0 || *seconds > 1e12) return kUnknown;
  if (*seconds < 10) return real(*seconds, 2) + " s";
  const auto whole = static_cast<long long>(*seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  std::array<char, 64> text{};
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%lld:%02lld", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  }
  return text.data();
}

std::string local_time(const json::object& object) {
  const auto seconds = number(object, "time");
  if (!seconds || std::abs(*seconds) > 1e11) return kUnknown;
  const auto when = static_cast<std::time_t>(*seconds);
  std::tm parts{};
  std::array<char, 64> text{};
  if (localtime_r(&when, &parts) == nullptr ||
      std::strftime(text.data(), text.size(), "%F %T", &parts) == 0) {
    return kUnknown;
  }
  return text.data();
}

std::optional<std::int64_t> whole(const json::object& object, const char* name) {
  const json::value* value = find(object, name);
  return value != nullptr && value->is_int64() ? std::optional(value->get_int64()) : std::nullopt;
}

const json::object* hints_in(const json::object& head) {
  const json::value* hints = find(head, "hints");
  return hints != nullptr ? hints->if_object() : nullptr;
}

// What the training says of its size, if anything.
std::string hints_text(const json::object& head) {
  const json::object* hints = hints_in(head);
  if (hints == nullptr) return "";
  const auto size = [&](const char* nodes, const char* ranks) {
    return shown(*hints, nodes) + (whole(*hints, nodes) == 1 ? " node (" : " nodes (") +
           shown(*hints, ranks) + (whole(*hints, ranks) == 1 ? " rank)" : " ranks)");
  };
  const auto percent = [](double part) {
    return (part < 0 ? "-" : "+") + real(std::abs(100 * part), 0) + "%";
  };
  std::string text = "does best with " + size("best_nodes", "best_ranks") + "; " +
                     size("economic_nodes", "economic_ranks") +
                     (whole(*hints, "economic_nodes") == 1 ? " pays" : " pay") + "; predicted: ";
  const auto goodput = number(*hints, "goodput");
  text += (goodput ? real(*goodput, *goodput < 100 ? 1 : 0) : kUnknown) + " samples/s";
  if (const auto more = number(*hints, "gain_of_more"))
    text += ", " + percent(*more) + " with a node more";
  if (const auto less = number(*hints, "loss_of_less"))
    text += ", " + percent(-*less) + " with one less";
  return text + '\n';
}

struct Column {
  const char* title;
  bool right;  // aligned, as numbers are
};
using Row = std::vector<std::string>;

std::string table(const std::vector<Column>& columns, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::size_t width = std::string_view(columns[c].title).size();
    for (const Row& row : rows) width = std::max(width, row[c].size());
    widths.push_back(width);
  }
  std::string text;
  const auto add = [&](std::size_t c, const std::string& cell) {
    const std::string padding(widths[c] - cell.size(), ' ');
    if (c > 0) text += "  ";
    const bool last = c + 1 == columns.size();
    text += columns[c].right ? padding + cell : cell + (last ? "" : padding);
  };
  for (std::size_t c = 0; c < columns.size(); ++c) add(c, columns[c].title);
  text += '\n';
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c) add(c, row[c]);
    text += '\n';
  }
  return text;
}

// The objects of an array.
template <typename MakeRow>
std::vector<Row> rows_of(const json::object& head, const char* name, MakeRow make_row) {
  std::vector<Row> rows;
  const json::value* list = find(head, name);
  if (list == nullptr || !list->is_array()) return rows;
  for (const json::value& item : list->get_array()) {
    if (item.is_object()) rows.push_back(make_row(item.get_object()));
  }
  return rows;
}

std::string summary(const json::object& head, std::size_t ranks) {
  std::string text = "job " + shown(head, "job") + ": " + shown(head, "state") + ", epoch " +
                     shown(head, "epoch") + ", " + std::to_string(ranks) +
                     (ranks == 1 ? " rank (" : " ranks (") + shown(head, "min") + " to " +
                     shown(head, "max") + "), step " + shown(head, "step");
  const auto speed = number(head, "samples_per_second");
  text += ", " + (speed ? real(*speed, *speed < 100 ? 1 : 0) : kUnknown) + " samples/s\n";
  return text;
}

}  // namespace

std::string best_size(const std::optional<std::int64_t>& best,
                      const std::optional<std::int64_t>& economic) {
  if (!best) return kUnknown;
  std::string text = std::to_string(*best);
  if (economic && economic != best) text += " (" + std::to_string(*economic) + " pay)";
  return text;
}

std::string jobs_text(const protocol::Message& jobs) {
  const json::object& head = jobs.head;
  const auto count = [](const json::object& job, const char* name) {
    const json::value* value = find(job, name);
    return value != nullptr && value->is_array() ? std::to_string(value->get_array().size())
                                                 : std::string(kUnknown);
  };
  const auto best_of = [](const json::object& job) {
    const json::object* hints = hints_in(job);
    return hints != nullptr
               ? best_size(whole(*hints, "best_nodes"), whole(*hints, "economic_nodes"))
               : std::string(kUnknown);
  };
  const std::vector<Row> rows = rows_of(head, "jobs", [&](const json::object& job) {
    const json::value* manual = find(job, "manual");
    const bool owner = manual != nullptr && manual->is_bool() && manual->get_bool();
    return Row{shown(job, "job"),
               shown(job, "name"),
               shown(job, "user"),
               shown(job, "partition"),
               shown(job, "min") + "-" + shown(job, "max"),
               count(job, "held"),
               shown(job, "ranks"),
               shown(job, "training_step"),
               real(number(job, "samples_per_second").value_or(0), 1),
               best_of(job),
               owner ? "manual" : shown(head, "policy")};
  });
  const std::vector<Row> events = rows_of(head, "events", [](const json::object& event) {
    return Row{local_time(event), shown(event, "job"), shown(event, "text")};
  });
  std::string text = table({{"JOB", true},
                            {"NAME", false},
                            {"USER", true},
                            {"PARTITION", false},
                            {"MIN-MAX", false},
                            {"NODES", true},
                            {"RANKS", true},
                            {"STEP", true},
                            {"SAMPLES/S", true},
                            {"BEST", false},
                            {"SIZE BY", false}},
                           rows);
  if (!events.empty()) {
    text += '\n' + table({{"TIME", false}, {"JOB", true}, {"DECISION", false}}, events);
  }
  return text;
}

std::string status_text(const protocol::Message& status) {
  const json::object& head = status.head;
  const std::vector<Row> ranks = rows_of(head, "ranks", [](const json::object& rank) {
    return Row{shown_rank(rank),         shown(rank, "member"), shown(rank, "node"),
               shown(rank, "pid"),       shown(rank, "state"),  shown(rank, "step"),
               duration(rank, "seconds")};
  });
  const std::vector<Row> nodes = rows_of(head, "nodes", [](const json::object& node) {
    return Row{shown(node, "name"), shown(node, "ranks")};
  });
  const std::vector<Row> events = rows_of(head, "events", [](const json::object& event) {
    return Row{local_time(event), shown(event, "kind"), duration(event, "seconds"),
               shown(event, "text")};
  });
  std::string text = summary(head, ranks.size()) + hints_text(head);
  if (!ranks.empty()) {
    text += '\n' + table({{"RANK", true},
                          {"MEMBER", true},
                          {"NODE", false},
                          {"PID", true},
                          {"STATE", false},
                          {"STEP", true},
                          {"AGE", true}},
                         ranks);
  }
  if (!nodes.empty()) text += '\n' + table({{"NODE", false}, {"RANKS", true}}, nodes);
  if (!events.empty()) {
    text +=
        '\n' + table({{"TIME", false}, {"CHANGE", false}, {"TOOK", true}, {"WHAT", false}}, events);
  }
  return text;
}

std::string event_heading() {
  return "TIME                 EVENT         TOOK  EPOCH  RANKS  NODES     WHAT\n";
}

std::string event_line(const protocol::JobEvent& event) {
  const json::object object = to_json(event);
  std::string nodes;
  for (const std::string& node : event.nodes) nodes += (nodes.empty() ? "" : ",") + printable(node);
  const auto right = [](const std::string& cell, std::size_t width) {
    return std::string(width - std::min(width, cell.size()), ' ') + cell + "  ";
  };
  const auto left = [](std::string cell, std::size_t width) {
    cell.resize(std::max(width, cell.size()), ' ');
    return cell + "  ";
  };
  return left(local_time(object), 19) + left(printable(event.kind), 8) +
         right(event.seconds > 0 ? duration(object, "seconds") : kUnknown, 8) +
         right(event.epoch > 0 ? shown(object, "epoch") : kUnknown, 5) +
         right(shown(object, "ranks"), 5) + left(nodes.empty() ? kUnknown : nodes, 8) +
         printable(event.text) + '\n';
}

std::string printable(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string line;
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (before == 0xC2 && byte < 0xA0) {  // U+0080 to U+009F: control characters as well
      line.pop_back();
      line += std::string("\\xc2\\x") + kHex[byte >> 4] + kHex[byte & 15];
    } else if (c == '\\') {
      line += "\\\\";
    } else if (byte < 0x20 || byte == 0x7F) {
      line += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      line += c;
    }
    before = byte;
  }
  return line;
}

}  // namespace bellows::scheduler
