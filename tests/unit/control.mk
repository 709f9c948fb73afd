# SPDX-License-Identifier: Apache-2.0
# Tests of a job's control socket: the launcher's end, the client's, and the program for users.
$(call unit_test,control_test,tests/unit/control_test.cc tests/unit/control_socket_test.cc \
  tests/unit/control_command_test.cc \
  tests/unit/events_test.cc,launcher scheduler protocol,$(launcher_LIBS) $(MUNGE_LIBS))
