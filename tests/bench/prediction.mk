# SPDX-License-Identifier: Apache-2.0
$(call test_program,prediction_fit,tests/bench/prediction_fit.cc,trainer,$(TRAINER_PLAIN_LIBS))
