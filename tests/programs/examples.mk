# SPDX-License-Identifier: Apache-2.0
# The examples that are programs: built with everything else, so that they stay right.
$(call test_program,jacobi,$(addprefix docs/examples/,jacobi.cc jacobi_copies.cc),mpi_elastic,$(MPI_LIBS))
$(call test_program,mnist,docs/examples/mnist.cc,,$(TORCH_LIBS))
$(call test_program,mnist_elastic,docs/examples/mnist_elastic.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))
