#include "plan/names.hpp"

#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace varve {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <class Call>
std::string sentence_of(Call const& call) {
  try {
    call();
  } catch (UsageError const& error) {
    return error.what();
  }
  return "no error";
}

TEST(FormatNames, AreParsedInAnyOrder) {
  EXPECT_TRUE(parse_formats("auto").empty());
  EXPECT_EQ(parse_formats("csr"), std::vector<FormatName>{FormatName::csr});
  EXPECT_EQ(parse_formats("sliced_ell,pattern_blocks,staged_blocks"),
            (std::vector<FormatName>{FormatName::sliced_ell, FormatName::pattern_blocks, FormatName::staged_blocks}));
  for (std::string const wrong : {"full", "", "csr,", "csr,auto", "CSR"})
    EXPECT_THAT(sentence_of([&] { parse_formats(wrong); }), HasSubstr("csr")) << wrong;
}

TEST(FormatNames, OfAllFormatsAreParsedBack) {
  for (auto const& entry : all_formats) {
    EXPECT_EQ(parse_formats(to_string(entry.format)), std::vector<FormatName>{entry.format});
    EXPECT_EQ(&entry_of(entry.format), &entry);
  }
}

TEST(KernelNames, AreParsedBackIfTheyCanBeAskedFor) {
  for (auto const& entry : all_kernels) {
    EXPECT_EQ(&entry_of(entry.kernel), &entry);
    if (entry.can_be_asked_for) {
      EXPECT_EQ(parse_kernel(to_string(entry.kernel)), entry.kernel);
    } else {
      EXPECT_THAT(sentence_of([&] { parse_kernel(entry.name); }),
                  AllOf(HasSubstr("there is no kernel"), HasSubstr("direct, stationary"), Not(HasSubstr("counts,"))));
    }
  }
  EXPECT_THAT(sentence_of([] { parse_kernel("magic"); }), AllOf(HasSubstr("magic"), HasSubstr("direct")));
}

} // namespace
} // namespace varve
