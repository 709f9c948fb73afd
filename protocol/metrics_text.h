// SPDX-License-Identifier: Apache-2.0
// Metrics in the text format of Prometheus (version 0.0.4), and the file in which its node exporter
// finds them (textfile collector).
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bellows::protocol {

class MetricsText {
 public:
  enum class Type { counter, gauge };
  using Labels = std::vector<std::pair<std::string, std::string>>;

  class Family {
   public:
    Family(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {}
    /// A sample. Label values are any bytes: what is no UTF-8 is replaced.
    Family& add(const Labels& labels, double value);
    bool empty() const { return empty_; }
    const std::string& text() const { return text_; }

   private:
    std::string name_, text_;
    bool empty_ = true;
  };

  /// All samples of one name follow its heading; a family without any is left out. To be called
  /// once for each name.
  Family& family(const std::string& name, Type type, std::string_view help);
  std::string str() const;

 private:
  std::deque<Family> families_;
};

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

/// Replaces the file as a whole (by a new one beside it and rename), so that nobody reads a part.
/// Throws std::runtime_error naming the file and the reason.
void write_metrics_file(const std::string& path, const std::string& text);

}  // namespace bellows::protocol
