# SPDX-License-Identifier: Apache-2.0
EXAMPLES += $(addprefix docs/examples/,fixed.sbatch elastic.sbatch heterogeneous.sbatch companions.sbatch \
  preemptible.sbatch scaling.sbatch jacobi.cc jacobi_copies.cc jacobi_copies.h mnist.cc \
  mnist_elastic.cc)
