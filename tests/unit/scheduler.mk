# SPDX-License-Identifier: Apache-2.0
# Tests of what changes a job's allocation, on a simulated cluster.
$(call unit_test,scheduler_test,$(patsubst %,tests/unit/scheduler_%_test.cc,policy settings brick \
  resize care),broker scheduler protocol,$(scheduler_LIBS))
