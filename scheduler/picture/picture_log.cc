// SPDX-License-Identifier: Apache-2.0
#include "scheduler/picture/picture_log.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <set>
#include <stdexcept>

#include "protocol/line_file.h"

namespace bellows::scheduler {
namespace json = boost::json;

namespace {

// A change of nodes may come so long after the decision that it follows.
constexpr double kDecisionHolds = 120;
constexpr std::array kOwnKinds = {"begin", "cluster", "nodes", "decision", "alive"};

std::string text(const json::object& event, const char* name) {
  return json::value_to<std::string>(event.at(name));
}

std::set<std::string> names(const json::object& event, const char* name) {
  const auto list = json::value_to<std::vector<std::string>>(event.at(name));
  return {list.begin(), list.end()};
}

class Reader {
 public:
  // Throws when the line is none of bellowsd's; then nothing has changed.
  void take(const json::object& event) {
    const auto time = event.at("time").to_number<double>();
    if (!std::isfinite(time) || time < 0 || time > 1e11) throw std::runtime_error("no time");
    const std::string kind = text(event, "kind");
    if (kind == "nodes") {
      const auto job = event.at("job").to_number<JobId>();
      PictureJob seen{text(event, "name"), text(event, "partition"),
                      event.at("user").to_number<std::int64_t>(), event.at("elastic").as_bool()};
      const std::set<std::string> nodes = names(event, "nodes");
      at(time);
      picture_.jobs[job] = std::move(seen);
      change(job, nodes);
    } else if (kind == "decision") {
      Decided decided{time, event.at("grow").to_number<int>() > 0, text(event, "why")};
      const auto job = event.at("job").to_number<JobId>();
      const bool dry = event.at("dry_run").as_bool();
      at(time);
      if (!dry) decided_[job] = std::move(decided);
    } else if (kind == "cluster") {
      const std::set<std::string> nodes = names(event, "nodes");
      at(time);
      nodes_.insert(nodes.begin(), nodes.end());
    } else if (kind == "begin" && !event.contains("resumed")) {
      close_all(now_, true);  // it was killed: what came then is not known
      at(time);
    } else if (kind == "end") {
      at(time);
      close_all(now_, true);
    } else {
      at(time);
    }
    ++lines_;
    // bellows-run's events have an end as well, and none of these.
    if (std::ranges::count(kOwnKinds, kind) > 0) ++known_;
  }

  bool backwards() const { return backwards_; }
  /// Events of kinds that only bellowsd has, so far.
  std::size_t known() const { return known_; }

  Picture finish() {
    close_all(now_, true);
    picture_.end = now_;
    picture_.nodes.assign(nodes_.begin(), nodes_.end());
    std::ranges::sort(picture_.nodes, natural_less);
    std::ranges::stable_sort(picture_.bars, [](const PictureBar& a, const PictureBar& b) {
      if (a.node != b.node) return natural_less(a.node, b.node);
      return a.from != b.from ? a.from < b.from : a.job < b.job;
    });
    return std::move(picture_);
  }

 private:
  struct Decided {
    double time = 0;
    bool grow = false;
    std::string why;
  };

  // A clock that was set back stands still here.
  void at(double time) {
    if (lines_ == 0) picture_.begin = now_ = time;
    backwards_ = backwards_ || time < now_ - 1;
    now_ = std::max(now_, time);
  }

  void change(JobId job, const std::set<std::string>& nodes) {
    auto& held = held_[job];
    for (auto bar = held.begin(); bar != held.end();) {
      if (nodes.contains(bar->first)) {
        ++bar;
        continue;
      }
      close(bar->second, now_, false);
      bar = held.erase(bar);
    }
    const auto decided = decided_.find(job);
    const bool follows = decided != decided_.end() && decided->second.grow &&
                         now_ - decided->second.time < kDecisionHolds;
    for (const std::string& node : nodes) {
      nodes_.insert(node);
      if (held.contains(node)) continue;
      held[node] = {job, node, now_, now_, false, follows ? decided->second.why : ""};
    }
    if (held.empty()) held_.erase(job);
  }

  void close(PictureBar bar, double time, bool open) {
    bar.to = time;
    bar.open = open;
    picture_.bars.push_back(std::move(bar));
  }

  void close_all(double time, bool open) {
    for (auto& [job, held] : held_) {
      for (auto& [node, bar] : held) close(bar, time, open);
    }
    held_.clear();
  }

  Picture picture_;
  double now_ = 0;
  std::size_t lines_ = 0, known_ = 0;
  bool backwards_ = false;
  std::set<std::string> nodes_;
  std::map<JobId, std::map<std::string, PictureBar>> held_;
  std::map<JobId, Decided> decided_;
};

[[noreturn]] void fail(const std::string& who) {
  throw std::runtime_error(who + " no event of bellowsd's (event-file in bellowsd.conf)");
}

void read_file(const std::string& path, Reader& reader,
               const std::function<void(const std::string&)>& complain) {
  const std::size_t before = reader.known();
  bool any = false;
  protocol::read_json_lines(
      path,
      [&](const json::object& line) {
        any = true;
        reader.take(line);
      },
      [&](const std::string& note) {
        any = true;
        complain(note);
      });
  if (any && reader.known() == before) fail(path + " has");
}

}  // namespace

Picture read_picture(const std::vector<std::string>& files,
                     const std::function<void(const std::string&)>& complain) {
  Reader reader;
  for (const std::string& path : files) read_file(path, reader, complain);
  if (reader.known() == 0) fail(files[0] + (files.size() > 1 ? " and the others have" : " has"));
  if (reader.backwards()) {
    complain("times go backwards: the clock was set, or the files are not in their order");
  }
  return reader.finish();
}

bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const auto end = [&](const std::string& text, std::size_t from) {
        while (from < text.size() && digit(text[from])) ++from;
        return from;
      };
      const auto number = [&](const std::string& text, std::size_t from) {
        std::string digits = text.substr(from, end(text, from) - from);
        digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
        return digits;
      };
      const std::string x = number(a, i), y = number(b, j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      i = end(a, i);
      j = end(b, j);
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
    }
  }
  const bool a_ends = i == a.size(), b_ends = j == b.size();
  return a_ends != b_ends ? a_ends : a < b;
}

}  // namespace bellows::scheduler
