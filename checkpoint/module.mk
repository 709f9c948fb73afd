# SPDX-License-Identifier: Apache-2.0
# HDF5 checkpoints: the library and the tool that looks into them.
$(call library,checkpoint,$(addprefix checkpoint/,error.cc text.cc state.cc digest.cc seal.cc disk.cc \
  output_file.cc driver.cc h5.cc manifest.cc layout.cc file.cc store.cc))
