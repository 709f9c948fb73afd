# SPDX-License-Identifier: Apache-2.0
# Tests of spank_plugin/, of what needs no Slurm.
ifeq ($(PLUGIN),yes)
$(call unit_test,spank_plugin_test,$(addprefix tests/unit/,spank_plugin_test.cc spank_options_test.cc \
  spank_resize_test.cc),spank_plugin,)
endif
