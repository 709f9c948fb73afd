// SPDX-License-Identifier: Apache-2.0
#include "mpi_elastic/agent/pmix_host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "mpi_elastic/agent/pmix_info.h"
#include "mpi_elastic/agent/pmix_upcalls.h"

namespace bellows::elastic {
namespace {

constexpr char kServerNamespace[] = "bellows-agents";

std::string joined(const std::vector<std::string>& parts, char separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::vector<std::string> rank_names(const NodeShare& share) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < share.count; ++i) names.push_back(std::to_string(share.first + i));
  return names;
}

// The compressed maps of nodes, and of the ranks on each.
void add_maps(InfoList& job, const WorldSpec& world) {
  std::vector<std::string> nodes, ranks;
  for (const NodeShare& share : world.nodes) {
    nodes.push_back(share.name);
    ranks.push_back(joined(rank_names(share), ','));
  }
  char* expression = nullptr;
  check_pmix(PMIx_generate_regex(joined(nodes, ',').c_str(), &expression), "PMIx_generate_regex");
  job.add(PMIX_NODE_MAP, expression, PMIX_REGEX);
  std::free(expression);
  check_pmix(PMIx_generate_ppn(joined(ranks, ';').c_str(), &expression), "PMIx_generate_ppn");
  job.add(PMIX_PROC_MAP, expression, PMIX_REGEX);
  std::free(expression);
}

void add_node(InfoList& job, const NodeShare& share) {
  InfoList node;
  node.add(PMIX_HOSTNAME, share.name);
  node.add_u32(PMIX_NODEID, share.id);
  node.add_u32(PMIX_NODE_SIZE, share.count);
  node.add_u32(PMIX_LOCAL_SIZE, share.count);
  node.add_rank(PMIX_LOCALLDR, share.first);
  node.add(PMIX_LOCAL_PEERS, joined(rank_names(share), ','));
  job.add_array(PMIX_NODE_INFO_ARRAY, node);
}

// "hwloc:…" strings of a binding; the locality tells Open MPI which caches two ranks share.
std::string locality_text(const Topology& topology, const Binding& binding) {
  pmix_cpuset_t cpus;
  PMIX_CPUSET_CONSTRUCT(&cpus);
  cpus.source = const_cast<char*>("hwloc");
  const hwloc_bitmap_t bitmap = hwloc_bitmap_alloc();
  cpus.bitmap = bitmap;
  if (binding.cpus.empty()) {
    hwloc_bitmap_copy(bitmap, hwloc_topology_get_topology_cpuset(topology.get()));
  } else {
    hwloc_bitmap_list_sscanf(bitmap, binding.cpus.c_str());
  }
  char* text = nullptr;
  const pmix_status_t status = PMIx_server_generate_locality_string(&cpus, &text);
  hwloc_bitmap_free(bitmap);
  if (status != PMIX_SUCCESS || text == nullptr) return "";
  std::string result(text);
  std::free(text);
  return result;
}

}  // namespace

class PmixHost::ServerInfos {
 public:
  ServerInfos(const Settings& settings, const Topology& topology)
      : array_(list(settings, topology)) {}
  const InfoArray& array() const { return array_; }

 private:
  static InfoArray list(const Settings& settings, const Topology& topology) {
    InfoList list;
    list.add(PMIX_SERVER_NSPACE, kServerNamespace);
    list.add_rank(PMIX_SERVER_RANK, settings.node_id);
    list.add(PMIX_SERVER_TMPDIR, settings.folder);
    list.add(PMIX_SYSTEM_TMPDIR, settings.folder);
    list.add(PMIX_HOSTNAME, settings.node);
    list.add_bool(PMIX_SERVER_TOOL_SUPPORT, false);
    pmix_topology_t machine;
    PMIX_TOPOLOGY_CONSTRUCT(&machine);
    machine.source = const_cast<char*>("hwloc");
    machine.topology = topology.get();
    list.add(PMIX_TOPOLOGY2, &machine, PMIX_TOPO);
    return InfoArray(list);
  }
  InfoArray array_;
};

PmixHost::PmixHost(boost::asio::io_context& io, HostUpcalls& upcalls, const Topology& topology,
                   Settings settings)
    : settings_(std::move(settings)),
      infos_(std::make_unique<ServerInfos>(settings_, topology)),
      topology_(topology) {
  check_pmix(
      PMIx_server_init(attach_upcalls(io, upcalls), infos_->array().data(), infos_->array().size()),
      "PMIx_server_init");
}

PmixHost::~PmixHost() {
  PMIx_server_finalize();
  detach_upcalls();
}

void PmixHost::register_world(const WorldSpec& world, const Program& program,
                              const std::vector<Binding>& bindings) {
  const std::string folder = settings_.folder + "/" + world.nspace;
  std::filesystem::create_directory(folder);

  InfoList job;
  job.add(PMIX_SERVER_NSPACE, kServerNamespace);
  job.add_rank(PMIX_SERVER_RANK, settings_.node_id);
  job.add_u32(PMIX_SESSION_ID, 1);
  job.add(PMIX_JOBID, world.nspace);
  add_maps(job, world);
  for (const NodeShare& share : world.nodes) add_node(job, share);
  job.add_u32(PMIX_NUM_NODES, static_cast<std::uint32_t>(world.nodes.size()));
  job.add_u32(PMIX_UNIV_SIZE, world.size());
  job.add_u32(PMIX_JOB_SIZE, world.size());
  job.add_u32(PMIX_JOB_NUM_APPS, 1);
  job.add_u32(PMIX_MAX_PROCS, world.size());
  job.add(PMIX_TMPDIR, settings_.folder);
  job.add(PMIX_NSDIR, folder);

  InfoList application;
  application.add_u32(PMIX_APPNUM, 0);
  application.add_u32(PMIX_APP_SIZE, world.size());
  application.add_rank(PMIX_APPLDR, 0);
  application.add(PMIX_WDIR, program.directory);
  application.add(PMIX_APP_ARGV, joined(program.arguments, ' '));
  job.add_array(PMIX_APP_INFO_ARRAY, application);

  std::uint32_t local = 0;
  for (const NodeShare& share : world.nodes) {
    const bool here = share.name == settings_.node;
    if (here) local = share.count;
    for (std::uint32_t i = 0; i < share.count; ++i) {
      const std::uint32_t rank = share.first + i;
      InfoList process;
      process.add_rank(PMIX_RANK, rank);
      if (here) {
        const std::string own = folder + "/" + std::to_string(rank);
        std::filesystem::create_directory(own);
        process.add(PMIX_PROCDIR, own);
        const Binding binding = i < bindings.size() ? bindings[i] : Binding{};
        const std::string locality = locality_text(topology_, binding);
        process.add(PMIX_LOCALITY_STRING, locality.empty() ? nullptr : locality.c_str(),
                    PMIX_STRING);
        if (!binding.cpus.empty()) process.add(PMIX_CPUSET, "hwloc:" + binding.cpus);
      }
      process.add_rank(PMIX_GLOBAL_RANK, rank);
      process.add_u32(PMIX_APPNUM, 0);
      process.add_rank(PMIX_APP_RANK, rank);
      process.add_u16(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(i));
      process.add_u16(PMIX_NODE_RANK, static_cast<std::uint16_t>(i));
      process.add_u32(PMIX_NODEID, share.id);
      process.add_u32(PMIX_REINCARNATION, 0);
      process.add(PMIX_HOSTNAME, share.name);
      job.add_array(PMIX_PROC_DATA, process);
    }
  }

  if (const NodeShare* mine = world.share_of(settings_.node)) {
    for (std::uint32_t i = 0; i < mine->count; ++i) {
      const pmix_proc_t proc = to_pmix({world.nspace, std::int64_t{mine->first} + i});
      Waiter waiter;
      check_pmix(waiter.wait(PMIx_server_register_client(&proc, geteuid(), getegid(), nullptr,
                                                         &Waiter::done, &waiter)),
                 "PMIx_server_register_client");
    }
  }
  const InfoArray infos(job);
  Waiter waiter;
  check_pmix(
      waiter.wait(PMIx_server_register_nspace(world.nspace.c_str(), static_cast<int>(local),
                                              infos.data(), infos.size(), &Waiter::done, &waiter)),
      "PMIx_server_register_nspace");
}

std::vector<std::string> PmixHost::rank_environment(const Proc& proc) {
  const pmix_proc_t who = to_pmix(proc);
  char** variables = nullptr;
  check_pmix(PMIx_server_setup_fork(&who, &variables), "PMIx_server_setup_fork");
  std::vector<std::string> environment;
  for (char** v = variables; v != nullptr && *v != nullptr; ++v) environment.emplace_back(*v);
  PMIx_Argv_free(variables);
  return environment;
}

void PmixHost::deregister_world(const std::string& nspace) {
  PMIx_server_deregister_nspace(nspace.c_str(), nullptr, nullptr);
  std::error_code ignored;
  std::filesystem::remove_all(settings_.folder + "/" + nspace, ignored);
}

void PmixHost::deregister(const Proc& proc) {
  const pmix_proc_t who = to_pmix(proc);
  PMIx_server_deregister_client(&who, nullptr, nullptr);
}

void PmixHost::announce_failure(const std::vector<Proc>& dead,
                                const std::vector<std::string>& targets) {
  // One event for each of the dead: Open MPI takes every info of type PMIX_PROC for a failed
  // process, and ignores arrays of them.
  for (const Proc& proc : dead) {
    const pmix_proc_t who = to_pmix(proc);
    pmix_data_array_t range;
    PMIX_DATA_ARRAY_CONSTRUCT(&range, targets.size(), PMIX_PROC);
    for (std::size_t i = 0; i < targets.size(); ++i) {
      static_cast<pmix_proc_t*>(range.array)[i] = to_pmix({targets[i], kAllRanks});
    }
    InfoList list;
    list.add(PMIX_EVENT_AFFECTED_PROC, &who, PMIX_PROC);
    list.add(PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    PMIX_DATA_ARRAY_DESTRUCT(&range);
    const InfoArray infos(list);
    Waiter waiter;
    check_pmix(waiter.wait(PMIx_Notify_event(PMIX_ERR_PROC_ABORTED, &who, PMIX_RANGE_CUSTOM,
                                             infos.data(), infos.size(), &Waiter::done, &waiter)),
               "PMIx_Notify_event");
  }
}

namespace {

void modex_arrived(pmix_status_t status, char* data, size_t size, void* done) {
  const std::unique_ptr<DataDone> call(static_cast<DataDone*>(done));
  (*call)(status, data != nullptr ? std::string(data, size) : std::string());
}

}  // namespace

void PmixHost::local_modex(const Proc& proc, DataDone done) {
  const pmix_proc_t who = to_pmix(proc);
  auto call = std::make_unique<DataDone>(std::move(done));
  const pmix_status_t started =
      PMIx_server_dmodex_request(&who, &modex_arrived, static_cast<void*>(call.get()));
  if (started == PMIX_SUCCESS) {
    call.release();  // modex_arrived owns it now
  } else {
    (*call)(started, "");
  }
}

}  // namespace bellows::elastic
