// SPDX-License-Identifier: Apache-2.0
#include "scheduler/live/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace bellows::scheduler {
namespace {

bool write_all(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

bool Screen::usable() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && terminal != nullptr && *terminal != '\0' &&
         std::strcmp(terminal, "dumb") != 0;
}

void Screen::enter() {
  entered_ = true;
  termios settings{};
  if (tcgetattr(STDIN_FILENO, &settings) == 0) {
    before_ = settings;
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &settings);
  }
  write_all("\x1b[?1049h\x1b[?25l");
}

void Screen::leave() {
  if (!entered_) return;
  entered_ = false;
  write_all("\x1b[?25h\x1b[?1049l");
  if (before_) tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
}

TextSize Screen::size() const {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return {80, 24};
  return {window.ws_col, window.ws_row};
}

bool Screen::show(const std::vector<std::string>& lines) const {
  std::string all = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    all += (i > 0 ? "\r\n" : "") + lines[i] + "\x1b[K";
  }
  return write_all(all + "\x1b[J");
}

}  // namespace bellows::scheduler
