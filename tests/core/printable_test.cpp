#include "core/printable.hpp"

#include <gtest/gtest.h>

#include <string>

namespace varve {
namespace {

using namespace std::string_literals;

TEST(Printable, TextStaysAsItIs) {
  for (std::string const text :
       {"", "net.safetensors", "a folder/Größe 網絡 🧠.safetensors", "C:\\n is no escape"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, WhatATerminalObeysIsEscaped) {
  EXPECT_EQ(printable("two\nlines\r\tand a tab"), "two\\nlines\\r\\tand a tab");
  EXPECT_EQ(printable("\x1b[2J\x07\x7f\0"s), "\\x1b[2J\\x07\\x7f\\x00");
  EXPECT_EQ(printable("\u009b31m"), "\\u{9b}31m");
  EXPECT_EQ(printable("a\u2028b\u202eh5.exe\u2066"), "a\\u{2028}b\\u{202e}h5.exe\\u{2066}");
}

TEST(Printable, BytesThatAreNoUtf8AreEscaped) {
  EXPECT_EQ(printable("\xff\xfe.safetensors"), "\\xff\\xfe.safetensors");
  EXPECT_EQ(printable("cut \xe2\x82"), "cut \\xe2\\x82");
  EXPECT_EQ(printable("overlong \xc0\xaf"), "overlong \\xc0\\xaf");
  EXPECT_EQ(printable("surrogate \xed\xa0\x80"), "surrogate \\xed\\xa0\\x80");
  EXPECT_EQ(printable("beyond \xf4\x90\x80\x80"), "beyond \\xf4\\x90\\x80\\x80");
}

TEST(Printable, LongTextLosesItsMiddle) {
  auto const text = std::string(3000, 'a') + std::string(2000, 'z');
  auto const shown = printable(text, 1000);
  EXPECT_LE(shown.size(), 1000U);
  EXPECT_TRUE(shown.starts_with("aaa") && shown.ends_with("zzz"));
  EXPECT_NE(shown.find(" ... "), std::string::npos);
  EXPECT_EQ(printable("short", 1000), "short");
  std::string wide;
  for (int turn = 0; turn < 100; ++turn) wide += "é";
  for (std::size_t most = 10; most < 40; ++most) EXPECT_EQ(printable(wide, most).find("\\x"), std::string::npos);
  for (std::size_t most = 10; most < 40; ++most) EXPECT_EQ(printable(printable(wide, most)), printable(wide, most));
}

} // namespace
} // namespace varve
