# SPDX-License-Identifier: Apache-2.0
# Tests of protocol/ and of mpi_elastic/'s launcher.
$(call unit_test,protocol_test,tests/unit/protocol_test.cc,protocol,$(BOOST_LIBS) $(OPENSSL_LIBS))
$(call unit_test,elastic_members_test,tests/unit/elastic_members_test.cc,launcher protocol,$(launcher_LIBS))
$(call unit_test,elastic_run_test,tests/unit/elastic_run_test.cc,launcher protocol,$(launcher_LIBS))
$(call unit_test,elastic_node_test,tests/unit/elastic_node_test.cc,launcher protocol,$(launcher_LIBS))
$(call unit_test,elastic_reattach_test,tests/unit/elastic_reattach_test.cc,launcher protocol,$(launcher_LIBS))
$(call unit_test,elastic_link_test,tests/unit/elastic_link_test.cc,launcher protocol,$(launcher_LIBS))
$(call unit_test,pmix_connection_test,tests/unit/pmix_connection_test.cc,mpi_elastic,$(MPI_LIBS))
