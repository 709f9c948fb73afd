# SPDX-License-Identifier: Apache-2.0
$(call test_program,shares_bench,tests/bench/shares_bench.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(O)/obj/tests/bench/shares_bench.o: EXTRA_FLAGS := $(trainer_FLAGS)
TORCH_OBJS += $(O)/obj/tests/bench/shares_bench.o
