// SPDX-License-Identifier: Apache-2.0
// What an agent does on its node: starts processes, gives ranks their environment, cores and GPUs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "mpi_elastic/agent/job_folder.h"
#include "mpi_elastic/agent/rank_environment.h"
#include "mpi_elastic/agent/rank_process.h"
#include "mpi_elastic/common/agent_settings.h"
#include "mpi_elastic/common/binding.h"
#include "mpi_elastic/common/network.h"
#include "mpi_elastic/common/process.h"

namespace bellows::elastic {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// ---- starting a process -------------------------------------------------------------------------

class ElasticSpawn : public testing::Test {
 protected:
  ElasticSpawn() {
    folder_ = (fs::temp_directory_path() / "elastic-spawn-XXXXXX").string();
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~ElasticSpawn() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text, mode_t mode) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  SpawnRequest request(std::vector<std::string> arguments) {
    SpawnRequest request;
    request.arguments = std::move(arguments);
    request.environment = own_environment();
    request.pipes = true;
    return request;
  }
  // Its output and wait status.
  static std::pair<std::string, int> finish(Process& process) {
    fcntl(process.out.get(), F_SETFL, 0);  // blocking
    std::string output;
    std::array<char, 4096> buffer;
    ssize_t n;
    while ((n = read(process.out.get(), buffer.data(), buffer.size())) > 0) {
      output.append(buffer.data(), static_cast<std::size_t>(n));
    }
    int status = 0;
    EXPECT_EQ(waitpid(process.pid, &status, 0), process.pid);
    return {output, status};
  }
  static std::pair<std::string, int> refusal(const SpawnRequest& request) {
    try {
      Process process = spawn(request);
      finish(process);
    } catch (const SpawnError& error) {
      return {error.what(), error.code()};
    }
    return {"started", 0};
  }
  std::string folder_;
};

TEST_F(ElasticSpawn, RunsAProgramFromThePathOfItsEnvironment) {
  write("greet", "#!/bin/sh\necho \"hi $1 $X\"\nexit 3\n", 0755);
  SpawnRequest greet = request({"greet", "you"});
  set_variable(greet.environment, "PATH", folder_ + ":/usr/bin:/bin");
  set_variable(greet.environment, "X", "there");
  Process process = spawn(greet);
  const auto [output, status] = finish(process);
  EXPECT_EQ(output, "hi you there\n");
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(ElasticSpawn, ARelativeProgramIsMeantFromItsFolder) {
  fs::create_directory(folder_ + "/sub");
  write("sub/where", "#!/bin/sh\npwd\n", 0755);
  SpawnRequest where = request({"./where"});
  where.directory = folder_ + "/sub";
  Process process = spawn(where);
  EXPECT_EQ(finish(process).first, fs::canonical(folder_ + "/sub").string() + "\n");
  where.arguments = {"sub/where"};
  EXPECT_EQ(refusal(where).second, ENOENT);
}

TEST_F(ElasticSpawn, SaysWhatCannotBeStartedAndWhy) {
  const auto [missing, missing_code] = refusal(request({"no-such-program"}));
  EXPECT_EQ(missing, "cannot start 'no-such-program': no such program in PATH");
  EXPECT_EQ(missing_code, ENOENT);
  EXPECT_EQ(refusal(request({"/no/such"})).second, ENOENT);
  EXPECT_THAT(refusal(request({"/no/such"})).first, HasSubstr("'/no/such'"));
  EXPECT_EQ(refusal(request({""})).second, ENOENT);

  const std::string plain = write("plain", "text", 0644);
  EXPECT_EQ(refusal(request({plain})).first,
            "cannot start '" + plain + "': not an executable file");
  EXPECT_EQ(refusal(request({plain})).second, EACCES);
  EXPECT_EQ(refusal(request({folder_})).second, EACCES);
  const std::string format = write("format", "\x7f no program", 0755);
  EXPECT_EQ(refusal(request({format})).second, ENOEXEC);
  const std::string no_shell = write("no_shell", "#!/no/such/shell\n", 0755);
  EXPECT_EQ(refusal(request({no_shell})).second, ENOENT);

  SpawnRequest elsewhere = request({"true"});
  elsewhere.directory = folder_ + "/absent";
  EXPECT_THAT(refusal(elsewhere).first, HasSubstr("cannot enter folder '" + folder_ + "/absent'"));
}

TEST_F(ElasticSpawn, TheChildHasNoneOfOurPipesAndIgnoresNoSignal) {
  signal(SIGPIPE, SIG_IGN);
  Process process =
      spawn(request({"sh", "-c", "grep SigIgn /proc/self/status; ls -l /proc/self/fd"}));
  const std::string output = finish(process).first;
  unsigned long ignored = 0;
  ASSERT_EQ(sscanf(output.c_str(), "SigIgn: %lx", &ignored), 1) << output;
  EXPECT_EQ(ignored & (1UL << (SIGPIPE - 1)), 0U);
  // Its own three, and nothing else that leads to a pipe.
  std::size_t pipes = 0;
  for (std::size_t at = 0; (at = output.find("pipe:", at)) != std::string::npos; ++at) ++pipes;
  EXPECT_EQ(pipes, 3U) << output;
}

TEST_F(ElasticSpawn, TheChildLeadsAGroupAndHasItsCores) {
  SpawnRequest bound = request({"grep", "Cpus_allowed_list", "/proc/self/status"});
  cpu_set_t own, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
  CPU_ZERO(&one);
  int cpu = 0;
  while (!CPU_ISSET(static_cast<std::size_t>(cpu), &own)) ++cpu;
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  bound.cpus = one;
  Process process = spawn(bound);
  EXPECT_EQ(getpgid(process.pid), process.pid);
  EXPECT_THAT(finish(process).first, testing::EndsWith("\t" + std::to_string(cpu) + "\n"));
}

TEST(ElasticSignals, HaveNames) {
  EXPECT_EQ(signal_text(SIGKILL), "SIGKILL");
  EXPECT_EQ(signal_text(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(signal_text(40), "signal 40");
}

// ---- a rank's output, input and end -------------------------------------------------------------

class ElasticRank : public ElasticSpawn {
 protected:
  struct Heard {
    std::string out, err;
    std::vector<std::string> order;  // "out", "exit"
    std::size_t taken = 0;
    int status = -1;
  };
  // Starts `sh -c script`; `begin` may use the rank before anything is heard.
  Heard run(const std::string& script, const std::function<void(RankProcess&)>& begin = {}) {
    Heard heard;
    boost::asio::io_context io(1);
    const auto rank = std::make_shared<RankProcess>(
        io, spawn(request({"sh", "-c", script})),
        RankProcess::Events{[&](RankProcess::Stream stream, const std::string& bytes) {
                              (stream == RankProcess::Stream::out ? heard.out : heard.err) += bytes;
                              heard.order.emplace_back("out");
                            },
                            [&](int status) {
                              heard.status = status;
                              heard.order.emplace_back("exit");
                            },
                            [&](std::size_t bytes) { heard.taken += bytes; }});
    rank->start();
    if (begin) {
      begin(*rank);
    } else {
      rank->close_input();
    }
    io.run_for(std::chrono::seconds(60));
    EXPECT_FALSE(rank->running());
    return heard;
  }
};

TEST_F(ElasticRank, SendsBothStreamsAndItsExitCode) {
  const Heard heard = run("echo a; echo b >&2; exit 5");
  EXPECT_EQ(heard.out, "a\n");
  EXPECT_EQ(heard.err, "b\n");
  EXPECT_EQ(WEXITSTATUS(heard.status), 5);
  EXPECT_EQ(heard.order.back(), "exit");
}

// Several pipes full just before the end: what was read last must not overtake what came before.
TEST_F(ElasticRank, OutputJustBeforeTheEndIsCompleteAndInOrder) {
  std::string expected;
  for (int i = 1; i <= 60000; ++i) expected += std::to_string(i) + "\n";
  for (int round = 0; round < 20; ++round) {
    const Heard heard = run("exec seq 1 60000");
    ASSERT_TRUE(heard.out == expected)
        << "round " << round << ": " << heard.out.size() << " bytes of " << expected.size();
    ASSERT_EQ(heard.order.back(), "exit");
  }
}

TEST_F(ElasticRank, WhatItLeavesRunningIsEndedAndWaitedForByNobody) {
  const Heard heard = run("sleep 600 & echo $!; yes & exit 0");
  EXPECT_EQ(WEXITSTATUS(heard.status), 0);
  const pid_t left = std::stoi(heard.out);
  ASSERT_GT(left, 0);
  // Killed, though perhaps not gone yet.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const auto lives = [left] {
    const Fd file(open(("/proc/" + std::to_string(left) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 256> text{};
    if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) return false;
    return std::string_view(text.data()).find(") Z ") == std::string_view::npos;
  };
  while (lives()) ASSERT_LT(std::chrono::steady_clock::now(), limit) << "still there";
}

TEST_F(ElasticRank, AProcessThatHasLeftItsGroupDoesNotKeepItsEndFromBeingHeard) {
  const Heard heard = run("setsid yes & echo $!; sleep 0.2; exit 0");
  EXPECT_EQ(WEXITSTATUS(heard.status), 0);
  EXPECT_EQ(heard.order.back(), "exit");
  kill(std::stoi(heard.out.substr(heard.out.find_first_of("0123456789"))), SIGKILL);
}

TEST_F(ElasticRank, GetsItsInputWholeAndItsEnd) {
  std::string input;
  for (int i = 0; i < 500000; ++i) input += std::to_string(i) + "\n";
  const Heard heard = run("exec cat", [&](RankProcess& rank) {
    rank.write_input(input.substr(0, 1000000));
    rank.write_input(input.substr(1000000));
    rank.close_input();
  });
  EXPECT_TRUE(heard.out == input);
  EXPECT_EQ(heard.taken, input.size());
}

TEST_F(ElasticRank, InputThatItDoesNotReadIsCountedAsTaken) {
  const std::string input(1000000, 'x');
  EXPECT_EQ(run("exit 0", [&](RankProcess& rank) { rank.write_input(input); }).taken, input.size());
  EXPECT_EQ(run("exec <&-; sleep 0.2",
                [&](RankProcess& rank) {
                  rank.write_input(input);
                  rank.write_input(input);
                })
                .taken,
            2 * input.size());
}

TEST_F(ElasticRank, HeldOutputComesAtTheLatestWithItsEnd) {
  const Heard heard = run("echo a; echo b >&2", [](RankProcess& rank) {
    rank.hold_output(true);
    rank.close_input();
  });
  EXPECT_EQ(heard.out, "a\n");
  EXPECT_EQ(heard.err, "b\n");
}

TEST_F(ElasticRank, ASignalReachesItsChildrenToo) {
  const Heard heard = run("sleep 600; echo survived", [](RankProcess& rank) {
    usleep(100000);
    rank.signal(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(heard.status));
  EXPECT_EQ(heard.out, "");
}

// ---- environment --------------------------------------------------------------------------------

RankPlace place() {
  RankPlace place;
  place.rank = 5;
  place.size = 8;
  place.local_rank = 1;
  place.local_size = 4;
  place.node = 2;
  place.nodes = 4;
  place.cores = 8;
  place.network = "10.88.0.0/16";
  place.memory_folder = "/dev/shm/x";
  return place;
}

using Variables = std::vector<std::string>;

TEST(ElasticEnvironment, HasTheRanksPlaceAndWhatUlfmNeeds) {
  const Variables all =
      rank_environment({"A=1"}, {}, {"PMIX_RANK=5", "PMIX_NAMESPACE=x@1"}, place());
  for (const char* variable :
       {"A=1", "OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_RANK=5", "PMIX_NAMESPACE=x@1",
        "OMPI_MCA_mpi_ft_enable=1", "OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,tcp,sm",
        "OMPI_MCA_coll=^han", "OMPI_MCA_btl_tcp_if_include=10.88.0.0/16",
        "OMPI_MCA_btl_sm_backing_directory=/dev/shm/x", "OMP_NUM_THREADS=2"}) {
    EXPECT_THAT(all, Contains(variable));
  }
  EXPECT_THAT(all, Contains("GOMP_SPINCOUNT=1000"));
  EXPECT_EQ(get_variable(all, "OMPI_MCA_mpi_yield_when_idle"), nullptr);
  EXPECT_EQ(get_variable(all, "SLURM_PROCID"), nullptr);
}

TEST(ElasticEnvironment, TheUsersOwnParametersHold) {
  const Variables user{"OMPI_MCA_pml=ucx",
                       "OMPI_MCA_btl=self",
                       "OMPI_MCA_mpi_ft_enable=0",
                       "OMPI_MCA_coll=basic,libnbc",
                       "OMPI_MCA_btl_tcp_if_include=ib0",
                       "OMPI_MCA_btl_sm_backing_directory=/ram",
                       "OMP_NUM_THREADS=3",
                       "OMPI_MCA_mpi_yield_when_idle=0"};
  RankPlace crowded = place();
  crowded.cores = 1;
  const Variables all = rank_environment(user, {}, {}, crowded);
  for (const std::string& variable : user) EXPECT_THAT(all, Contains(variable));
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& v) { return v.starts_with("OMPI_MCA_pml="); }),
            1);
  const Variables spinning = rank_environment({"OMP_WAIT_POLICY=active"}, {}, {}, place());
  EXPECT_EQ(get_variable(spinning, "GOMP_SPINCOUNT"), nullptr);
  // Open MPI refuses both at once.
  const Variables excluding = rank_environment({"OMPI_MCA_btl_tcp_if_exclude=lo"}, {}, {}, place());
  EXPECT_EQ(get_variable(excluding, "OMPI_MCA_btl_tcp_if_include"), nullptr);
}

TEST(ElasticEnvironment, RanksThatShareCoresYieldThem) {
  RankPlace crowded = place();
  crowded.cores = 2;
  const Variables all = rank_environment({}, {}, {}, crowded);
  EXPECT_THAT(all,
              AllOf(Contains("OMPI_MCA_mpi_yield_when_idle=1"), Contains("OMP_NUM_THREADS=1")));
}

TEST(ElasticEnvironment, NodesOnOneMachineShareItsCores) {
  RankPlace shared = place();  // 4 ranks here, 8 cores
  shared.machine_ranks = 16;
  const Variables all = rank_environment({}, {}, {}, shared);
  EXPECT_THAT(all,
              AllOf(Contains("OMPI_MCA_mpi_yield_when_idle=1"), Contains("OMP_NUM_THREADS=1")));
}

TEST(ElasticEnvironment, HasNeitherTheSecretNorAnotherLaunchersIdentity) {
  AgentSettings settings;
  settings.node = "n1";
  settings.addresses = {"10.0.0.1:4000"};
  settings.secret = "top-secret";
  settings.job = "4711";
  Variables user{
      "PMIX_RANK=3", "PMIX_NAMESPACE=prterun", "PMIX_SERVER_URI41=x", "PMIX_MCA_psec=none",
      "PMI_RANK=3",  "PRTE_MCA_x=1",           "BELLOWS_TTY=1"};
  settings.add_to(user);
  Variables node;
  settings.add_to(node);
  const Variables all = rank_environment(user, node, {"PMIX_RANK=5"}, place());
  for (const std::string& variable : all) EXPECT_THAT(variable, Not(HasSubstr("top-secret")));
  EXPECT_THAT(all, AllOf(Contains("PMIX_RANK=5"), Contains("PMIX_MCA_psec=none"),
                         Contains("BELLOWS_TTY=1")));
  EXPECT_THAT(all,
              AllOf(Not(Contains(StartsWith("PMIX_NAMESPACE="))),
                    Not(Contains(StartsWith("PMIX_SERVER_URI"))), Not(Contains(StartsWith("PMI_"))),
                    Not(Contains(StartsWith("PRTE_"))), Not(Contains(StartsWith("BELLOWS_SECRET"))),
                    Not(Contains(StartsWith("BELLOWS_NODE"))),
                    Not(Contains(StartsWith("BELLOWS_COORDINATOR")))));
}

TEST(ElasticEnvironment, SlurmsVariablesAreThoseOfTheNode) {
  const Variables all = rank_environment(
      {"SLURM_JOB_ID=7", "SLURM_NODEID=0", "SLURM_PROCID=0", "PATH=/a", "CUDA_VISIBLE_DEVICES=9"},
      {"SLURM_JOB_ID=7", "SLURMD_NODENAME=n3", "PATH=/b", "CUDA_VISIBLE_DEVICES=0,1,2,3"}, {},
      place());
  for (const char* variable :
       {"SLURMD_NODENAME=n3", "SLURM_NODEID=2", "SLURM_NNODES=4", "SLURM_PROCID=5",
        "SLURM_NTASKS=8", "SLURM_LOCALID=1", "PATH=/a", "CUDA_VISIBLE_DEVICES=0,1,2,3"}) {
    EXPECT_THAT(all, Contains(variable));
  }
}

TEST(ElasticEnvironment, GivesEachRankItsGpus) {
  RankPlace with_gpus = place();
  with_gpus.gpus_per_rank = 2;
  EXPECT_THAT(rank_environment({}, {"CUDA_VISIBLE_DEVICES=0,1,2,3"}, {}, with_gpus),
              Contains("CUDA_VISIBLE_DEVICES=2,3"));
  EXPECT_THROW(rank_environment({}, {"CUDA_VISIBLE_DEVICES=0,1,2"}, {}, with_gpus),
               std::runtime_error);
}

TEST(ElasticEnvironment, VariablesAreSetReadAndRemoved) {
  Variables variables{"AB=1", "A=2"};
  set_variable(variables, "A", "3");
  set_default(variables, "A", "4");
  set_default(variables, "C", "5");
  EXPECT_THAT(variables, ElementsAre("AB=1", "A=3", "C=5"));
  EXPECT_STREQ(get_variable(variables, "A"), "3");
  EXPECT_EQ(get_variable(variables, "B"), nullptr);
  remove_variables(variables, "A");
  EXPECT_THAT(variables, ElementsAre("C=5"));
}

// ---- settings of an agent -----------------------------------------------------------------------

class ElasticSettings : public testing::Test {
 protected:
  ElasticSettings() {
    set("BELLOWS_NODE", "n1");
    set("BELLOWS_COORDINATOR", "10.0.0.1:4000,127.0.0.1:4000");
    set("BELLOWS_SECRET", "s");
    set("BELLOWS_JOB", "4711");
  }
  ~ElasticSettings() override {
    for (const std::string& name : names_) unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    names_.push_back(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  static std::string refusal() {
    try {
      AgentSettings::from_environment();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "accepted";
  }
  Variables names_;
};

TEST_F(ElasticSettings, TravelInTheEnvironment) {
  set("BELLOWS_CONNECT_SECONDS", "2.5");
  const AgentSettings settings = AgentSettings::from_environment();
  EXPECT_EQ(settings.node, "n1");
  EXPECT_THAT(settings.addresses, ElementsAre("10.0.0.1:4000", "127.0.0.1:4000"));
  EXPECT_EQ(settings.connect_seconds, 2.5);
  Variables variables;
  settings.add_to(variables);
  EXPECT_THAT(variables, Contains("BELLOWS_COORDINATOR=10.0.0.1:4000,127.0.0.1:4000"));
  EXPECT_THAT(variables, Contains("BELLOWS_SECRET=s"));
}

TEST_F(ElasticSettings, EachThatIsMissingOrWrongIsNamed) {
  for (const char* name :
       {"BELLOWS_NODE", "BELLOWS_COORDINATOR", "BELLOWS_SECRET", "BELLOWS_JOB"}) {
    const std::string value = getenv(name);
    for (const bool empty : {true, false}) {
      if (empty) {
        set(name, "");
      } else {
        unsetenv(name);
      }
      EXPECT_THAT(refusal(), StartsWith(std::string(name) + " is not set"));
    }
    set(name, value);
  }
  for (const char* name : {"BELLOWS_CONNECT_SECONDS", "BELLOWS_SILENCE_SECONDS"}) {
    for (const char* value : {"", "soon", "-1", "0", "1x", "nan"}) {
      set(name, value);
      EXPECT_THAT(refusal(), StartsWith(name)) << value;
    }
    unsetenv(name);
  }
}

// ---- cores and GPUs -----------------------------------------------------------------------------

TEST(ElasticGpus, AreDividedInOrder) {
  EXPECT_EQ(gpus_of_rank("0,1,2,3", 0, 1), "0");
  EXPECT_EQ(gpus_of_rank("0,1,2,3", 3, 1), "3");
  EXPECT_EQ(gpus_of_rank("0,1,2,3", 1, 2), "2,3");
  EXPECT_EQ(gpus_of_rank("GPU-8932f937,GPU-12ab", 1, 1), "GPU-12ab");
  EXPECT_EQ(gpus_of_rank("0,1,2,3", 4, 1), "");
  EXPECT_EQ(gpus_of_rank("0,1,2", 1, 2), "");
  EXPECT_EQ(gpus_of_rank("", 0, 1), "");
}

TEST(ElasticBinding, RanksGetDifferentCores) {
  const Topology topology;
  const int cores = topology.cores();
  ASSERT_GE(cores, 1);
  const auto bindings = bind_ranks(topology, cores, BindPolicy::core);
  ASSERT_EQ(bindings.size(), static_cast<std::size_t>(cores));
  cpu_set_t all;
  CPU_ZERO(&all);
  int threads = 0;
  for (const Binding& binding : bindings) {
    const auto own = binding.set();
    ASSERT_TRUE(own);
    threads += CPU_COUNT(&*own);
    CPU_OR(&all, &all, &*own);
  }
  EXPECT_EQ(CPU_COUNT(&all), threads) << "a core given twice";
}

TEST(ElasticBinding, OneRankGetsAllCores) {
  const Topology topology;
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const auto own = bind_ranks(topology, 1, BindPolicy::automatic)[0].set();
  ASSERT_TRUE(own);
  EXPECT_TRUE(CPU_EQUAL(&*own, &allowed));
}

TEST(ElasticBinding, TooManyRanksAreUnboundOrRefused) {
  const Topology topology;
  const int ranks = topology.cores() + 1;
  for (const Binding& binding : bind_ranks(topology, ranks, BindPolicy::automatic)) {
    EXPECT_EQ(binding.cpus, "");
    EXPECT_EQ(binding.set(), std::nullopt);
  }
  EXPECT_THROW(bind_ranks(topology, ranks, BindPolicy::core), std::runtime_error);
  EXPECT_EQ(bind_ranks(topology, 1, BindPolicy::none)[0].cpus, "");
  EXPECT_THROW(bind_policy("socket"), std::invalid_argument);
}

// ---- network ------------------------------------------------------------------------------------

TEST(ElasticNetwork, OfAnAddress) {
  EXPECT_EQ(network_of("127.0.0.1"), "127.0.0.0/8");
  EXPECT_EQ(network_of("192.0.2.77"), "");
  EXPECT_EQ(network_of("no address"), "");
  EXPECT_EQ(network_of(""), "");
  for (const std::string& address : own_addresses()) {
    EXPECT_THAT(address, Not(StartsWith("127.")));
    EXPECT_NE(network_of(address), "");
  }
}

TEST(ElasticNetwork, AddressesAreTakenApart) {
  EXPECT_EQ(split_address("10.0.0.1:4000"),
            (std::pair<std::string, std::string>("10.0.0.1", "4000")));
  EXPECT_EQ(split_address("::1:80").first, "::1");
  for (const char* text : {"", "host", ":80", "host:"}) {
    EXPECT_THROW(split_address(text), std::invalid_argument) << text;
  }
}

// ---- folders ------------------------------------------------------------------------------------

TEST(ElasticFolder, IsPrivateAndGoesAway) {
  std::string path, memory;
  {
    const JobFolder folder("unit-test");
    path = folder.path();
    memory = folder.memory();
    struct stat about{};
    ASSERT_EQ(stat(path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0700U);
    EXPECT_THAT(path, HasSubstr("/bellows-" + std::to_string(geteuid()) + "-unit-test-"));
    std::ofstream(path + "/file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(memory.empty() || !fs::exists(memory));
}

TEST(ElasticFolder, SaysWhichFolderCannotBeMade) {
  setenv("TMPDIR", "/no/such/folder", 1);
  try {
    const JobFolder folder("unit-test");
    ADD_FAILURE() << "made in a folder that is not there";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("/no/such/folder/bellows-"), HasSubstr("TMPDIR")));
  }
  // Too long for a socket's name: the usual folder then.
  setenv("TMPDIR", ("/no/" + std::string(80, 'x')).c_str(), 1);
  EXPECT_THAT(JobFolder("unit-test").path(), StartsWith("/tmp/bellows-"));
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace bellows::elastic
