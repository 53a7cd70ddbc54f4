#include "apps/subprocess.hpp"

#include "core/backend.hpp"
#include "core/version.hpp"
#include "io/dense_file.hpp"
#include "reference/tie_network.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace varve {
namespace {

using ::testing::HasSubstr;
using varve::test::read_bytes;
using varve::test::TemporaryFolder;

std::string golden(std::string const& name) { return std::string(VARVE_GOLDEN_DIR) + "/" + name; }

/// A file of the checkout by its path there.
std::filesystem::path in_checkout(std::string const& path) { return std::filesystem::path(VARVE_CHECKOUT) / path; }

/// The pages for readers.
std::vector<std::string> pages() {
  std::vector<std::string> found = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "src/io/FORMAT.md",
                                    "tests/fuzz/README.md"};
  for (char const* const folder : {"docs", "perf", "perf/results", "perf/tried"})
    for (auto const& file : std::filesystem::directory_iterator(in_checkout(folder)))
      if (file.path().extension() == ".md")
        found.push_back(std::string(folder) + "/" + file.path().filename().string());
  return found;
}

/// The lines of a block of code behind a heading of a page.
std::vector<std::string> block_behind(std::string const& page, std::string const& heading, int number = 1) {
  auto const text = "\n" + read_bytes(in_checkout(page));
  auto place = text.find("\n" + heading + "\n");
  EXPECT_NE(place, std::string::npos) << heading;
  for (int fence = 0; fence < 2 * number - 1; ++fence) place = text.find("\n```", place + 1);
  auto const begin = text.find('\n', place + 1) + 1;
  std::istringstream block(text.substr(begin, text.find("\n```", begin) - begin));
  std::vector<std::string> lines;
  for (std::string line; std::getline(block, line);) lines.push_back(line);
  return lines;
}

std::string replaced(std::string text, std::vector<std::pair<std::string, std::string>> const& replacements) {
  for (auto const& [expression, replacement] : replacements)
    text = std::regex_replace(text, std::regex(expression), replacement);
  return text;
}

/// The same command on little data. What a page leaves out ("...") is a network and samples.
std::string on_little_data(std::string command) {
  auto const fastest = compiled_backends().front();
  auto const backend = to_string(fastest);
  auto const shared = has_own_memory(fastest) ? std::string(" --tuning share-devices=on") : std::string();
  return replaced(std::move(command), {{" *#.*", ""},
                                       {"\\.\\.\\.", "--network net.safetensors --input images.safetensors"},
                                       {"--layers 120", "--layers 8"},
                                       {"--text layers=120", "--text layers=8"},
                                       {"--samples (60000|10000)", "--samples 200"},
                                       {"--widths 784 512 512 10", "--widths 784 32 10"},
                                       {"--epochs 5", "--epochs 2"},
                                       {"-ubyte\\.gz", "-ubyte"},
                                       {"--tuning repeat-input=1000", "--tuning repeat-input=3"},
                                       {"--backend cuda", "--backend " + backend},
                                       {"--backend openmp", "--backend serial"},
                                       {"16384", "1024"},
                                       {"mpirun (.*)", std::string(VARVE_MPIRUN) + " $1" + shared}});
}

/// Runs a command in a folder: in this process, unless it needs a shell or ranks.
test::Ended run_in(std::filesystem::path const& folder, std::string const& command) {
  if (!std::regex_match(command, std::regex("varve [-\\w ./,:=]*"))) {
    auto const line = replaced(command, {{"\\bvarve (?=[a-z])", test::quoted(VARVE_COMMAND) + " "}});
    return test::run({"bash", "-c", "cd " + folder.string() + " && " + line});
  }
  std::istringstream text(command);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  words.erase(words.begin());
  auto const before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  auto ended = test::run_varve(words);
  std::filesystem::current_path(before);
  return ended;
}

/// Writes IDX files of the names that the pages use: 60 images of 28 x 28 pixels, bright where their class is.
void write_idx(std::string const& folder, std::string const& name) {
  std::string images("\0\0\x08\x03\0\0\0\x3c\0\0\0\x1c\0\0\0\x1c", 16);
  std::string labels("\0\0\x08\x01\0\0\0\x3c", 8);
  for (int image = 0; image < 60; ++image) {
    int const label = image % 10;
    labels += static_cast<char>(label);
    for (int pixel = 0; pixel < 28 * 28; ++pixel) images += pixel / 79 == label ? '\x7f' : '\0';
  }
  varve::test::write_bytes(folder + "/" + name + "-images-idx3-ubyte", images);
  varve::test::write_bytes(folder + "/" + name + "-labels-idx1-ubyte", labels);
}

/// A matrix of 20 x 20 numbers for the commands about products.
void write_square_matrix(std::string const& path) {
  std::vector<double> values(20 * 20);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.5 * static_cast<double>(i % 17) - 3.0;
  DenseFileWriter writer(path, 20, 20, Precision::double_precision);
  writer.write({0, 20, 0, 20}, values.data());
  writer.commit();
}

TEST(Pages, TheirCommandsRunOnLittleData) {
  TemporaryFolder const folder;
  auto const path = [&](std::string const& name) { return (folder / name).string(); };
  std::filesystem::create_directory_symlink(golden("neuron1024"), path("neuron1024"));
  std::filesystem::create_symlink(golden("neuron1024-l120-categories.tsv"), path("neuron1024-l120-categories.tsv"));
  test::succeed(
      {"convert", golden("sparse-images-1024.tsv.gz"), path("sparse-images-1024.tsv.zst"), "--text", "neurons=1024"});

  for (char const* const name : {"train", "t10k"}) write_idx(folder.path().string(), name);
  for (char const* const name : {"A.safetensors", "B.safetensors", "C0.safetensors"}) write_square_matrix(path(name));

  std::map<std::string, int> commands; // how often each subcommand was run
  int num_compared = 0;
  std::vector<std::pair<std::string, std::string>> const blocks = {
      {"README.md", "## Use"},
      {"docs/getting-started.md", "## The commands"},
      {"docs/numerics.md", "## Checking a result"},
      {"docs/cluster.md", "## Ranks, journal, memory"},
      {"docs/training.md", "## From images to a pruned network"},
      {"docs/benchmarks.md", "## Commands"},

      {"docs/products.md", "## The command"}};
  for (auto const& [page, heading] : blocks) {
    std::string result_above;
    for (auto const& line : block_behind(page, heading)) {
      auto const command = on_little_data(line);
      auto const ended = run_in(folder.path(), command);
      EXPECT_EQ(ended.exit_code, 0) << line << "\n" << command << "\n" << ended.out << ended.err;
      std::smatch subcommand;
      ASSERT_TRUE(std::regex_search(line, subcommand, std::regex("varve ([a-z]+)"))) << line;
      ++commands[subcommand[1]];

      std::smatch result;
      std::regex_search(ended.out, result, std::regex("survivors .* activations [0-9a-f]{16}"));
      if (line.find("the same hash as the command above") != std::string::npos) {
        EXPECT_EQ(result.str(), result_above) << line;
        EXPECT_NE(result.str(), "") << line;
        ++num_compared;
      }
      result_above = result.str();
    }
  }
  EXPECT_EQ(commands["generate"], 10);
  EXPECT_GE(commands["infer"], 14);
  for (char const* const subcommand : {"benchmark", "convert", "evaluate", "info", "multiply", "train", "verify"})
    EXPECT_GE(commands[subcommand], 1) << subcommand;
  EXPECT_EQ(num_compared, 1);
}

/// Without what differs from run to run and from machine to machine.
std::string lasting(std::string const& line) {
  return replaced(line, {{", in [0-9.]+ m?u?s$", ""}, {" [^ ]*/(neuron1024|sparse-images)", " .../$1"}});
}

TEST(Readme, ItsExampleIsWhatIsPrinted) {
  auto const backends = compiled_backends();
  auto const backend = std::ranges::find(backends, Backend::openmp) != backends.end() ? "openmp" : "serial";
  auto const ended =
      test::succeed({"infer", "--network", golden("neuron1024"), "--input", golden("sparse-images-1024.tsv.gz"),
                     "--truth", golden("neuron1024-l120-categories.tsv"), "--backend", backend});
  std::string printed;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) printed += lasting(line) + "\n";
  int num_checked = 0;
  for (auto const& line : block_behind("README.md", "# Varve", 2)) {
    if (line == "..." || line.starts_with("engine ")) continue; // the engine's line names this machine
    EXPECT_THAT(printed, HasSubstr(lasting(line) + "\n"));
    ++num_checked;
  }
  EXPECT_GE(num_checked, 7);
}

TEST(Readme, ThousandsOfLayersGiveTheReferencesBits) {
  TemporaryFolder const folder;
  auto const path = [&](std::string const& name) { return (folder / name).string(); };
  test::succeed({"generate", "random", "--neurons", "64", "--layers", "3000", "--degree", "4", "--init", "gain=2",
                 "--output", path("net.safetensors")});
  test::succeed({"generate", "samples", "--neurons", "64", "--samples", "20", "--output", path("samples.safetensors")});
  auto const result = [&](std::string const& engine) {
    test::succeed({"infer", "--network", path("net.safetensors"), "--input", path("samples.safetensors"), "--tuning",
                   "engine=" + engine, "--reductions", "none", "--report", path("report.json")});
    auto const report = nlohmann::json::parse(read_bytes(path("report.json")));
    EXPECT_EQ(report["network"]["layers"], 3000);
    return std::pair(report["survivors"].get<int>(), report["activation_hash"].get<std::string>());
  };
  auto const reference = result("reference");
  EXPECT_EQ(result("varve"), reference);
  EXPECT_GT(reference.first, 0) << "nothing is left to compare";
}

TEST(Pages, ContributingNamesTheFoldersInTheirOrder) {
  auto const folders = read_bytes(in_checkout("cmake/folders.cmake"));
  std::smatch found;
  ASSERT_TRUE(std::regex_search(folders, found, std::regex("VARVE_FOLDERS ([a-z ]+)")));
  EXPECT_THAT(read_bytes(in_checkout("CONTRIBUTING.md")), HasSubstr("\nsrc/" + found[1].str() + "\n"));
}

TEST(Pages, GettingStartedNamesEveryPreset) {
  auto const text = read_bytes(in_checkout("docs/getting-started.md"));
  int num_presets = 0;
  for (auto const& file : std::filesystem::directory_iterator(in_checkout("cmake/presets"))) {
    auto const contents = nlohmann::json::parse(read_bytes(file.path()));
    for (auto const& preset : contents["configurePresets"]) {
      if (preset.value("hidden", false)) continue;
      EXPECT_THAT(text, HasSubstr(fmt::format("`{}`", preset["name"].get<std::string>())));
      ++num_presets;
    }
  }
  EXPECT_GE(num_presets, 7);
}

TEST(Readme, ItsLinesOfCMakeAreThoseOfTheExample) {
  auto const example = read_bytes(in_checkout("tests/install/example/CMakeLists.txt"));
  auto const lines = block_behind("README.md", "## Install", 2);
  EXPECT_GE(lines.size(), 2U);
  for (auto const& line : lines) EXPECT_THAT(example, HasSubstr(line + "\n"));
}

TEST(Pages, TheProgramOfLibraryIsTheTestedOne) {
  auto const program = read_bytes(in_checkout("tests/install/example/main.cpp"));
  std::string text;
  for (auto const& line : block_behind("docs/library.md", "## Ten minutes")) text += line + "\n";
  EXPECT_TRUE(program.ends_with("\n" + text)) << text;
  EXPECT_GE(text.size(), 500U);
  auto const lines = block_behind("docs/library.md", "## Install and link", 2);
  ASSERT_EQ(lines.size(), 2U);
  auto const project = read_bytes(in_checkout("tests/install/example/CMakeLists.txt"));
  for (auto const& line : lines) EXPECT_THAT(project, HasSubstr(replaced(line, {{" *#.*", ""}}) + "\n"));
}

TEST(Pages, LibraryNamesEveryPublicHeader) {
  auto const text = read_bytes(in_checkout("docs/library.md"));
  int num_headers = 0;
  for (auto const& header : std::filesystem::directory_iterator(in_checkout("include/varve"))) {
    EXPECT_THAT(text, HasSubstr("varve/" + header.path().filename().string()));
    ++num_headers;
  }
  EXPECT_GE(num_headers, 12);
}

/// tests/apps/verify_test.cpp runs this tie.
TEST(Pages, TheTieInNumericsIsTheTestedOne) {
  auto const text = replaced(read_bytes(in_checkout("docs/numerics.md")), {{"\\s+", " "}});
  auto const& tie = test::kTies.front();
  EXPECT_THAT(text,
              HasSubstr(fmt::format("three equal neurons of value {} are read with weights {}, {} and {} and bias {}",
                                    tie.x, tie.weights[0], tie.weights[1], tie.weights[2], tie.bias)));
}

TEST(Pages, TheVersionIsThatOfTheBuild) {
  auto const version = std::string(provenance.version);
  EXPECT_THAT(read_bytes(in_checkout("CITATION.cff")), HasSubstr("\nversion: " + version + "\n"));
  EXPECT_THAT(read_bytes(in_checkout("CHANGELOG.md")), HasSubstr("\n## [" + version + "]"));
}

TEST(Pages, TheFilesAndFoldersTheyNameExist) {
  std::regex const link("\\]\\(([^):#]+)(?:#[^)]*)?\\)|`((?:src|perf|env|tests|docs)/[^` ]*)`");
  int num_found = 0;
  for (auto const& page : pages()) {
    auto const text = read_bytes(in_checkout(page));
    auto const folder = in_checkout(page).parent_path();
    for (std::sregex_iterator found(text.begin(), text.end(), link), end; found != end; ++found, ++num_found) {
      auto const name = (*found)[1].matched ? folder / (*found)[1].str() : in_checkout((*found)[2].str());
      EXPECT_TRUE(std::filesystem::exists(name)) << page << ": " << name;
    }
  }
  EXPECT_GE(num_found, 30);
}

} // namespace
} // namespace varve
