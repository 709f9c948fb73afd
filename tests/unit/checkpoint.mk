# SPDX-License-Identifier: Apache-2.0
# Tests of checkpoint/ and of bellows-ckpt.
$(call unit_test,checkpoint_test,tests/unit/checkpoint_test.cc,checkpoint,$(CHECKPOINT_LIBS))
$(call unit_test,checkpoint_store_test,tests/unit/checkpoint_store_test.cc,checkpoint,$(CHECKPOINT_LIBS))
$(call unit_test,checkpoint_faults_test,tests/unit/checkpoint_faults_test.cc tests/unit/checkpoint_faults.cc,checkpoint,$(CHECKPOINT_LIBS) -ldl)
$(call unit_test,checkpoint_tool_test,tests/unit/checkpoint_tool_test.cc,checkpoint,$(CHECKPOINT_LIBS))
$(O)/tests/checkpoint_tool_test: $(O)/bin/bellows-ckpt
$(O)/obj/tests/unit/checkpoint_tool_test.o: EXTRA_FLAGS := -DBELLOWS_SOURCE='"$(abspath $(srcdir))"'
