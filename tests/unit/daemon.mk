# SPDX-License-Identifier: Apache-2.0
# Tests of bellowsd: how it shares a cluster, and whom it believes.
$(call unit_test,sharing_test,tests/unit/sharing_test.cc,daemon broker scheduler protocol,$(scheduler_LIBS))
$(call unit_test,daemon_test,tests/unit/daemon_test.cc,daemon broker scheduler protocol,$(scheduler_LIBS) $(SPDLOG_LIBS))
