# SPDX-License-Identifier: Apache-2.0
ifeq ($(BROKER),yes)
$(call test_program,bellowsd_table,scheduler/daemon/bellowsd.cc tests/bench/table_cluster.cc,\
  daemon broker scheduler protocol,$(SPDLOG_LIBS) $(scheduler_LIBS))
endif
$(call test_program,many_brokers,tests/bench/many_brokers.cc,broker scheduler protocol,\
  $(SPDLOG_LIBS) $(scheduler_LIBS))
