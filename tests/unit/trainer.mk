# SPDX-License-Identifier: Apache-2.0
# Tests of trainer/.
$(call unit_test,trainer_data_test,tests/unit/trainer_data_test.cc,trainer,$(TRAINER_PLAIN_LIBS))
$(call unit_test,trainer_sampler_test,tests/unit/trainer_sampler_test.cc,trainer,$(TRAINER_PLAIN_LIBS))
$(call unit_test,trainer_schedule_test,tests/unit/trainer_schedule_test.cc,trainer,$(TRAINER_PLAIN_LIBS))
$(call unit_test,trainer_batch_rule_test,tests/unit/trainer_batch_rule_test.cc,trainer,$(TRAINER_PLAIN_LIBS))
$(call unit_test,trainer_noise_test,tests/unit/trainer_noise_test.cc,trainer,$(TRAINER_PLAIN_LIBS))
$(call unit_test,trainer_goodput_test,tests/unit/trainer_goodput_test.cc,trainer,$(TRAINER_PLAIN_LIBS))
$(call unit_test,trainer_model_test,tests/unit/trainer_model_test.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(call unit_test,trainer_state_test,tests/unit/trainer_state_test.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(call unit_test,trainer_norm_test,tests/unit/trainer_norm_test.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
$(O)/obj/tests/unit/trainer_%.o: EXTRA_FLAGS := $(trainer_FLAGS)
TORCH_OBJS += $(patsubst %,$(O)/obj/tests/unit/trainer_%_test.o,model state norm)
