# SPDX-License-Identifier: Apache-2.0
# The whole build, not recursive: each folder's module.mk says what it holds, the functions below
# say how. `configure` writes config.mk. Works in the source tree (results in build/) and in any
# other directory from which configure was run.
#
#   make            programs, plugin and tests      make install [PREFIX=] [DESTDIR=]
#   make check      the tests                       make bench [BENCH=name]
#   make chaos SEEDS=N [FIRST=SEED] [PROGRAM=steps|train]       jobs to which things happen
#   make fuzz FUZZ_SECONDS=N [FUZZ=options|message]             parsers against inputs made up by chance
#   make chaos CLUSTER=1 SEEDS=N    the same on a Slurm cluster of containers: on the host
#   make format     clang-format                    make lint   clang-tidy, shellcheck, layering
#   make dist       source archive                  make clean
srcdir ?= .
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/bash

ifeq ($(wildcard config.mk),)
ifneq ($(wildcard build/config.mk),)
# Configured in build/: go there.
.PHONY: all $(MAKECMDGOALS)
all $(MAKECMDGOALS):
	@$(MAKE) -C build $@
else
.PHONY: all $(MAKECMDGOALS)
all $(MAKECMDGOALS):
	@echo "not configured: run 'autoreconf && ./configure && make $@'," >&2
	@echo "or, in the container image that has everything: 'scripts/run make $@'" >&2
	@exit 1
endif
else

include config.mk
O := $(if $(filter .,$(srcdir)),build,.)
VPATH := $(srcdir)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
ALL_CXXFLAGS = -std=c++20 $(CXXFLAGS) $(WARNINGS) $(if $(filter yes,$(WERROR)),-Werror) -fPIC \
  -fvisibility-inlines-hidden $(SANITIZE) -pthread
ALL_CFLAGS = -std=gnu11 $(CFLAGS) -Wall -Wextra $(if $(filter yes,$(WERROR)),-Werror) -fPIC $(SANITIZE)
ALL_CPPFLAGS = -I$(srcdir) -I. $(CPPFLAGS)
ifneq ($(SANITIZERS),no)
SANITIZE := -fsanitize=$(SANITIZERS) -fno-omit-frame-pointer -fno-sanitize-recover=undefined
# ThreadSanitizer does not know fences; Asio has locks beside its own.
SANITIZE += $(if $(findstring thread,$(SANITIZERS)),-Wno-tsan -DBOOST_ASIO_DISABLE_FENCED_BLOCK)
endif
# A precompiled header and ccache go together only with these.
export CCACHE_SLOPPINESS := pch_defines,time_macros,include_file_mtime,include_file_ctime

PROGRAMS := #    installed in bin
SBIN_PROGRAMS := #  installed in sbin
PLUGINS := #     installed in lib/bellows
HEADERS := #     installed in include/bellows, with their folders
API_HEADERS := # installed in include/bellows itself
DEVEL_LIBRARIES := # installed in lib, for the programs of others
SERVICE_FILES := #  installed in share/bellows, NAME.in with @sbindir@
PKG_CONFIG_FILES := # installed in lib/pkgconfig, from NAME.pc.in
MANPAGES := #    docs/man/NAME.N
EXAMPLES := #    installed in share/doc/bellows/examples
UNIT_TESTS := #  GoogleTest programs
TEST_PROGRAMS := # programs that scenario tests start
BENCHMARKS := #  benchmark names; each has a target bench-NAME
OBJS :=
LIBRARIES :=

# What a folder's code is compiled with, by folder, so that a header can be included upward nowhere
# without the compiler's or the layering check's notice.
protocol_FLAGS = $(BOOST_CPPFLAGS) $(MUNGE_CPPFLAGS) $(OPENSSL_CPPFLAGS)
checkpoint_FLAGS = $(HDF5_CPPFLAGS) $(BOOST_CPPFLAGS) $(ZLIB_CPPFLAGS)
scheduler_FLAGS = $(protocol_FLAGS) $(SLURM_CPPFLAGS) $(SPDLOG_CPPFLAGS)
spank_plugin_FLAGS = $(SLURM_CPPFLAGS)
mpi_elastic_FLAGS = $(protocol_FLAGS) $(SPDLOG_CPPFLAGS) $(MPI_CPPFLAGS) $(PMIX_CPPFLAGS) $(HWLOC_CPPFLAGS)
trainer_FLAGS = $(SPDLOG_CPPFLAGS) $(MPI_CPPFLAGS) $(HDF5_CPPFLAGS) $(BOOST_CPPFLAGS) $(ZLIB_CPPFLAGS) \
  $(NLOPT_CPPFLAGS) -I$(srcdir)/trainer/include $(TORCH_CPPFLAGS) $(CUDA_CPPFLAGS) -Wno-pedantic -Wno-shadow -Wno-overloaded-virtual
docs_FLAGS = $(MPI_CPPFLAGS) -I$(srcdir)/trainer/include $(TORCH_CPPFLAGS) -Wno-shadow
tests_FLAGS = $(checkpoint_FLAGS) $(mpi_elastic_FLAGS)

objects = $(patsubst %.cc,$(O)/obj/%.o,$(1))
archives = $(foreach l,$(1),$(O)/lib/libbellows-$(l).a)

# $(call library,NAME,SOURCES): the static library libbellows-NAME.a
define library_rule
OBJS += $(call objects,$(2))
LIBRARIES += $(O)/lib/libbellows-$(1).a
$(O)/lib/libbellows-$(1).a: $(call objects,$(2))
endef
library = $(eval $(call library_rule,$(1),$(2)))

# $(call program,NAME,SOURCES,LIBRARY NAMES in link order,SYSTEM LIBRARIES): an installed program
# $(call sbin_program,...): one for administrators
# $(call test_program,...): one that tests start    $(call unit_test,...): a GoogleTest program
define program_rule
OBJS += $(call objects,$(3))
$(O)/$(1)/$(2): $(call objects,$(3)) $(call archives,$(4))
	@mkdir -p $$(@D)
	$$(CXX) $$(ALL_CXXFLAGS) $$(LDFLAGS) -o $$@ $(call objects,$(3)) $(call archives,$(4)) $(5)
endef
program = $(eval $(call program_rule,bin,$(1),$(2),$(3),$(4)))$(eval PROGRAMS += $(O)/bin/$(1))
sbin_program = $(eval $(call program_rule,sbin,$(1),$(2),$(3),$(4)))$(eval SBIN_PROGRAMS += $(O)/sbin/$(1))
test_program = $(eval $(call program_rule,tests,$(1),$(2),$(3),$(4)))$(eval TEST_PROGRAMS += $(O)/tests/$(1))
unit_test = $(if $(filter yes,$(HAVE_GTEST)),$(eval $(call program_rule,tests,$(1),$(2),$(3),$(4) -lgtest_main -lgtest -lgmock))$(eval UNIT_TESTS += $(O)/tests/$(1)))

FOLDERS := $(if $(filter yes,$(TRAINER)),protocol checkpoint scheduler mpi_elastic trainer tests) \
  $(if $(filter yes,$(PLUGIN)),spank_plugin) docs
include $(wildcard $(FOLDERS:%=$(srcdir)/%/module.mk))

.PHONY: all unit-tests check bench chaos install dist clean format lint layering
all: $(LIBRARIES) $(PROGRAMS) $(SBIN_PROGRAMS) $(PLUGINS) $(UNIT_TESTS) $(TEST_PROGRAMS)

unit-tests: $(UNIT_TESTS)

$(LIBRARIES):
	@mkdir -p $(@D)
	@rm -f $@
	$(AR) rcs $@ $^

# The folder of a source decides its flags; libtorch's headers are compiled once (TORCH_PCH).
folder_flags = $($(firstword $(subst /, ,$(1)))_FLAGS)
$(O)/obj/%.o: %.cc
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(PCH_FLAGS) $(ALL_CPPFLAGS) $(call folder_flags,$*) $(EXTRA_FLAGS) $(ALL_CXXFLAGS) \
	  -MMD -MP -c -o $@ $<
$(O)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CCACHE) $(CC) $(ALL_CPPFLAGS) $(call folder_flags,$*) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<
-include $(OBJS:.o=.d)

# Objects whose names are listed in TORCH_OBJS (by a module.mk) see libtorch through this header.
TORCH_PCH := $(O)/pch/trainer/torch_headers.h
ifneq ($(TORCH_OBJS),)
$(TORCH_PCH).gch: trainer/torch_headers.h config.mk
	@mkdir -p $(@D)
	cp $< $(TORCH_PCH)
	$(CCACHE) $(CXX) $(ALL_CPPFLAGS) $(trainer_FLAGS) $(ALL_CXXFLAGS) -x c++-header -o $@ $<
$(TORCH_OBJS): $(TORCH_PCH).gch
$(TORCH_OBJS): PCH_FLAGS := -I$(O)/pch -include trainer/torch_headers.h -Winvalid-pch -fpch-preprocess
endif

check: all layering
	$(srcdir)/tests/run --build $(abspath $(O)) $(TESTS)

# Those that start a cluster of containers run on the host, with what was built in the image.
bench: $(if $(filter plugin resize bellowsd,$(BENCH)),,all)
	@mkdir -p $(O)/bench
	$(srcdir)/tests/bench/run --build $(abspath $(O)) $(BENCH)

SEEDS ?= 20
FIRST ?= 1
PROGRAM ?= both
chaos: $(if $(CLUSTER),,all)
	python3 $(srcdir)/tests/chaos/chaos.py --build $(abspath $(O)) --seeds $(SEEDS) --first $(FIRST) --program $(PROGRAM) \
	  $(if $(CLUSTER),--cluster)

layering: $(PLUGINS)
	$(srcdir)/tests/layering $(PLUGINS)

PREFIX := $(if $(filter NONE,$(PREFIX)),/usr/local,$(PREFIX))
D = $(DESTDIR)$(PREFIX)
install: all
	install -d $(D)/bin $(D)/share/man/man1 $(D)/share/man/man7 $(D)/share/man/man8 $(D)/include/bellows
	$(if $(PROGRAMS),install -m 755 $(PROGRAMS) $(D)/bin)
	$(if $(SBIN_PROGRAMS),install -d $(D)/sbin && install -m 755 $(SBIN_PROGRAMS) $(D)/sbin)
	$(if $(PLUGINS),install -d $(D)/lib/bellows && install -m 644 $(PLUGINS) $(D)/lib/bellows)
	$(foreach h,$(HEADERS),install -D -m 644 $(srcdir)/$(h) $(D)/include/bellows/$(h) &&) true
	$(if $(API_HEADERS),install -m 644 $(addprefix $(srcdir)/,$(API_HEADERS)) $(D)/include/bellows)
	$(if $(DEVEL_LIBRARIES),install -d $(D)/lib/pkgconfig && install -m 644 $(DEVEL_LIBRARIES) $(D)/lib)
	$(foreach p,$(PKG_CONFIG_FILES),sed -e 's|@VERSION@|$(VERSION)|' -e 's|@LIBS@|$(strip $(DEVEL_LIBS))|' \
	  -e 's|@TORCH_CPPFLAGS@|$(TORCH_CPPFLAGS)|' -e 's|@TRAINER_LIBS@|$(strip $(TRAINER_LIBS))|' $(srcdir)/$(p) \
	  > $(D)/lib/pkgconfig/$(notdir $(p:.in=)) &&) true
	$(if $(SERVICE_FILES),install -d $(D)/share/bellows)
	$(foreach f,$(SERVICE_FILES),sed -e 's|@sbindir@|$(PREFIX)/sbin|' $(srcdir)/$(f) \
	  > $(D)/share/bellows/$(notdir $(f:.in=)) &&) true
	$(foreach m,$(MANPAGES),install -m 644 $(srcdir)/$(m) $(D)/share/man/man$(subst .,,$(suffix $(m)))/ &&) true
	$(foreach e,$(EXAMPLES),install -D -m 644 $(srcdir)/$(e) $(D)/share/doc/bellows/examples/$(notdir $(e)) &&) true

dist:
	cd $(srcdir) && autoreconf
	name=bellows-$(VERSION); cd $(srcdir) && { git ls-files; echo configure; echo config.h.in; } | \
	  tar --transform "s,^,$$name/," -czf $(abspath $(O))/$$name.tar.gz -T -

clean:
	rm -rf $(foreach d,obj lib bin sbin tests pch bench fuzz,$(O)/$(d))

CXX_FILES = $(shell cd $(srcdir) && git ls-files '*.cc' '*.h' '*.c')
format:
	cd $(srcdir) && clang-format-19 -i $(CXX_FILES)
lint: layering
	cd $(srcdir) && clang-format-19 --dry-run --Werror $(CXX_FILES)
	cd $(srcdir) && shellcheck -x $$(git grep -lE '^#!.*\b(ba)?sh' -- scripts tests docs/examples .ci)
	cd $(srcdir) && printf '%s\n' $(filter %.cc,$(CXX_FILES)) | while read -r f; do \
	  folder=$${f%%/*}; echo "clang-tidy $$f"; \
	  $(MAKE) -s -f $(abspath $(srcdir))/Makefile -C $(CURDIR) srcdir=$(abspath $(srcdir)) print-flags FILE=$$f > $(abspath $(O))/flags || exit 1; \
	  clang-tidy-19 --quiet $$f -- $$(cat $(abspath $(O))/flags) || exit 1; done
print-flags:
	@echo -std=c++20 -I$(abspath $(srcdir)) -I$(CURDIR) $(CPPFLAGS) $(call folder_flags,$(FILE))
endif
