#pragma once

#include "io/triple_block.hpp"
#include "io/triple_text.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

/// Builds the wanted rows of a sparse matrix from blocks of triples.
namespace varve {

/// The row after the last row of the matrix, if `largest_row` is the largest row index of the text, from 1.
std::uint64_t last_row(WantedRows const& wanted, std::uint64_t largest_row);

/// Builds the matrix of all blocks of a text, or of all that hold the wanted rows. With `parallel`, rows are sorted on
/// all host threads. Throws InputError with the line if a pair is given twice; the file is then read again.
TripleMatrix matrix_of_blocks(std::vector<TripleBlock> blocks, std::filesystem::path const& path,
                              TripleFormat const& format, std::size_t num_columns, WantedRows const& wanted,
                              bool parallel);

} // namespace varve
