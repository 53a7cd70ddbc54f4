#pragma once

#include "io/element_type.hpp"
#include "network/sparse_matrix.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace varve {

/// True if a file begins like a safetensors file: the length of a JSON text in 8 bytes, then the text. Throws
/// InputError, naming the file, if it cannot be read.
bool is_safetensors(std::filesystem::path const& path);

/// A safetensors file: named dense arrays, whose last index runs fastest.
class SafetensorsFile {
public:
  /// Reads the header, of up to 1 MiB. Throws InputError, naming the file, if it is broken or promises more than the
  /// file holds.
  explicit SafetensorsFile(std::filesystem::path path);

  /// A tensor of two dimensions, or with `transposes` its transpose; zeros are not stored. Throws InputError, naming
  /// file and tensor, if it is missing, has another number of dimensions, or elements that are no finite real numbers.
  SparseMatrix matrix(std::string const& name, bool transposes) const;

  /// A tensor of one dimension. Throws as matrix() does.
  std::vector<double> list(std::string const& name) const;

private:
  struct Tensor {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::uint64_t begin = 0; ///< place in the file, in bytes
    std::uint64_t size = 0;  ///< in bytes
  };

  Tensor const& find(std::string const& name, std::size_t num_dimensions) const;

  std::filesystem::path path_;
  std::map<std::string, Tensor> tensors_;
};

} // namespace varve
