// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/pmix_info.h"

#include <stdexcept>

namespace bellows::elastic {

void check_pmix(pmix_status_t status, const std::string& what) {
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return;
  throw std::runtime_error(what + ": " + PMIx_Error_string(status));
}

pmix_proc_t to_pmix(const Proc& proc) {
  pmix_proc_t result;
  PMIX_LOAD_PROCID(
      &result, proc.nspace.c_str(),
      proc.rank == kAllRanks ? PMIX_RANK_WILDCARD : static_cast<pmix_rank_t>(proc.rank));
  return result;
}

Proc from_pmix(const pmix_proc_t& proc) {
  return {proc.nspace,
          proc.rank == PMIX_RANK_WILDCARD ? kAllRanks : static_cast<std::int64_t>(proc.rank)};
}

std::vector<Proc> from_pmix(const pmix_proc_t* procs, std::size_t count) {
  std::vector<Proc> result;
  result.reserve(count);
  for (std::size_t i = 0; i < count; ++i) result.push_back(from_pmix(procs[i]));
  return result;
}

void InfoList::add(const char* key, const void* value, pmix_data_type_t type) {
  check_pmix(PMIx_Info_list_add(list_, key, value, type), std::string("PMIx info ") + key);
}

void InfoList::add_array(const char* key, const InfoList& values) {
  pmix_data_array_t array;
  check_pmix(PMIx_Info_list_convert(values.get(), &array), std::string("PMIx info ") + key);
  const pmix_status_t added = PMIx_Info_list_add(list_, key, &array, PMIX_DATA_ARRAY);
  PMIX_DATA_ARRAY_DESTRUCT(&array);
  check_pmix(added, std::string("PMIx info ") + key);
}

InfoArray::InfoArray(const InfoList& list) {
  check_pmix(PMIx_Info_list_convert(list.get(), &array_), "PMIx info list");
}

InfoArray::~InfoArray() { PMIX_DATA_ARRAY_DESTRUCT(&array_); }

void Waiter::done(pmix_status_t status, void* waiter) {
  auto* self = static_cast<Waiter*>(waiter);
  // Notified under the lock: the waiter may go out of scope as soon as it is released.
  const std::lock_guard lock(self->mutex_);
  self->status_ = status;
  self->done_ = true;
  self->changed_.notify_all();
}

pmix_status_t Waiter::wait(pmix_status_t started) {
  if (started != PMIX_SUCCESS) return started;  // no callback comes
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  return status_;
}

}  // namespace bellows::elastic
