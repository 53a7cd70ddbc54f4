#include "apps/shared_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace varve {
namespace {

using test::run_varve;
using test::succeed;

/// Runs a command that takes long; once it writes, something else happens in this process.
void run_while(void (*happens)()) {
  varve::test::TemporaryFolder const folder;
  std::thread([&folder, happens] {
    while (folder.num_entries() == 0) std::this_thread::yield();
    happens();
  }).detach();
  run_varve({"generate", "images", "--neurons", "1024", "--samples", "10000000", "--output",
             (folder / "images.tsv").string()});
}

TEST(RunVarveDeathTest, ACommandThatEndsTheTestProgramNamesTheTest) {
  auto const sentence =
      "A command ended the test program in RunVarveDeathTest.ACommandThatEndsTheTestProgramNamesTheTest";
  EXPECT_EXIT(run_while([] { std::abort(); }), ::testing::KilledBySignal(SIGABRT), sentence);
  EXPECT_EXIT(run_while([] { raise(SIGSEGV); }), ::testing::KilledBySignal(SIGSEGV), sentence);
  EXPECT_EXIT(run_while([] { std::exit(0); }), ::testing::ExitedWithCode(1), sentence);
}

TEST(RunVarve, LeavesNothingToTheNextCommand) {
  varve::test::TemporaryFolder const folder;
  auto const network = (folder / "net.safetensors").string();
  auto const samples = (folder / "samples.safetensors").string();
  test::generate_small(network, samples, 3, 20);
  std::vector<std::string> const infer = {"infer", "--network", network, "--input", samples};
  auto const alone = succeed(infer, test::run_varve_process).out;
  auto const activations = [](std::string const& out) { return out.substr(out.find("survivors "), 60); };
  auto const without_seconds = [&](std::string const& out) {
    auto const line = activations(out);
    return line.substr(0, line.find(", in "));
  };
  for (std::vector<std::string> const& before :
       {std::vector<std::string>{"info", network}, {"infer"}, {"info", "/no/such/file"}, {"--version"}, infer}) {
    run_varve(before);
    EXPECT_EQ(without_seconds(succeed(infer).out), without_seconds(alone)) << ::testing::PrintToString(before);
  }
  std::ofstream(network, std::ios::app) << "other bytes";
  EXPECT_EQ(run_varve(infer).exit_code, 3) << "files of a command are not watched by the next";
  EXPECT_THAT(run_varve(infer).err, ::testing::Not(::testing::HasSubstr("changed while it was read")));
}

} // namespace
} // namespace varve
