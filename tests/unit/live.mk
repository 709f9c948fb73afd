# SPDX-License-Identifier: Apache-2.0
# Tests of what shows a job or a cluster while it lives: metrics, bellows top, bellows picture.
$(call unit_test,metrics_test,tests/unit/metrics_test.cc,launcher daemon broker scheduler protocol,\
  $(launcher_LIBS) $(MUNGE_LIBS))
$(call unit_test,live_test,tests/unit/live_test.cc tests/unit/picture_test.cc,daemon broker scheduler protocol,\
  $(scheduler_LIBS) $(SPDLOG_LIBS))
