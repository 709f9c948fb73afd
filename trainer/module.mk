# SPDX-License-Identifier: Apache-2.0
# bellows-train and the library behind it. Files that know tensors see libtorch through one
# precompiled header; the readers, the sampler and the options know none.
MANPAGES += docs/man/bellows-train.1 docs/man/bellows-report.1 docs/man/bellows-bench.1 \
  docs/man/bellows-network.1
HEADERS += trainer/adaptation/policy.h trainer/adaptation/throughput.h

TRAINER_PLAIN := signals $(addprefix options/,options table checks mathematics) \
  $(addprefix data/,dataset image_dataset idx fashion_mnist cifar10 hdf5_dataset text_dataset sampler sample_record) \
  $(addprefix adaptation/,adaptation batch_rule goodput gradient_noise hints lr_rule profile rules shares throughput) \
  optimizer/schedule step/usage team/place
TRAINER_TORCH := torch_error report decision_points training elastic_training \
  $(addprefix network/,model mlp cnn resnet transformer script_model dropout batch_norm network_workload) \
  $(addprefix optimizer/,optimizer parameter_groups weight_average) \
  $(addprefix state/,training_state flat_state saved_image state_transfer course snapshot) \
  $(addprefix step/,step passes batch fitting gradients buffer_mean logical_ranks evaluation) \
  $(addprefix team/,team mpi_backend device) \
  adaptation/gradient_norm
# For programs of others.
TRAINER_TORCH += $(addprefix program/,elastic program_workload roll_call torch_optimizer)
API_HEADERS += trainer/include/bellows/bellows.h
DEVEL_LIBRARIES += $(call archives,trainer checkpoint)
PKG_CONFIG_FILES += trainer/bellows.pc.in

TORCH_OBJS += $(TRAINER_TORCH:%=$(O)/obj/trainer/%.o) $(O)/obj/trainer/bellows_train.o

TRAINER_PLAIN_LIBS = $(HDF5_LIBS) $(BOOST_LIBS) $(ZLIB_LIBS) $(SPDLOG_LIBS) $(NLOPT_LIBS) -ldl
TRAINER_LIBS = $(TORCH_LIBS) $(MPI_LIBS) $(TRAINER_PLAIN_LIBS)
$(call library,trainer,$(patsubst %,trainer/%.cc,$(TRAINER_PLAIN) $(TRAINER_TORCH)))
$(call program,bellows-train,trainer/bellows_train.cc,trainer mpi_elastic checkpoint,$(TRAINER_LIBS))

# Reports of runs: without libtorch and MPI. The model of step times is that of the training.
$(call library,throughput,$(patsubst %,trainer/adaptation/%.cc,throughput goodput gradient_noise))
$(call library,tool,trainer/tool.cc)
$(call library,report,$(patsubst %,trainer/report/%.cc,run_reader statistics scaling scaling_figures prediction \
  prediction_figures course_figures \
  summary contents gnuplot html data options))
report_LIBS = $(SPDLOG_LIBS) $(BOOST_LIBS) $(OPENSSL_LIBS) $(NLOPT_LIBS)
$(call program,bellows-report,trainer/report/bellows_report.cc,report throughput tool scheduler protocol,$(report_LIBS))

# Measuring them.
$(call library,bench,$(patsubst %,trainer/bench/%.cc,options job measure))
$(call program,bellows-bench,trainer/bench/bellows_bench.cc,bench tool scheduler protocol,\
  $(SPDLOG_LIBS) $(scheduler_LIBS))
$(call library,network,trainer/bench/network.cc)
$(call program,bellows-network,trainer/bench/bellows_network.cc,network mpi_elastic,$(MPI_LIBS) $(SPDLOG_LIBS))
