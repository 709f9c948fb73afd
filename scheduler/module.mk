# SPDX-License-Identifier: Apache-2.0
# Talking to a running job: the client of its control socket, and the program for users. Changing its
# allocation: the policies, the broker.
MANPAGES += docs/man/bellows.1
$(call library,scheduler,$(addprefix scheduler/,control_client.cc jobs.cc command_line.cc \
  status_text.cc control_command.cc))
scheduler_LIBS = $(BOOST_LIBS) $(OPENSSL_LIBS)
$(call program,bellows,scheduler/bellows.cc,scheduler protocol,$(scheduler_LIBS))

# What needs no Slurm of the broker, and its tests neither.
$(call library,broker,$(addprefix scheduler/,policy.cc sharing.cc cluster_policy.cc speed_model.cc elastic_job.cc \
  daemon_settings.cc daemon.cc daemon_link.cc))
