#pragma once

/// \file
/// The namespaces of all public names.

/// All public names are those of namespace varve. They are declared in a namespace of the minor version, so that
/// objects that were compiled with the headers of another version do not link.
namespace varve {
/// The names of this minor version.
namespace v0_3 {}
#if !defined(VARVE_IMPLEMENTATION) // the sources of the library have names of their own in varve
using namespace v0_3;
#endif
} // namespace varve
