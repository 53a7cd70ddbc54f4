#pragma once

#include "io/hdf5.hpp"

#include <cstdint>
#include <string>

/// Checks of how the numbers of an HDF5 file are stored. HDF5 trusts what a file says of that: reading a dataset that
/// fails one of these checks can overwrite memory, take gigabytes, or read another file.
namespace varve::hdf5 {

/// Chunks of a selection, for each of which HDF5 keeps up to 512 bytes.
inline constexpr std::uint64_t chunks_at_once = std::uint64_t{1} << 16U;

inline bool is_number(H5T_class_t type) { return type == H5T_INTEGER || type == H5T_FLOAT; }

/// Throws InputError "PLACE: ..." unless a type of numbers is one that computers use: integers of 1 to 8 bytes, IEEE
/// numbers of 2, 4 or 8 bytes in either byte order, or this machine's long double.
void require_standard(Datatype const& type, std::string const& place);

/// Throws InputError if a dataset takes its data from other files: they may change while this file does not.
/// what: the dataset in the message.
void require_own_storage(Properties const& properties, std::string const& what, std::string const& place);

/// Throws InputError "PLACE: ..." if a dataset lies within its header (compact storage), and the header holds another
/// number of bytes than the dataset has; or if it lies in one piece that goes beyond the end that the file states: HDF5
/// 1.10 reads such a dataset as a whole without an error, and with other numbers than column by column.
void require_whole(Dataset const& dataset, Properties const& properties, std::string const& place);

/// Throws InputError "PLACE: ..." if reading any part of a list takes far more memory than the list holds: its chunks
/// are much larger than the list, or most of its elements or of very many chunks were never written. `properties` is
/// the creation property list of the dataset, whose chunks must have `num_dimensions` dimensions.
void require_modest(Dataset const& dataset, Properties const& properties, std::string const& place,
                    int num_dimensions = 1);

/// The bytes of the file of a dataset; 0 if HDF5 does not know them.
hsize_t size_of_file(Dataset const& dataset);

} // namespace varve::hdf5
