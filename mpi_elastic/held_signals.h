// SPDX-License-Identifier: Apache-2.0
// Signals that come while a process replaces its image. Between execve and the moment at which the
// program has its handlers again they would end it; so those for which it has a handler are kept,
// and raised in the new image.
#pragma once

#include <csignal>

namespace bellows::elastic {

class HeldSignals {
 public:
  /// From now on they are noted in a memory file, and come to no handler of the program's. Those in
  /// `blocked` are not held: they are blocked, and stay so in the new image.
  explicit HeldSignals(const sigset_t& blocked);

  /// The file, to be inherited by the new image; -1 where there is none.
  int file() const { return file_; }
  /// In this thread, which is about to call execve: the system keeps them until release().
  void block() const;

  /// In the new image, when the program has its handlers: raises what has come meanwhile, in the
  /// calling thread. Closes the file.
  static void release(int file);

 private:
  sigset_t held_;
  sigset_t blocked_;
  int file_;
};

}  // namespace bellows::elastic
