# SPDX-License-Identifier: Apache-2.0
$(call test_program,checkpoint_bench,tests/bench/checkpoint_bench.cc,checkpoint,$(CHECKPOINT_LIBS))
