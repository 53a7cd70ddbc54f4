#include "apps/subprocess.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace varve {
namespace {

using test::run;
using test::run_varve;
using test::succeed;
using ::testing::HasSubstr;

std::string document(std::string const& kind) { return succeed({"--document", kind}).out; }

/// The options "--NAME" that the help of a command lists.
std::set<std::string> options_in_help(std::vector<std::string> command) {
  command.emplace_back("--help-all");
  auto const help = succeed(command).out;
  std::set<std::string> options;
  std::regex const name("(^|\n)  (-[a-z],)?(--[a-z0-9-]+)");
  for (std::sregex_iterator found(help.begin(), help.end(), name), end; found != end; ++found)
    options.insert((*found)[3].str());
  return options;
}

TEST(Documents, ManPageHoldsEveryOption) {
  auto const page = document("man");
  EXPECT_TRUE(page.starts_with(".TH VARVE 1"));
  std::vector<std::vector<std::string>> const commands = {{"infer"},
                                                          {"convert"},
                                                          {"info"},
                                                          {"train"},
                                                          {"verify"},
                                                          {"evaluate"},
                                                          {"generate", "radixnet"},
                                                          {"generate", "images"},
                                                          {"generate", "random"},
                                                          {"generate", "weights"}};
  for (auto const& command : commands) {
    std::string heading = "VARVE";
    for (auto const& word : command) heading += " " + word;
    for (auto& letter : heading) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    auto const begin = page.find(".SH \"" + heading + "\"");
    ASSERT_NE(begin, std::string::npos) << heading;
    auto const section = page.substr(begin, page.find("\n.SH ", begin) - begin);
    auto const options = options_in_help(command);
    EXPECT_GE(options.size(), 2U) << heading;
    for (auto const& option : options) {
      auto const escaped = std::regex_replace(option, std::regex("-"), R"(\-)");
      EXPECT_THAT(section, HasSubstr(escaped)) << heading;
    }
  }
}

/// What bash completes after these words; the last may be empty.
std::string completed(std::string const& script, std::string const& words, int count) {
  varve::test::TemporaryFolder const folder;
  auto const file = (folder / "completion").string();
  std::ofstream(file) << script << "\nCOMP_WORDS=(" << words << ")\nCOMP_CWORD=" << count
                      << "\n_varve\necho \"${COMPREPLY[*]}\"\n";
  auto const ended = run({"bash", file});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  return ended.out;
}

TEST(Documents, BashCompletesCommandsOptionsAndValues) {
  auto const script = document("bash");
  EXPECT_EQ(completed(script, "varve inf", 1), "infer info\n");
  EXPECT_EQ(completed(script, "varve infer --netw", 2), "--network\n");
  EXPECT_EQ(completed(script, "varve generate rad", 2), "radixnet\n");
  EXPECT_EQ(completed(script, "varve evaluate --loss cr", 3), "cross-entropy\n");
  EXPECT_EQ(completed(script, "varve infer --network ''", 3), "\n") << "left to the completion of files";
}

TEST(Documents, BashLeavesThePlacesOfFilesToTheCompletionOfFiles) {
  auto const script = document("bash");
  for (char const* const command : {"convert", "info"}) {
    EXPECT_EQ(completed(script, std::string("varve ") + command + " ''", 2), "\n") << command;
    EXPECT_EQ(completed(script, std::string("varve ") + command + " file --he", 3), "--help --help-all\n") << command;
  }
}

TEST(Documents, BashCompletesValuesBehindAnEqualsSign) {
  auto const script = document("bash");
  EXPECT_EQ(completed(script, "varve infer --precision =", 3), "float double\n");
  EXPECT_EQ(completed(script, "varve infer --precision = d", 4), "double\n");
  EXPECT_EQ(completed(script, "varve infer --precision=fl", 2), "--precision=float\n");
  EXPECT_EQ(completed(script, "varve infer --network =", 3), "\n") << "left to the completion of files";
}

TEST(Documents, BashCompletesTheNamesThatTheCommandTakes) {
  auto const script = document("bash");
  EXPECT_THAT(completed(script, "varve infer --backend ''", 3), HasSubstr("serial"));
  EXPECT_EQ(completed(script, "varve infer --edge-order a", 3), "ascending\n");
  EXPECT_EQ(completed(script, "varve infer --reductions me", 3), "merge_neurons\n");
  EXPECT_EQ(completed(script, "varve train --optimizer ''", 3), "sgd momentum nesterov adam adamw\n");
  EXPECT_EQ(completed(script, "varve train --pattern ''", 3), "keep set rigl\n");
  EXPECT_EQ(completed(script, "varve train --rate-schedule c", 3), "constant cosine\n");
  EXPECT_EQ(completed(script, "varve --document ''", 2), "man bash\n");
}

TEST(Documents, OtherKindsAreErrors) {
  auto const refused = run_varve({"--document", "html"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("there is no document 'html'; there are: man, bash"));
  EXPECT_EQ(run_varve({"--document"}).exit_code, 2);
}

} // namespace
} // namespace varve
