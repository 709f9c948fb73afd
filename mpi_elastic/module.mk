# SPDX-License-Identifier: Apache-2.0
# bellows-run, bellows-agent and the library that takes a world from them.
$(call library,mpi_elastic,mpi_elastic/world.cc)
