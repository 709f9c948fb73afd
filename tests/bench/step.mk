# SPDX-License-Identifier: Apache-2.0
ifeq ($(HAVE_GLOO),yes)
$(call test_program,step_bench,tests/bench/step_bench.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(O)/obj/tests/bench/step_bench.o: EXTRA_FLAGS := $(trainer_FLAGS) -DUSE_C10D_GLOO
TORCH_OBJS += $(O)/obj/tests/bench/step_bench.o
endif
