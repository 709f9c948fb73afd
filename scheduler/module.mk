# SPDX-License-Identifier: Apache-2.0
# Talking to a running job: the client of its control socket, and the program for users. Changing its
# allocation: the policies, the broker, the daemon.
MANPAGES += docs/man/bellows.1
$(call library,scheduler,$(addprefix scheduler/,control_client.cc jobs.cc command_line.cc \
  status_text.cc control_command.cc event_command.cc event_file.cc since.cc node_list.cc size_request.cc remote.cc daemon_client.cc \
  daemon_settings.cc cluster_policy.cc speed_model.cc policy.cc \
  live_job.cc live_jobs.cc live_text.cc screen.cc top_command.cc picture_log.cc gnuplot.cc picture_page.cc picture_command.cc))
scheduler_LIBS = $(BOOST_LIBS) $(OPENSSL_LIBS) $(MUNGE_LIBS)
$(call program,bellows,scheduler/bellows.cc,scheduler protocol,$(scheduler_LIBS))

# What needs no Slurm of the broker, and its tests neither.
$(call library,broker,$(addprefix scheduler/,holdings.cc brick_script.cc desk.cc offers.cc resize.cc run_client.cc care.cc broker.cc \
  simulated_cluster.cc elastic_job.cc guidance.cc daemon_link.cc))
$(call library,daemon,$(addprefix scheduler/,sharing.cc occupancy.cc daemon_events.cc daemon_metrics.cc daemon_watch.cc daemon.cc))
ifeq ($(BROKER),yes)
slurm_cluster_SOURCES := scheduler/slurm_cluster.cc scheduler/slurm_views.cc
$(call program,bellows-broker,scheduler/bellows_broker.cc $(slurm_cluster_SOURCES),\
  broker scheduler protocol,$(SLURM_LIBS) $(SPDLOG_LIBS) $(scheduler_LIBS))
$(call sbin_program,bellowsd,scheduler/bellowsd.cc $(slurm_cluster_SOURCES),\
  daemon broker scheduler protocol,$(SLURM_LIBS) $(SPDLOG_LIBS) $(scheduler_LIBS))
endif

ifeq ($(BROKER),yes)
MANPAGES += docs/man/bellows-broker.8 docs/man/bellowsd.8
SERVICE_FILES += scheduler/service/bellowsd.conf scheduler/service/bellowsd.service.in
endif
