# SPDX-License-Identifier: Apache-2.0
# Checks of trainer/ that need several ranks.
$(call test_program,trainer_ranks,tests/programs/trainer_ranks.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(call test_program,trainer_batch_norm,tests/programs/trainer_batch_norm.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(call test_program,trainer_memory,tests/programs/trainer_memory.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(call test_program,trainer_transfer,tests/programs/trainer_transfer.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(O)/obj/tests/programs/trainer_%.o: EXTRA_FLAGS := $(trainer_FLAGS)
TORCH_OBJS += $(patsubst %,$(O)/obj/tests/programs/trainer_%.o,ranks batch_norm memory transfer)

# In place of a GPU's library.
TEST_PROGRAMS += $(O)/tests/fake_nvml.so
$(O)/tests/trainer_usage_test: $(O)/tests/fake_nvml.so
$(O)/tests/fake_nvml.so: tests/programs/fake_nvml.cc
	@mkdir -p $(@D)
	$(CXX) $(ALL_CPPFLAGS) $(ALL_CXXFLAGS) $(LDFLAGS) -shared -o $@ $<

# What a user of --policy builds.
TEST_PROGRAMS += $(O)/tests/resize_policy.so
$(O)/tests/resize_policy.so: tests/programs/resize_policy.cc trainer/adaptation/policy.h trainer/adaptation/throughput.h
	@mkdir -p $(@D)
	$(CXX) $(ALL_CPPFLAGS) $(ALL_CXXFLAGS) $(LDFLAGS) -shared -o $@ $<

# What a user of bellows.h builds.
$(call test_program,library_steps,tests/programs/library_steps.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(O)/obj/tests/programs/library_steps.o: EXTRA_FLAGS := $(docs_FLAGS)
