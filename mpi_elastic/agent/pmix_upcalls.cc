// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/pmix_upcalls.h"

#include <atomic>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "mpi_elastic/agent/pmix_host.h"
#include "mpi_elastic/agent/pmix_info.h"

namespace bellows::elastic {
namespace {

boost::asio::io_context* host_io = nullptr;
std::atomic<HostUpcalls*> host{nullptr};

// Runs `call(upcalls)` on the host's thread.
template <class Call>
pmix_status_t post(Call call) {
  if (host.load() == nullptr) return PMIX_ERR_NOT_AVAILABLE;
  boost::asio::post(*host_io, [call = std::move(call)]() mutable {
    if (HostUpcalls* upcalls = host.load()) call(*upcalls);
  });
  return PMIX_SUCCESS;
}

OperationDone operation_done(pmix_op_cbfunc_t callback, void* data) {
  return [callback, data](pmix_status_t status) {
    if (callback != nullptr) callback(status, data);
  };
}

void free_string(void* data) { delete static_cast<std::string*>(data); }

DataDone data_done(pmix_modex_cbfunc_t callback, void* data) {
  return [callback, data](pmix_status_t status, std::string bytes) {
    if (callback == nullptr) return;
    auto kept = std::make_unique<std::string>(std::move(bytes));
    std::string* raw = kept.release();  // free_string owns it
    callback(status, raw->empty() ? nullptr : raw->data(), raw->size(), data, &free_string, raw);
  };
}

pmix_status_t client_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t,
                               pmix_op_cbfunc_t callback, void* data) {
  return post([who = from_pmix(*proc), done = operation_done(callback, data)](HostUpcalls& up) {
    up.on_connected(who);
    done(PMIX_SUCCESS);
  });
}

pmix_status_t client_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t callback,
                               void* data) {
  return post([who = from_pmix(*proc), done = operation_done(callback, data)](HostUpcalls& up) {
    up.on_finalized(who);
    done(PMIX_SUCCESS);
  });
}

pmix_status_t abort_called(const pmix_proc_t* proc, void*, int status, const char* text,
                           pmix_proc_t*, size_t, pmix_op_cbfunc_t callback, void* data) {
  return post([who = from_pmix(*proc), status, why = std::string(text != nullptr ? text : ""),
               done = operation_done(callback, data)](HostUpcalls& up) {
    up.on_abort(who, status, why, done);
  });
}

pmix_status_t fence(const pmix_proc_t* procs, size_t count, const pmix_info_t*, size_t, char* bytes,
                    size_t size, pmix_modex_cbfunc_t callback, void* data) {
  std::string contribution = bytes != nullptr ? std::string(bytes, size) : std::string();
  // The bytes are ours to free (pmix_server_fencenb_fn_t).
  std::free(bytes);
  return post([who = from_pmix(procs, count), contribution = std::move(contribution),
               done = data_done(callback, data)](HostUpcalls& up) mutable {
    up.on_fence(std::move(who), std::move(contribution), std::move(done));
  });
}

pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t*, size_t,
                           pmix_modex_cbfunc_t callback, void* data) {
  return post([who = from_pmix(*proc), done = data_done(callback, data)](HostUpcalls& up) mutable {
    up.on_modex(who, std::move(done));
  });
}

std::string packed(const pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  const pmix_status_t status =
      PMIx_Data_pack(nullptr, &buffer, const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE);
  std::string bytes;
  if (status == PMIX_SUCCESS) bytes.assign(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return bytes;
}

void unpack_into(const std::string& bytes, pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  char* copy = static_cast<char*>(std::malloc(bytes.size()));
  std::memcpy(copy, bytes.data(), bytes.size());
  PMIX_DATA_BUFFER_LOAD(&buffer, copy, bytes.size());  // takes the copy
  int32_t count = 1;
  PMIx_Data_unpack(nullptr, &buffer, &value, &count, PMIX_VALUE);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t infos[], size_t count,
                      pmix_op_cbfunc_t callback, void* data) {
  PublishRequest request;
  request.owner = from_pmix(*proc);
  for (size_t i = 0; i < count; ++i) {
    if (PMIX_CHECK_KEY(&infos[i], PMIX_PERSISTENCE)) {
      request.first_read = infos[i].value.data.persist == PMIX_PERSIST_FIRST_READ;
    } else if (std::strncmp(infos[i].key, "pmix.", 5) != 0) {  // a directive, not data
      request.keys.emplace_back(infos[i].key);
      request.values.push_back(packed(infos[i].value));
    }
  }
  return post([request = std::move(request), done = operation_done(callback, data)](
                  HostUpcalls& up) mutable { up.on_publish(std::move(request), done); });
}

std::vector<std::string> key_list(char** keys) {
  std::vector<std::string> list;
  for (char** key = keys; key != nullptr && *key != nullptr; ++key) list.emplace_back(*key);
  return list;
}

pmix_status_t look_up(const pmix_proc_t* proc, char** keys, const pmix_info_t infos[], size_t count,
                      pmix_lookup_cbfunc_t callback, void* data) {
  bool wait = false;
  for (size_t i = 0; i < count; ++i) {
    // The value is the number of keys to wait for; 0 means all, and nobody asks for fewer.
    if (PMIX_CHECK_KEY(&infos[i], PMIX_WAIT)) wait = true;
  }
  LookupDone done = [callback, data](pmix_status_t status, const std::vector<std::string>& names,
                                     const std::vector<std::string>& values) {
    pmix_pdata_t* found = nullptr;
    if (!names.empty()) PMIX_PDATA_CREATE(found, names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      PMIX_LOAD_KEY(found[i].key, names[i].c_str());
      unpack_into(values[i], found[i].value);
    }
    callback(status, found, names.size(), data);
    if (found != nullptr) PMIX_PDATA_FREE(found, names.size());
  };
  return post([who = from_pmix(*proc), names = key_list(keys), wait,
               done = std::move(done)](HostUpcalls& up) mutable {
    up.on_lookup(who, std::move(names), wait, std::move(done));
  });
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t*, size_t,
                        pmix_op_cbfunc_t callback, void* data) {
  return post([who = from_pmix(*proc), names = key_list(keys),
               done = operation_done(callback, data)](HostUpcalls& up) mutable {
    up.on_unpublish(who, std::move(names), done);
  });
}

pmix_status_t connect(const pmix_proc_t procs[], size_t count, const pmix_info_t*, size_t,
                      pmix_op_cbfunc_t callback, void* data) {
  return post([who = from_pmix(procs, count), done = operation_done(callback, data)](
                  HostUpcalls& up) mutable { up.on_connect(std::move(who), done); });
}

pmix_status_t disconnect(const pmix_proc_t procs[], size_t count, const pmix_info_t*, size_t,
                         pmix_op_cbfunc_t callback, void* data) {
  return post([who = from_pmix(procs, count), done = operation_done(callback, data)](
                  HostUpcalls& up) mutable { up.on_disconnect(std::move(who), done); });
}

// Events are delivered by the library itself: that a process wants some needs only to be accepted.
pmix_status_t register_events(pmix_status_t*, size_t, const pmix_info_t*, size_t,
                              pmix_op_cbfunc_t callback, void* data) {
  return post([done = operation_done(callback, data)](HostUpcalls&) { done(PMIX_SUCCESS); });
}

pmix_status_t deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t callback, void* data) {
  return post([done = operation_done(callback, data)](HostUpcalls&) { done(PMIX_SUCCESS); });
}

pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t,
                           pmix_info_t infos[], size_t count, pmix_op_cbfunc_t callback,
                           void* data) {
  std::vector<Proc> about;
  for (size_t i = 0; i < count; ++i) {
    if (PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROC) && infos[i].value.type == PMIX_PROC &&
        infos[i].value.data.proc != nullptr) {
      about.push_back(from_pmix(*infos[i].value.data.proc));
    }
  }
  return post([by = from_pmix(*source), about = std::move(about),
               what = std::string(PMIx_Error_string(code)),
               done = operation_done(callback, data)](HostUpcalls& up) {
    if (!about.empty()) up.on_suspicion(by, about, what);
    done(PMIX_SUCCESS);
  });
}

void log_text(const pmix_proc_t* client, const pmix_info_t texts[], size_t count,
              const pmix_info_t*, size_t, pmix_op_cbfunc_t callback, void* data) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i].value.type == PMIX_STRING) text += texts[i].value.data.string;
  }
  const pmix_status_t posted = post([who = from_pmix(*client), text = std::move(text),
                                     done = operation_done(callback, data)](HostUpcalls& up) {
    up.on_log(who, text);
    done(PMIX_SUCCESS);
  });
  if (posted != PMIX_SUCCESS && callback != nullptr) callback(posted, data);
}

void free_group_infos(void* infos) {
  auto* list = static_cast<pmix_info_t*>(infos);
  PMIX_INFO_FREE(list, 3);
}

// What Open MPI needs back from a group: its context id, who is in it, and everyone's endpoint
// data (facts of OpenPMIx 5: without PMIX_GROUP_MEMBERSHIP the client fails).
GroupDone group_done(std::vector<Proc> procs, pmix_info_cbfunc_t callback, void* data) {
  return [procs = std::move(procs), callback, data](pmix_status_t status, std::uint64_t context,
                                                    const std::string& endpoints) {
    if (status != PMIX_SUCCESS) {
      callback(status, nullptr, 0, data, nullptr, nullptr);
      return;
    }
    pmix_info_t* infos = nullptr;
    PMIX_INFO_CREATE(infos, 3);
    const size_t context_id = context;
    PMIX_INFO_LOAD(&infos[0], PMIX_GROUP_CONTEXT_ID, &context_id, PMIX_SIZE);
    pmix_data_array_t members;
    PMIX_DATA_ARRAY_CONSTRUCT(&members, procs.size(), PMIX_PROC);
    for (size_t i = 0; i < procs.size(); ++i) {
      static_cast<pmix_proc_t*>(members.array)[i] = to_pmix(procs[i]);
    }
    PMIX_INFO_LOAD(&infos[1], PMIX_GROUP_MEMBERSHIP, &members, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&members);
    size_t count = 2;
    if (!endpoints.empty()) {
      pmix_byte_object_t bytes;
      bytes.bytes = const_cast<char*>(endpoints.data());
      bytes.size = endpoints.size();
      PMIX_INFO_LOAD(&infos[2], PMIX_GROUP_ENDPT_DATA, &bytes, PMIX_BYTE_OBJECT);
      count = 3;
    }
    callback(PMIX_SUCCESS, infos, count, data, &free_group_infos, infos);
  };
}

pmix_status_t group(pmix_group_operation_t operation, char* name, const pmix_proc_t procs[],
                    size_t count, const pmix_info_t directives[], size_t directive_count,
                    pmix_info_cbfunc_t callback, void* data) {
  std::string endpoints;
  for (size_t i = 0; i < directive_count; ++i) {
    // The end of a group whose members are all on this node. OpenPMIx 5.0.7 asks a second time if
    // the answer is to come later, and the second answer meets a tracker that the first has freed:
    // the server then hangs, or worse. Nobody else has to know, so answer at once.
    if (operation == PMIX_GROUP_DESTRUCT && PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_LOCAL_ONLY))
      return PMIX_OPERATION_SUCCEEDED;
    if (PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_ENDPT_DATA)) {
      const pmix_byte_object_t& bytes = directives[i].value.data.bo;
      endpoints.assign(bytes.bytes, bytes.size);
    }
  }
  std::vector<Proc> who = from_pmix(procs, count);
  GroupDone done = group_done(who, callback, data);
  return post([operation = static_cast<int>(operation), name = std::string(name),
               who = std::move(who), endpoints = std::move(endpoints),
               done = std::move(done)](HostUpcalls& up) mutable {
    up.on_group(operation, name, std::move(who), std::move(endpoints), std::move(done));
  });
}

}  // namespace

pmix_server_module_t* attach_upcalls(boost::asio::io_context& io, HostUpcalls& upcalls) {
  static pmix_server_module_t module;
  module = pmix_server_module_t{};
  module.client_connected2 = &client_connected;
  module.client_finalized = &client_finalized;
  module.abort = &abort_called;
  module.fence_nb = &fence;
  module.direct_modex = &direct_modex;
  module.publish = &publish;
  module.lookup = &look_up;
  module.unpublish = &unpublish;
  module.connect = &connect;
  module.disconnect = &disconnect;
  module.register_events = &register_events;
  module.deregister_events = &deregister_events;
  module.notify_event = &notify_event;
  module.log = &log_text;
  module.group = &group;
  host_io = &io;
  host = &upcalls;
  return &module;
}

void detach_upcalls() { host = nullptr; }

}  // namespace bellows::elastic
