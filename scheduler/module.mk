# SPDX-License-Identifier: Apache-2.0
# Talking to a running job: the client of its control socket, and the program for users. Changing its
# allocation: the policies, the broker, the daemon.
MANPAGES += docs/man/bellows.1
$(call library,scheduler,$(addprefix scheduler/,cluster/node_list.cc \
  $(addprefix policy/,policy.cc cluster_policy.cc speed_model.cc worth.cc) \
  $(addprefix command/,control_client.cc jobs.cc command_line.cc status_text.cc control_command.cc event_command.cc \
    event_file.cc since.cc size_request.cc remote.cc daemon_client.cc) daemon/daemon_settings.cc \
  $(addprefix live/,live_job.cc live_jobs.cc live_text.cc screen.cc top_command.cc) \
  $(addprefix picture/,picture_log.cc gnuplot.cc picture_page.cc picture_command.cc)))
scheduler_LIBS = $(BOOST_LIBS) $(OPENSSL_LIBS) $(MUNGE_LIBS)
$(call program,bellows,scheduler/command/bellows.cc,scheduler protocol,$(scheduler_LIBS))

# What needs no Slurm of the broker, and its tests neither.
$(call library,broker,$(addprefix scheduler/,cluster/simulated_cluster.cc policy/elastic_job.cc \
  $(addprefix broker/,holdings.cc brick_script.cc desk.cc offers.cc resize.cc run_client.cc care.cc broker.cc guidance.cc \
    daemon_link.cc)))
$(call library,daemon,$(addprefix scheduler/,policy/sharing.cc picture/occupancy.cc \
  $(addprefix daemon/,daemon_events.cc daemon_metrics.cc daemon_watch.cc daemon.cc)))
ifeq ($(BROKER),yes)
slurm_cluster_SOURCES := scheduler/cluster/slurm_cluster.cc scheduler/cluster/slurm_views.cc
$(call program,bellows-broker,scheduler/broker/bellows_broker.cc $(slurm_cluster_SOURCES),\
  broker scheduler protocol,$(SLURM_LIBS) $(SPDLOG_LIBS) $(scheduler_LIBS))
$(call sbin_program,bellowsd,scheduler/daemon/bellowsd.cc $(slurm_cluster_SOURCES),\
  daemon broker scheduler protocol,$(SLURM_LIBS) $(SPDLOG_LIBS) $(scheduler_LIBS))
endif

ifeq ($(BROKER),yes)
MANPAGES += docs/man/bellows-broker.8 docs/man/bellowsd.8
SERVICE_FILES += scheduler/daemon/service/bellowsd.conf scheduler/daemon/service/bellowsd.service.in
endif
