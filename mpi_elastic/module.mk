# SPDX-License-Identifier: Apache-2.0
# bellows-run, bellows-agent and the library that takes a world from them.
# A program links it with MPI_LIBS.
$(call library,mpi_elastic,$(addprefix mpi_elastic/,world.cc elastic_world.cc timeline.cc rank_control.cc \
  pmix_connection.cc held_signals.cc) \
  protocol/message.cc protocol/size_hints_json.cc protocol/line_file.cc)
DEVEL_LIBS := $(MPI_LIBS) $(PMIX_LIBS) $(filter-out -lboost_program_options,$(BOOST_LIBS)) -pthread \
  $(filter -fsanitize%,$(SANITIZE))
MPI_LIBS += $(PMIX_LIBS) $(BOOST_LIBS)

# For programs that are built elsewhere.
HEADERS += mpi_elastic/world.h mpi_elastic/elastic_world.h mpi_elastic/timeline.h protocol/size_hints.h
DEVEL_LIBRARIES += $(O)/lib/libbellows-mpi_elastic.a
PKG_CONFIG_FILES += mpi_elastic/bellows-elastic.pc.in

# What the launcher's two programs share, and those of their parts that tests look at.
$(call library,launcher,$(addprefix mpi_elastic/common/,agent_settings.cc binding.cc greeting.cc membership.cc \
  network.cc node_report.cc process.cc rendezvous.cc world_spec.cc) \
  $(addprefix mpi_elastic/agent/,job_folder.cc rank_environment.cc rank_process.cc requests.cc) \
  $(addprefix mpi_elastic/coordinator/,agent_links.cc allocation.cc event_log.cc job_file.cc job_outcome.cc \
  name_service.cc output.cc run_metrics.cc run_options.cc))

launcher_LIBS = $(SPDLOG_LIBS) $(BOOST_LIBS) $(OPENSSL_LIBS) $(HWLOC_LIBS)
$(call program,bellows-agent,$(addprefix mpi_elastic/agent/,bellows_agent.cc agent.cc agent_epochs.cc agent_upcalls.cc \
  agent_gap.cc pmix_host.cc pmix_info.cc pmix_upcalls.cc),launcher protocol,$(PMIX_LIBS) $(launcher_LIBS))
$(call program,bellows-run,$(addprefix mpi_elastic/coordinator/,bellows_run.cc coordinator.cc \
  $(patsubst %,coordinator_%.cc,end events services epochs repair join leave control nodes reattach metrics) \
  agent_starter.cc broker_process.cc input.cc),launcher protocol,$(launcher_LIBS))
MANPAGES += docs/man/bellows-run.1
