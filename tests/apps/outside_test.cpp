#include "apps/shared_folder.hpp"
#include "core/backend.hpp"
#include "io/dense_file.hpp"
#include "io/network_file.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace varve {
namespace {

using test::expect_sentence;
using test::run_varve;
using test::run_varve_process;
using test::succeed;
using ::testing::HasSubstr;
using ::testing::Not;
using varve::test::read_bytes;

/// What comes from outside: the environment, and names that hold any bytes.
class Outside : public test::SharedFolder<Outside> {
public:
  static void make_files() { test::generate_small(path("net.safetensors"), path("img.safetensors"), 3, 20); }

protected:
  static std::vector<std::string> infer_with(std::vector<std::string> words) {
    words.insert(words.begin(), {"infer", "--network", path("net.safetensors"), "--input", path("img.safetensors")});
    return words;
  }

  static void expect_usage(test::Ended const& ended, std::string const& part) { expect_sentence(ended, 2, {part}); }
};

TEST_F(Outside, OptionsOfKokkosAreChecked) {
  for (std::string const value : {"banana", "0", "-5", "100000"}) {
    expect_usage(run_varve_process(infer_with({"--kokkos-num-threads=" + value})),
                 "--kokkos-num-threads is '" + value + "'");
  }
  expect_usage(run_varve_process(infer_with({"--kokkos-colour=red"})), "Kokkos has no option --kokkos-colour");
  EXPECT_EQ(run_varve_process(infer_with({"--kokkos-num-threads=1"})).exit_code, 0);
}

TEST_F(Outside, VariablesOfKokkosAndOpenMPAreChecked) {
  for (std::string const name : {"KOKKOS_NUM_THREADS", "OMP_NUM_THREADS"}) {
    char const* const before = std::getenv(name.c_str());
    std::string const kept = before == nullptr ? "" : before;
    for (std::string const value : {"0", "-5", "100000", "banana"}) {
      setenv(name.c_str(), value.c_str(), 1);
      auto const ended = run_varve_process(infer_with({}));
      EXPECT_EQ(ended.exit_code, 2) << ended.err;
      EXPECT_THAT(ended.err, HasSubstr("varve: the environment variable " + name + " is '" + value + "'"));
    }
    before == nullptr ? unsetenv(name.c_str()) : setenv(name.c_str(), kept.c_str(), 1);
  }
}

#if !defined(VARVE_ADDRESS_SANITIZER) // which reserves its address space at the start, and wants to be loaded first
/// True if infer starts threads of OpenMP, and no driver of a GPU, which takes more threads and addresses than these
/// tests allow.
bool starts_threads_alone() {
  auto const backends = compiled_backends();
  return !has_own_memory(backends.front()) && std::ranges::find(backends, Backend::openmp) != backends.end();
}

TEST_F(Outside, ThreadsWithoutRoomForTheirStacksAreExitCode4) { // the OpenMP library would end the process with 1
  if (!starts_threads_alone()) return;
  auto const infer = " " + test::quoted(VARVE_COMMAND) + " infer --network " + path("net.safetensors") + " --input " +
                     path("img.safetensors");
  for (auto const& [limit, variables, sentence] :
       {std::tuple("3000000", "OMP_NUM_THREADS=512 OMP_STACKSIZE=8M", "512 threads with stacks of 8192 KiB"),
        std::tuple("2000000", "OMP_NUM_THREADS=4 OMP_STACKSIZE=1G", "4 threads with stacks of 1048576 KiB")}) {
    auto const ended = test::run({"bash", "-c", "ulimit -v " + std::string(limit) + "; " + variables + infer});
    expect_sentence(ended, 4, {sentence, "cannot be started: Cannot allocate memory; lower OMP_NUM_THREADS"});
    EXPECT_EQ(ended.out, "");
  }
}

TEST_F(Outside, ThreadsThatCannotStartAreExitCode4) {
  std::vector<std::string> const without_threads = {"env", test::preloading(VARVE_NO_THREADS), "OMP_NUM_THREADS=2"};
  auto const info = test::run(test::joined(without_threads, {VARVE_COMMAND, "info", path("net.safetensors")}));
  expect_sentence(
      info, 4,
      {"the thread that removes unfinished outputs when a signal comes cannot be started: Resource temporarily "
       "unavailable"});
#if !defined(__clang__) // whose OpenMP library aborts
  if (!starts_threads_alone()) return;
  auto const infer =
      test::run(test::joined(without_threads, {VARVE_COMMAND, "infer", "--network", path("net.safetensors"), "--input",
                                               path("img.safetensors")}));
  EXPECT_EQ(infer.exit_code, 4) << infer.err;
  EXPECT_EQ(infer.out, "");
  EXPECT_THAT(infer.err, HasSubstr("varve: 2 threads cannot be started; lower OMP_NUM_THREADS"));
#endif
}

TEST_F(Outside, GoodFilesAreNotCalledBrokenWhereMemoryEnds) {
  test::generate_medium(path("medium.safetensors"), path("medium-img.safetensors"), 600);
  for (std::string const name : {"medium.safetensors", "medium-img.safetensors"}) {
    int num_failed = 0;
    bool is_done = false;
    for (int left = 0; !is_done && left < 2000; left += 1 + left / 8) {
      auto const ended =
          test::run({"env", test::preloading(VARVE_NO_MEMORY), "VARVE_LARGE_ALLOCATIONS=" + std::to_string(left),
                     VARVE_COMMAND, "convert", path(name), path("copy-" + name)});
      is_done = ended.exit_code == 0;
      EXPECT_NE(ended.exit_code, 3) << name << ", " << left << ": " << ended.err;
      num_failed += ended.exit_code == 4 ? 1 : 0;
    }
    EXPECT_TRUE(is_done) << name;
    EXPECT_GT(num_failed, 5) << name;
  }
}

/// Runs the command where private memory is limited to so many MiB.
test::Ended run_within(std::size_t mebibytes, std::vector<std::string> const& words) {
  return test::run(test::joined(
      {"bash", "-c", "ulimit -d " + std::to_string(mebibytes << 10U) + "; exec \"$@\"", "varve", VARVE_COMMAND},
      words));
}

TEST_F(Outside, ConvertTakesSamplesInPartsThatFitWhatIsLeft) { // at a time they would take 50 MB
  succeed({"generate", "samples", "--neurons", "1000", "--samples", "2000", "--density", "1", "--output",
           path("dense.safetensors")});
  succeed({"convert", path("dense.safetensors"), path("at-a-time.safetensors")});
  auto const ended = run_within(32, {"convert", path("dense.safetensors"), path("in-parts.safetensors")});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_TRUE(read_bytes(path("in-parts.safetensors")) == read_bytes(path("at-a-time.safetensors")));
}

TEST_F(Outside, EveryCommandEndsWithASentenceWhereItsMemoryEnds) {
  auto const file = [](std::string const& name) { return path(name); };
  test::generate_medium(file("n.safetensors"), file("s.safetensors"), 600);
  succeed({"generate", "samples", "--neurons", "256", "--samples", "600", "--density", "1", "--output",
           file("targets.safetensors")});
  succeed({"infer", "--network", file("n.safetensors"), "--input", file("s.safetensors"), "--categories", file("c.tsv"),
           "--receipt", file("receipt.json")});
  DenseFileWriter matrix(file("matrix.safetensors"), 600, 600, Precision::single_precision);
  matrix.write({0, 600, 0, 600}, std::vector<float>(600 * 600, 0.5F).data());
  matrix.commit();
  std::vector<std::string> const data = {"--network", file("n.safetensors"), "--input", file("s.safetensors")};
  std::vector<std::vector<std::string>> commands = {
      test::joined({"verify", "--result", file("c.tsv")}, data),
      {"generate", "radixnet", "--neurons", "1024", "--layers", "8", "--output", file("g.safetensors")},
      {"generate", "images", "--neurons", "1024", "--samples", "2000", "--output", file("g.safetensors")},
      {"convert", file("n.safetensors"), file("g.safetensors"), "--prune", "0.5"},
      {"convert", file("n.safetensors"), file("g.safetensors"), "--reduce"},
      {"info", file("n.safetensors")}};
  for (auto const& words : std::vector<std::vector<std::string>>{
           test::joined({"infer", "--activations", file("a.safetensors")}, data),
           test::joined({"audit", file("receipt.json")}, data),
           test::joined({"infer", "--reductions", "none", "--activations", file("a.safetensors")}, data),
           test::joined({"train", "--targets", file("targets.safetensors"), "--loss", "mean-square", "--epochs", "1",
                         "--output", file("trained.safetensors")},
                        data),
           test::joined({"evaluate", "--targets", file("targets.safetensors")}, data),
           test::joined({"benchmark", "--repeats", "1", "--seconds", "0", "--output", file("records.jsonl")}, data),
           {"multiply", file("matrix.safetensors"), file("matrix.safetensors"), "--output",
            file("product.safetensors")}}) {
#if !defined(__clang__) // whose OpenMP library aborts
    if (starts_threads_alone()) commands.push_back(words);
#endif
  }
  for (auto const& words : commands) {
    bool is_done = false;
    for (std::size_t mebibytes = 2; !is_done && mebibytes < 4096; mebibytes += 1 + mebibytes / 3) {
      auto const ended = run_within(mebibytes, words);
      if (ended.err.find("error while loading shared libraries") != std::string::npos) continue; // it did not begin
      is_done = ended.exit_code == 0;
      if (!is_done) test::expect_sentence(ended, 4, {}, words[0] + ", " + std::to_string(mebibytes) + " MiB: ");
    }
    EXPECT_TRUE(is_done) << words[0];
  }
}
#endif

TEST_F(Outside, CommandsMayTakeTheMemoryThatIsAvailable) { // more is a sentence, not the end of the process
  auto const pipe = path("pipe.tsv");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_DATA, &before), 0);
  std::vector<std::vector<std::string>> commands = {
      {"convert", pipe, path("piped.safetensors"), "--text", "neurons=32"}};
  if (!has_own_memory(compiled_backends().front()))
    commands.push_back({"infer", "--network", path("net.safetensors"), "--input", pipe});
  for (auto const& words : commands) {
    auto const process = test::start(test::joined({VARVE_COMMAND}, words), path("out"), path("err"));
    rlimit limit = before; // the process waits for the bytes of the pipe
    auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (limit.rlim_cur == before.rlim_cur && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(3));
      prlimit(process, RLIMIT_DATA, nullptr, &limit);
    }
    EXPECT_LT(limit.rlim_cur, before.rlim_cur) << words[0];
    EXPECT_EQ(limit.rlim_max, before.rlim_max);
    std::ofstream(pipe) << "1\t1\t1\n";
    EXPECT_EQ(test::wait_for(process), 0) << read_bytes(path("err"));
  }
}

TEST_F(Outside, DevicesAreStartedOnlyByWhatComputesOnThem) { // a login node has no GPU
  setenv("KOKKOS_PRINT_CONFIGURATION", "true", 1);
  auto const starts_kokkos = [](std::vector<std::string> const& words) {
    auto const ended = succeed(words, run_varve_process);
    return (ended.out + ended.err).find("Kokkos Version:") != std::string::npos;
  };
  auto const network = path("made.safetensors");
  auto const samples = path("made-samples.safetensors");
  EXPECT_FALSE(starts_kokkos({"generate", "radixnet", "--neurons", "32", "--layers", "2", "--output", network}));
  EXPECT_FALSE(starts_kokkos(
      {"generate", "weights", "--network", network, "--init", "he", "--output", path("start.safetensors")}));
  EXPECT_FALSE(starts_kokkos({"generate", "images", "--neurons", "32", "--samples", "9", "--output", samples}));
  EXPECT_FALSE(starts_kokkos({"convert", samples, path("made.tsv")}));
  EXPECT_FALSE(starts_kokkos({"convert", network, path("pruned.safetensors"), "--prune", "0.5"}));
  EXPECT_FALSE(starts_kokkos({"info", network}));
  EXPECT_FALSE(starts_kokkos({"info", samples, "--json"}));
  EXPECT_TRUE(starts_kokkos({"info", network, "--plan"}));
  auto const alive = path("alive.tsv");
  EXPECT_TRUE(starts_kokkos({"infer", "--network", network, "--input", samples, "--categories", alive}));
  EXPECT_FALSE(starts_kokkos({"verify", "--network", network, "--input", samples, "--result", alive, "--exact"}));
  unsetenv("KOKKOS_PRINT_CONFIGURATION");
  expect_usage(run_varve({"info", network, "--kokkos-num-threads=banana"}), "--kokkos-num-threads is 'banana'");
}

TEST_F(Outside, NamesOfAnyBytesAreQuotedSafely) {
  for (std::string const name : {"two\nlines.safetensors", "escape\x1b[2J.safetensors", "bytes\xff\xfe.safetensors"}) {
    std::filesystem::copy_file(path("net.safetensors"), path(name), std::filesystem::copy_options::overwrite_existing);
    auto const ended = succeed(
        {"infer", "--network", path(name), "--input", path("img.safetensors"), "--report", path("report.json")});
    EXPECT_THAT(ended.out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(ended.out, Not(HasSubstr("two\nlines")));
    EXPECT_THAT(ended.out, Not(HasSubstr("\xff")));
    EXPECT_FALSE(nlohmann::json::parse(read_bytes(path("report.json")), nullptr, false).is_discarded());
    auto const info = succeed({"info", path(name), "--json"});
    EXPECT_FALSE(nlohmann::json::parse(info.out, nullptr, false).is_discarded());

    auto const missing = run_varve({"info", path("no " + name)});
    expect_sentence(missing, 3);
    EXPECT_THAT(missing.err, Not(HasSubstr("\x1b")));
    EXPECT_THAT(missing.err, Not(HasSubstr("\xff")));
  }
}

TEST_F(Outside, LongAndStrangeValuesAreQuotedSafely) {
  std::string const strange = "\x1b[31m\xff\n" + std::string(5000, 'x');
  std::vector<std::vector<std::string>> const cases = {{"--precision", strange},
                                                       {"--backend", strange},
                                                       {"--samples", strange},
                                                       {"--batch", strange},
                                                       {"--tuning", strange},
                                                       {"--tuning", "formats=" + strange},
                                                       {strange}};
  for (auto const& words : cases) {
    auto const ended = run_varve(infer_with(words));
    EXPECT_TRUE(ended.exit_code == 2 || ended.exit_code == 3) << words[0] << ended.exit_code << ended.err;
    EXPECT_EQ(ended.complaints().size(), 1U) << words[0] << ended.err;
    EXPECT_LT(ended.err.size(), 2100U) << words[0];
    EXPECT_THAT(ended.err, Not(HasSubstr("\x1b"))) << words[0];
    EXPECT_THAT(ended.err, Not(HasSubstr("\xff"))) << words[0];
  }
}

TEST_F(Outside, FilesThatCannotBeReadAreExitCode3) {
  auto const ended = run_varve({"info", "/proc/self/mem"}); // a regular file; reading its begin fails
  EXPECT_EQ(ended.exit_code, 3) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("/proc/self/mem cannot be read: Input/output error"));
}

} // namespace
} // namespace varve
