#pragma once

#include "core/error.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace varve::test {

/// A new folder that disappears with its owner.
class TemporaryFolder {
public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "varve-io-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder can be made");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;

  std::filesystem::path const& path() const { return path_; }
  std::filesystem::path operator/(std::string const& name) const { return path_ / name; }

  /// Number of files and folders in it, at any depth.
  std::ptrdiff_t num_entries() const {
    std::filesystem::recursive_directory_iterator const begin(path_);
    return std::distance(begin, std::filesystem::recursive_directory_iterator());
  }

private:
  std::filesystem::path path_;
};

inline std::filesystem::path write_bytes(std::filesystem::path const& path, std::string const& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

inline std::string read_bytes(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The sentence of the error that `work` must throw, of exactly this type.
template <class ErrorType, class Work>
std::string sentence_of(Work const& work) {
  try {
    work();
  } catch (ErrorType const& error) {
    return error.what();
  } catch (std::exception const& error) {
    ADD_FAILURE() << "an error of another type: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error";
  return {};
}

/// The sentence of the InputError that reading a file must throw, after the name of the file, with which it must begin.
template <class Read>
std::string sentence_about(std::filesystem::path const& path, Read const& read) {
  auto const sentence = sentence_of<InputError>(read);
  EXPECT_EQ(sentence.find(path.string()), 0U) << sentence;
  return sentence.substr(std::min(sentence.size(), path.string().size()));
}

/// Expects that `text` holds `part`.
inline void expect_holds(std::string const& text, std::string const& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "the text \"" << text << "\" lacks \"" << part << "\"";
}

} // namespace varve::test
