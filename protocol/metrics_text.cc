// SPDX-License-Identifier: Apache-2.0
#include "protocol/metrics_text.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "protocol/fd.h"

namespace bellows::protocol {
namespace {

// The bytes of the UTF-8 character at the beginning of `text`; 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool outside = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || outside ? 0 : length;
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (text[0] == '\n') {
      out += "\\n";
    } else if (text[0] == '\\' || text[0] == '"') {
      out += '\\';
      out += text[0];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

[[noreturn]] void fail(const std::string& path) {
  throw std::runtime_error(path + ": " + std::strerror(errno));
}

}  // namespace

MetricsText::Family& MetricsText::family(const std::string& name, Type type,
                                         std::string_view help) {
  return families_.emplace_back(name, "# HELP " + name + " " + std::string(help) + "\n# TYPE " +
                                          name +
                                          (type == Type::counter ? " counter\n" : " gauge\n"));
}

MetricsText::Family& MetricsText::Family::add(const Labels& labels, double value) {
  empty_ = false;
  text_ += name_;
  char before = '{';
  for (const auto& [label, content] : labels) {
    text_ += before + label + "=\"" + escaped(content) + '"';
    before = ',';
  }
  if (!labels.empty()) text_ += '}';
  text_ += ' ' + number(value) + '\n';
  return *this;
}

std::string MetricsText::str() const {
  std::string all;
  for (const Family& family : families_) {
    if (!family.empty()) all += family.text();
  }
  return all;
}

void write_metrics_file(const std::string& path, const std::string& text) {
  struct stat old{};
  if (stat(path.c_str(), &old) == 0 && !S_ISREG(old.st_mode))
    throw std::runtime_error(path + ": is not a file, and would be replaced by one");
  // (The collector reads files that end in .prom only.)
  const std::string unnamed = path + ".new." + std::to_string(getpid());
  unlink(unnamed.c_str());
  const Fd file(open(unnamed.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.valid()) fail(unnamed);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = ENOSPC;
      const int why = errno;
      unlink(unnamed.c_str());
      errno = why;
      fail(unnamed);
    }
    done += static_cast<std::size_t>(n);
  }
  if (rename(unnamed.c_str(), path.c_str()) == 0) return;
  const int why = errno;
  unlink(unnamed.c_str());
  errno = why;
  fail(path);
}

}  // namespace bellows::protocol
