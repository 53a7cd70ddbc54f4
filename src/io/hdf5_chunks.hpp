#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <span>

/// Reading of chunked lists without HDF5's filters, which run on one thread: chunks are read as they are stored, and
/// decoded by all host threads.
namespace varve::hdf5 {

/// Reads elements.size() numbers of a list from `first` on. Returns false, and leaves `elements` in any state, where
/// HDF5 has to read the list itself: its layout, type or filters are not known here, a chunk is missing or was stored
/// without a filter, or a chunk is corrupt, so that HDF5 says why.
template <class Element>
bool read_chunks(Dataset const& dataset, std::uint64_t first, std::span<Element> elements);

} // namespace varve::hdf5
