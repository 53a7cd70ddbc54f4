#pragma once

#include "io/text_file.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <iterator>

namespace varve {

/// Writes lines of three numbers, separated by tabs, through a buffer of bounded size.
class TripleWriter {
public:
  explicit TripleWriter(std::filesystem::path const& path, Appears appears = Appears::by_itself)
      : file_(path, appears) {}

  void write(std::uint64_t first, std::uint64_t second, double value) {
    fmt::format_to(std::back_inserter(text_), "{}\t{}\t{}\n", first, second, value);
    if (text_.size() > 1 << 20) flush();
  }

  void commit() {
    flush();
    file_.commit();
  }

private:
  void flush() {
    file_.write({text_.data(), text_.size()});
    text_.clear();
  }

  TextWriter file_;
  fmt::memory_buffer text_;
};

} // namespace varve
