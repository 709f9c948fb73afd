# SPDX-License-Identifier: Apache-2.0
# spank_bellows.so. It is loaded into srun, sbatch, slurmd and slurmstepd, so it needs neither MPI nor
# a C++ run-time of the system's, and exports nothing but what Slurm looks for.
spank_plugin_SOURCES := protocol/elastic_values.cc $(addprefix spank_plugin/,arguments.cc checks.cc \
  command_line.cc environment.cc leftovers.cc options.cc resize_request.cc)
$(call library,spank_plugin,$(spank_plugin_SOURCES))

# These need Slurm.
SPANK_OBJS := $(call objects,$(spank_plugin_SOURCES) $(addprefix spank_plugin/,dispatch.cc client.cc \
  slurmd.cc slurmstepd.cc))
OBJS += $(SPANK_OBJS)
MANPAGES += docs/man/spank_bellows.7
$(SPANK_OBJS): EXTRA_FLAGS := -fvisibility=hidden
PLUGINS += $(O)/lib/spank_bellows.so
$(O)/lib/spank_bellows.so: $(SPANK_OBJS) spank_plugin/exports.map
	@mkdir -p $(@D)
	$(CXX) $(ALL_CXXFLAGS) $(LDFLAGS) -shared -static-libstdc++ -static-libgcc -Wl,--as-needed \
	  -Wl,--version-script=$(srcdir)/spank_plugin/exports.map -o $@ $(SPANK_OBJS) -ldl
