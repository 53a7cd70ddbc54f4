#pragma once

#include "io/inflater.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <span>
#include <string>

/// What an Inflater does, with libdeflate and without.
namespace varve::testing {

inline std::string deflated(std::string const& text) {
  std::string bytes(compressBound(text.size()), '\0');
  uLongf size = bytes.size();
  EXPECT_EQ(compress2(reinterpret_cast<Bytef*>(bytes.data()), &size, reinterpret_cast<Bytef const*>(text.data()),
                      text.size(), 4),
            Z_OK);
  bytes.resize(size);
  return bytes;
}

inline void expect_inflates_exactly() {
  std::mt19937 random(5);
  std::string text(100000, ' ');
  for (auto& letter : text) letter = static_cast<char>(random() % 20);
  auto const bytes = deflated(text);
  Inflater inflater;
  std::string inflated(text.size(), '\0');
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(inflater.inflate(bytes, inflated));
    EXPECT_EQ(inflated, text);
    std::string longer(text.size() + 1, '\0');
    EXPECT_FALSE(inflater.inflate(bytes, longer));
    EXPECT_FALSE(inflater.inflate(bytes, std::span(inflated).first(text.size() - 1)));
    EXPECT_FALSE(inflater.inflate(std::span(bytes).first(bytes.size() - 1), inflated));
    EXPECT_FALSE(inflater.inflate(std::span(bytes).first(0), inflated));
    auto corrupt = bytes;
    corrupt.back() = static_cast<char>(corrupt.back() ^ 1); // a byte of the sum
    EXPECT_FALSE(inflater.inflate(corrupt, inflated));
  }
}

} // namespace varve::testing
