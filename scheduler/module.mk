# SPDX-License-Identifier: Apache-2.0
# Talking to a running job: the client of its control socket, and the program for users. Changing its
# allocation: the policies, the broker.
MANPAGES += docs/man/bellows.1
$(call library,scheduler,$(addprefix scheduler/,control_client.cc jobs.cc command_line.cc \
  status_text.cc control_command.cc node_list.cc size_request.cc \
  remote.cc))
scheduler_LIBS = $(BOOST_LIBS) $(OPENSSL_LIBS)
$(call program,bellows,scheduler/bellows.cc,scheduler protocol,$(scheduler_LIBS))

# What needs no Slurm of the broker, and its tests neither.
$(call library,broker,$(addprefix scheduler/,policy.cc \
  holdings.cc brick_script.cc desk.cc offers.cc resize.cc run_client.cc care.cc broker.cc simulated_cluster.cc))
ifeq ($(BROKER),yes)
MANPAGES += docs/man/bellows-broker.8
$(call program,bellows-broker,scheduler/bellows_broker.cc $(addprefix scheduler/,slurm_cluster.cc slurm_views.cc),\
  broker scheduler protocol,$(SLURM_LIBS) $(SPDLOG_LIBS) $(scheduler_LIBS))
endif
