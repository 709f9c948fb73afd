# SPDX-License-Identifier: Apache-2.0
# Tests of checkpoint/ and of bellows-ckpt.
$(call unit_test,checkpoint_test,tests/unit/checkpoint_test.cc,checkpoint,$(CHECKPOINT_LIBS))
$(call unit_test,checkpoint_store_test,tests/unit/checkpoint_store_test.cc,checkpoint,$(CHECKPOINT_LIBS))
$(call unit_test,checkpoint_faults_test,tests/unit/checkpoint_faults_test.cc tests/unit/checkpoint_faults.cc,checkpoint,$(CHECKPOINT_LIBS) -ldl)
