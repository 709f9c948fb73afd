# SPDX-License-Identifier: Apache-2.0
# The examples that are programs: built with everything else, so that they stay right.
$(call test_program,jacobi,$(addprefix docs/examples/,jacobi.cc jacobi_copies.cc),mpi_elastic,$(MPI_LIBS))
