# SPDX-License-Identifier: Apache-2.0
# HDF5 checkpoints: the library and the tool that looks into them.
MANPAGES += docs/man/bellows-ckpt.1
CHECKPOINT_LIBS = $(HDF5_LIBS) $(BOOST_LIBS) $(ZLIB_LIBS)
$(call library,checkpoint,$(addprefix checkpoint/,error.cc text.cc state.cc digest.cc seal.cc disk.cc \
  output_file.cc driver.cc h5.cc manifest.cc layout.cc timestamp.cc file.cc store.cc \
  values.cc))
$(call program,bellows-ckpt,checkpoint/bellows_ckpt.cc checkpoint/commands.cc,checkpoint,$(CHECKPOINT_LIBS))
