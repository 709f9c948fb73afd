# SPDX-License-Identifier: Apache-2.0
# Talking to a running job: the client of its control socket, and the program for users.
MANPAGES += docs/man/bellows.1
$(call library,scheduler,$(addprefix scheduler/,control_client.cc jobs.cc command_line.cc \
  status_text.cc control_command.cc))
scheduler_LIBS = $(BOOST_LIBS) $(OPENSSL_LIBS)
$(call program,bellows,scheduler/bellows.cc,scheduler protocol,$(scheduler_LIBS))
