# SPDX-License-Identifier: Apache-2.0
# Tests of what changes a job's allocation, on a simulated cluster.
$(call unit_test,scheduler_test,tests/unit/scheduler_policy_test.cc,broker scheduler protocol,$(scheduler_LIBS))
