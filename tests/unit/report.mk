# SPDX-License-Identifier: Apache-2.0
$(call unit_test,report_test,tests/unit/report_test.cc,report throughput scheduler protocol,$(report_LIBS))
$(call unit_test,network_test,tests/unit/network_test.cc,network mpi_elastic,$(MPI_LIBS))
$(call unit_test,report_prediction_test,tests/unit/report_prediction_test.cc,report throughput scheduler protocol,$(report_LIBS))
$(call unit_test,timeline_test,tests/unit/timeline_test.cc,mpi_elastic,$(MPI_LIBS))
