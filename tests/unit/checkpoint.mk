# SPDX-License-Identifier: Apache-2.0
$(call unit_test,checkpoint_test,tests/unit/checkpoint_test.cc,checkpoint,$(HDF5_LIBS) $(BOOST_LIBS) $(ZLIB_LIBS))
