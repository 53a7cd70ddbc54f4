#pragma once

/// All public names are those of namespace varve. They are declared in a namespace of the minor version, so that
/// objects that were compiled with the headers of another version do not link.
namespace varve {
namespace v0_2 {}
#if !defined(VARVE_IMPLEMENTATION) // the sources of the library have names of their own in varve
using namespace v0_2;
#endif
} // namespace varve
