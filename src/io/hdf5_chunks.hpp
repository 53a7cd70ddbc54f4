#pragma once

#include "io/hdf5.hpp"
#include "io/matrix_block.hpp"

#include <cstdint>
#include <functional>
#include <span>

/// Reading of chunked lists and matrices without HDF5's filters, which run on one thread: chunks are read as they are
/// stored, and decoded by all host threads.
namespace varve::hdf5 {

/// Reads elements.size() numbers of a list from `first` on. Returns false, and leaves `elements` in any state, where
/// HDF5 has to read the list itself: its layout, type or filters are not known here, a chunk is missing or was stored
/// without a filter, or a chunk is corrupt, so that HDF5 says why.
///
/// `accepts` is called by the thread that decoded them with the numbers of each chunk, which lie in `elements`; the
/// result is false as well if a call returns false.
template <class Element>
bool read_chunks(Dataset const& dataset, std::uint64_t first, std::span<Element> elements,
                 std::function<bool(std::span<Element const>)> const& accepts = {});

/// The same for a block of a dataset of two dimensions of 32-bit or 64-bit floating point, whose numbers go to `values`
/// row by row. Element is the stored type. Also false if the chunks hold more than twice the numbers of the block: HDF5
/// keeps chunks for the next block.
template <class Element>
bool read_chunks(Dataset const& dataset, MatrixBlock const& block, Element* values);

} // namespace varve::hdf5
