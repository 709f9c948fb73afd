# SPDX-License-Identifier: Apache-2.0
# Messages between processes, and the proof of a shared secret.
$(call library,protocol,protocol/message.cc protocol/secret.cc protocol/channel.cc \
  protocol/control_socket.cc protocol/control_server.cc protocol/elastic_settings.cc protocol/elastic_values.cc \
  protocol/credential.cc protocol/job_event.cc protocol/metrics_text.cc protocol/metrics_server.cc \
  protocol/line_file.cc protocol/size_hints_json.cc protocol/metrics_output.cc)
