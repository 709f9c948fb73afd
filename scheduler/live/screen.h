// SPDX-License-Identifier: Apache-2.0
// The whole of a terminal, for a program that shows itself anew again and again, and leaves the
// terminal as it was.
#pragma once

#include <termios.h>

#include <optional>
#include <string>
#include <vector>

#include "scheduler/live/live_text.h"

namespace bellows::scheduler {

class Screen {
 public:
  /// Whether output goes to a terminal that can be drawn on.
  static bool usable();

  Screen() { enter(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() { leave(); }

  /// Takes the terminal's other screen, hides the cursor, and has keys come at once and unseen.
  void enter();
  /// Gives back all that. Does nothing the second time.
  void leave();
  TextSize size() const;
  /// False when the terminal is gone.
  bool show(const std::vector<std::string>& lines) const;

 private:
  bool entered_ = false;
  std::optional<termios> before_;
};

}  // namespace bellows::scheduler
