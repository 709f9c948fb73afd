# SPDX-License-Identifier: Apache-2.0
# Unit tests (GoogleTest), by the folder they test, and the programs that scenario tests start.
include $(wildcard $(srcdir)/tests/unit/*.mk $(srcdir)/tests/programs/*.mk $(srcdir)/tests/bench/*.mk \
  $(srcdir)/tests/fuzz/*.mk)
