# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: NAME_fuzz, built with sanitizers of their own from the sources they are to try; by
# clang++ with libFuzzer where there is one (FUZZ_CXX), else by g++ with a driver of ours.
#   make fuzz [FUZZ=NAME…] [FUZZ_SECONDS=60]
FUZZ_SECONDS ?= 60
FUZZ_SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
ifneq ($(FUZZ_CXX),)
FUZZ_COMPILER := $(FUZZ_CXX)
FUZZ_COVERAGE := -fsanitize=fuzzer-no-link
FUZZ_LINK := -fsanitize=fuzzer
else
FUZZ_COMPILER := $(CXX)
FUZZ_COVERAGE := -fsanitize-coverage=trace-pc
FUZZ_DRIVER := $(O)/obj/fuzz/tests/fuzz/driver.o
endif

# $(call fuzz_target,NAME,SOURCES to be tried,FOLDER,SYSTEM LIBRARIES)
define fuzz_rule
FUZZ_TARGETS += $(1)
FUZZ_OBJS += $(patsubst %.cc,$(O)/obj/fuzz/%.o,tests/fuzz/$(1)_fuzz.cc $(2))
TEST_PROGRAMS += $(O)/tests/$(1)_fuzz
$(O)/tests/$(1)_fuzz: $(patsubst %.cc,$(O)/obj/fuzz/%.o,tests/fuzz/$(1)_fuzz.cc $(2)) $(FUZZ_DRIVER)
	@mkdir -p $$(@D)
	$(FUZZ_COMPILER) $(FUZZ_SANITIZE) $(FUZZ_LINK) $(LDFLAGS) -o $$@ $$^ $(3)
fuzz-$(1): $(O)/tests/$(1)_fuzz
	@mkdir -p $(O)/fuzz/$(1)
	cd $(O)/fuzz && $(abspath $(O))/tests/$(1)_fuzz -max_total_time=$(FUZZ_SECONDS) \
	  -dict=$(abspath $(srcdir))/tests/fuzz/$(1).dict $(1) $(abspath $(srcdir))/tests/fuzz/corpus/$(1)
endef
fuzz_target = $(eval $(call fuzz_rule,$(1),$(2),$(3)))

ifeq ($(PLUGIN),yes)
$(call fuzz_target,options,$(addprefix spank_plugin/,arguments.cc checks.cc command_line.cc \
  options.cc) protocol/elastic_values.cc,)
endif
$(call fuzz_target,message,protocol/message.cc,$(BOOST_LIBS))

FUZZ ?= $(FUZZ_TARGETS)
.PHONY: fuzz $(FUZZ_TARGETS:%=fuzz-%)
fuzz: $(FUZZ:%=fuzz-%)

# The driver itself is neither watched nor checked.
$(FUZZ_DRIVER): FUZZ_COVERAGE := -O2
$(FUZZ_DRIVER): FUZZ_SANITIZE :=
$(O)/obj/fuzz/%.o: %.cc
	@mkdir -p $(@D)
	$(CCACHE) $(FUZZ_COMPILER) $(ALL_CPPFLAGS) $(call folder_flags,$*) -std=c++20 -O1 -g $(WARNINGS) \
	  $(if $(filter yes,$(WERROR)),-Werror) $(FUZZ_SANITIZE) $(FUZZ_COVERAGE) -MMD -MP -c -o $@ $<
-include $(FUZZ_OBJS:.o=.d) $(FUZZ_DRIVER:.o=.d)
