# SPDX-License-Identifier: Apache-2.0
# MPI programs that the launcher's scenarios and benchmark start.
$(call test_program,mpi_hello,tests/programs/mpi_hello.cc,,$(MPI_LIBS))
$(call test_program,mpi_ends,tests/programs/mpi_ends.cc,,$(MPI_LIBS))
$(call test_program,mpi_survive,tests/programs/mpi_survive.cc,,$(MPI_LIBS))
$(call test_program,world_hello,tests/programs/world_hello.cc,mpi_elastic,$(MPI_LIBS))
$(call test_program,elastic_steps,$(addprefix tests/programs/,elastic_steps.cc steps_state.cc \
  fault_point.cc),mpi_elastic,$(MPI_LIBS))
