# SPDX-License-Identifier: Apache-2.0
# The model of the step commit; no part of the product is in it.
$(call unit_test,commit_model_test,$(addprefix tests/unit/,commit_model_test.cc commit_model.cc \
  commit_choices.cc commit_faults.cc commit_explorer.cc),,)
