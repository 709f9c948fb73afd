// SPDX-License-Identifier: Apache-2.0
// Lists of PMIx key-value pairs with owners, and conversions to this project's types.
#pragma once

#include <pmix.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "mpi_elastic/common/world_spec.h"

namespace bellows::elastic {

/// Throws std::runtime_error("WHAT: reason") unless `status` is one of success.
void check_pmix(pmix_status_t status, const std::string& what);

pmix_proc_t to_pmix(const Proc& proc);
Proc from_pmix(const pmix_proc_t& proc);
std::vector<Proc> from_pmix(const pmix_proc_t* procs, std::size_t count);

/// A growing list of infos. Throws std::runtime_error naming the key that could not be added.
class InfoList {
 public:
  InfoList() : list_(PMIx_Info_list_start()) {}
  InfoList(const InfoList&) = delete;
  InfoList& operator=(const InfoList&) = delete;
  ~InfoList() { PMIx_Info_list_release(list_); }

  void add(const char* key, const void* value, pmix_data_type_t type);
  void add(const char* key, const std::string& value) { add(key, value.c_str(), PMIX_STRING); }
  void add_bool(const char* key, bool value) { add(key, &value, PMIX_BOOL); }
  void add_u16(const char* key, std::uint16_t value) { add(key, &value, PMIX_UINT16); }
  void add_u32(const char* key, std::uint32_t value) { add(key, &value, PMIX_UINT32); }
  void add_rank(const char* key, pmix_rank_t value) { add(key, &value, PMIX_PROC_RANK); }
  void add_array(const char* key, const InfoList& values);
  void* get() const { return list_; }

 private:
  void* list_;
};

/// An InfoList as the array that the library's functions take.
class InfoArray {
 public:
  explicit InfoArray(const InfoList& list);
  InfoArray(const InfoArray&) = delete;
  InfoArray& operator=(const InfoArray&) = delete;
  ~InfoArray();
  pmix_info_t* data() const { return static_cast<pmix_info_t*>(array_.array); }
  std::size_t size() const { return array_.size; }

 private:
  pmix_data_array_t array_;
};

/// Waits for a callback of type pmix_op_cbfunc_t; pass `&Waiter::done` and the waiter itself.
class Waiter {
 public:
  static void done(pmix_status_t status, void* waiter);
  /// `started`: what the library's function returned.
  pmix_status_t wait(pmix_status_t started);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  pmix_status_t status_ = PMIX_SUCCESS;
};

}  // namespace bellows::elastic
