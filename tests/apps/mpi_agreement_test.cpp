#include "apps/shared_folder.hpp"

#include "io/dense_file.hpp"
#include "products/plain_product.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace varve {
namespace {

namespace fs = std::filesystem;
using test::Ended;
using test::run;
using test::succeed;
using ::testing::HasSubstr;
using varve::test::write_bytes;

/// Ranks whose command lines or files of one name differ, as where each node has copies on its own disk. Rank 0 is in
/// the folder `same`; each difference has a folder like it in which one file is another.
class Agreement : public test::SharedFolder<Agreement> {
public:
  static void make_files() {
    fs::create_directory(path("same"));
    make_network("same/net.safetensors", "4", "1");
    make_samples("same/s.safetensors", "300", "1");
    make_matrix("same/a.safetensors", 1);
    make_matrix("same/b.safetensors", 2);
    succeed({"convert", path("same/net.safetensors"), path("same/net.tsv")});
    write_bytes(path("same/labels.txt"), labels(7));
    write_bytes(path("same/truth.tsv"), "1\n2\n");
    for (std::string const difference :
         {"copies", "weights", "depth", "samples", "number", "matrix", "second", "labels", "text", "truth", "state"})
      fs::copy(path("same"), path(difference), fs::copy_options::recursive);
    make_network("weights/net.safetensors", "4", "9");
    make_network("depth/net.safetensors", "5", "1");
    make_samples("samples/s.safetensors", "300", "9");
    make_samples("number/s.safetensors", "200", "1");
    make_matrix("matrix/a.safetensors", 9);
    make_matrix("second/b.safetensors", 9);
    write_bytes(path("truth/truth.tsv"), "1\n3\n");
    succeed({"train", "--network", path("state/net.safetensors"), "--input", path("state/s.safetensors"), "--labels",
             path("state/labels.txt"), "--output", path("out.safetensors"), "--epochs", "1", "--rate-schedule",
             "constant", "--checkpoint", path("state/state.safetensors")});
    write_bytes(path("labels/labels.txt"), labels(11));
    fs::rename(path("text/net.tsv/n64-l2.tsv"), path("text/n64-l3.tsv"));
    fs::rename(path("text/net.tsv/n64-l3.tsv"), path("text/net.tsv/n64-l2.tsv"));
    fs::rename(path("text/n64-l3.tsv"), path("text/net.tsv/n64-l3.tsv"));
  }

protected:
  static void make_network(std::string const& name, std::string const& layers, std::string const& seed) {
    fs::remove(path(name));
    succeed({"generate", "random", "--neurons", "64", "--layers", layers, "--degree", "8", "--seed", seed, "--bias",
             "-0.1", "--cap", "32", "--output", path(name)});
  }
  static void make_samples(std::string const& name, std::string const& number, std::string const& seed) {
    fs::remove(path(name));
    succeed({"generate", "samples", "--neurons", "64", "--samples", number, "--density", "0.5", "--seed", seed,
             "--output", path(name)});
  }
  static void make_matrix(std::string const& name, unsigned seed) {
    auto const matrix = test::random_dense<float>(90, 90, seed);
    DenseFileWriter writer(path(name), matrix.num_rows, matrix.num_columns, Precision::single_precision);
    writer.write({0, matrix.num_rows, 0, matrix.num_columns}, matrix.values.data());
    writer.commit();
  }
  static std::string labels(int factor) {
    std::string text;
    for (int sample = 0; sample < 300; ++sample) text += std::to_string(sample * factor % 64) + "\n";
    return text;
  }

  /// A line of the shell that runs the command in this folder.
  static std::string in_folder(std::string const& folder, std::string const& command) {
    return "cd " + test::quoted(path(folder)) + " && exec " + test::quoted(VARVE_COMMAND) + " " + command;
  }

  /// The first ranks run the first command in the folder `same`, one more runs the second one in another folder.
  static Ended run_both(int num_ranks, std::string const& first, std::string const& other, std::string const& second) {
    auto const command = [&](int count, std::string const& folder, std::string const& options) {
      return std::vector<std::string>{VARVE_MPIRUN_RANKS, std::to_string(count), "sh", "-c",
                                      in_folder(folder, options)};
    };
    auto words = test::joined({VARVE_MPIRUN}, command(num_ranks - 1, "same", first));
    words.emplace_back(":");
    return run(test::joined(words, command(1, other, second)));
  }

  static void expect_refusal(Ended const& ended, int exit_code, std::string const& part, std::string const& where) {
    EXPECT_EQ(ended.exit_code, exit_code) << where << ended.err;
    auto lines = ended.complaints(); // mpirun adds words of its own
    std::erase_if(lines, [](std::string const& line) { return !line.starts_with("varve: "); });
    ASSERT_EQ(lines.size(), 1U) << where << ended.err;
    EXPECT_THAT(lines.front(), HasSubstr(part)) << where;
  }

  static inline std::string const infer =
      "infer --network net.safetensors --input s.safetensors --tuning share-devices=on";
  static inline std::string const multiply = "multiply a.safetensors b.safetensors --tile 32 --tuning share-devices=on";
  static inline std::string const train = "train --network net.safetensors --input s.safetensors --labels labels.txt "
                                          "--output out.safetensors --tuning share-devices=on";
};

/// Each case has 2, 3 or 4 ranks in turn; with VARVE_ALL_RANKS in the environment all of them, and prints a line each.
TEST_F(Agreement, OtherFilesOfOneNameAreRefused) {
  std::string const weights = "of --network net.safetensors is ";
  std::string const samples = "of --input s.safetensors is ";
  std::vector<std::tuple<std::string, std::string, std::string>> cases;
  for (std::string const way :
       {" --tuning schedule=static", " --tuning schedule=dynamic", " --split neurons", " --journal run.journal"}) {
    cases.emplace_back(infer + way, "weights", weights);
    cases.emplace_back(infer + way, "depth", "the number of layers is 5 here and 4 on rank 0");
    cases.emplace_back(infer + way, "samples", samples);
    cases.emplace_back(infer + way, "number", "the number of samples is 200 here and 300 on rank 0");
  }
  cases.emplace_back("infer --network net.tsv --input s.safetensors --text bias=-0.1,cap=32 --tuning share-devices=on",
                     "text", "of --network net.tsv is ");
  cases.emplace_back(infer + " --truth truth.tsv", "truth", "of --truth truth.tsv is ");
  for (std::string const way : {"", " --journal product.journal --output c.safetensors"}) {
    cases.emplace_back(multiply + way, "matrix", "of A a.safetensors is ");
    cases.emplace_back(multiply + way, "second", "of B b.safetensors is ");
  }
  cases.emplace_back("multiply a.safetensors a.safetensors --add b.safetensors --tuning share-devices=on", "second",
                     "of --add b.safetensors is ");
  cases.emplace_back(train, "weights", "network hash of the recipe is ");
  cases.emplace_back(train, "depth", "network hash of the recipe is ");
  cases.emplace_back(train, "samples", "of the recipe is ");
  cases.emplace_back(train, "labels", "answers hash of the recipe is ");
  cases.emplace_back(train + " --epochs 2 --rate-schedule constant --checkpoint state.safetensors", "state",
                     "the number of steps taken is 3 here and 0 on rank 0");
  cases.emplace_back(train + " --validation s.safetensors --validation-labels labels.txt", "labels",
                     "answers hash of the recipe is ");
  bool const takes_all = std::getenv("VARVE_ALL_RANKS") != nullptr;
  int number = 0;
  for (auto const& [command, difference, part] : cases) {
    ++number;
    for (int num_ranks = 2; num_ranks <= 4; ++num_ranks) {
      if (!takes_all && num_ranks != 2 + number % 3) continue;
      auto const ended = run_both(num_ranks, command, difference, command);
      expect_refusal(ended, 3, part, command + ", " + difference + ": ");
      EXPECT_THAT(ended.err, HasSubstr("all ranks must read the same files"));
      if (takes_all)
        std::printf("%s | %s | %d ranks | %d\n", command.c_str(), difference.c_str(), num_ranks, ended.exit_code);
    }
  }
}

TEST_F(Agreement, ValidationOfOneNameIsCompared) { // it is no part of the recipe
  fs::copy(path("same/s.safetensors"), path("same/v.safetensors"));
  fs::copy(path("samples/s.safetensors"), path("copies/v.safetensors"));
  auto const command = train + " --validation v.safetensors --validation-labels labels.txt";
  expect_refusal(run_both(3, command, "copies", command), 3, "of --validation v.safetensors is ", "");
}

TEST_F(Agreement, CopiesOfOneContentAreTaken) {
  for (auto const& [command, mark] : {std::pair(infer, "activations"), std::pair(multiply, "hash")}) {
    auto const line = [&, &shown = mark](Ended const& ended) {
      EXPECT_EQ(ended.exit_code, 0) << ended.err;
      return ended.out.substr(std::min(ended.out.find(shown), ended.out.size())).substr(0, 40);
    };
    auto const one = line(run({"sh", "-c", in_folder("same", command)}));
    EXPECT_NE(one, "");
    EXPECT_EQ(line(run_both(3, command, "copies", command)), one);
  }
  EXPECT_EQ(run_both(2, train, "copies", train).exit_code, 0);
}

TEST_F(Agreement, OtherOptionsAreRefused) {
  for (auto const& [command, option, part] :
       {std::tuple(infer, " --reductions none", "--reductions is none here and auto on rank 0"),
        std::tuple(infer, " --tuning exchange=host,kernel=direct",
                   "--tuning is share-devices=on exchange=host here and share-devices=on on rank 0"),
        std::tuple(multiply, " --transpose a", "--transpose is a here and not given on rank 0"),
        std::tuple(infer, " --text cap=3", "--text is cap=3 here and not given on rank 0"),
        std::tuple(train, " --rate 0.1", "--rate is 0.1 here and not given on rank 0")})
    expect_refusal(run_both(2, command, "same", command + option), 2, part, command + option);
}

TEST_F(Agreement, OtherCommandsAreRefused) {
  for (auto const& [first, second, part] :
       {std::tuple(infer, std::string("info net.safetensors"), "the command is info here and infer on rank 0"),
        std::tuple(infer, multiply, "the command is multiply here and infer on rank 0"),
        std::tuple(train, infer, "the command is infer here and train on rank 0"),
        std::tuple(multiply, std::string("--help"), "the command is --help or --version here and multiply on rank 0")})
    expect_refusal(run_both(3, first, "same", second), 2, part, first + " : " + second);
}

TEST_F(Agreement, CommandsOfOneRankSaySo) {
  for (std::string const command :
       {"info net.safetensors", "convert net.safetensors other.safetensors",
        "generate images --neurons 64 --output i.safetensors",
        "verify --network net.safetensors --input s.safetensors --result s.safetensors",
        "evaluate --network net.safetensors --input s.safetensors --labels labels.txt",
        "audit receipt.json --network net.safetensors --input s.safetensors", "benchmark --suite quick"}) {
    auto const name = command.substr(0, command.find(' '));
    expect_refusal(run_both(2, command, "same", command), 2, "varve " + name + " runs as one rank", "");
  }
}

} // namespace
} // namespace varve
