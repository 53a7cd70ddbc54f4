# Libraries. Those of headers alone ({fmt}, nlohmann_json, CLI11) and GoogleTest: an installed one wins; else the sources
# in FETCHCONTENT_SOURCE_DIR_FMT, _NLOHMANN_JSON, _CLI11 and _GOOGLETEST; else the pinned release is downloaded. The
# others come from the system; a missing one is named with the packages that hold it.
include(FetchContent)

function(varve_require name debian spack)
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${name} was not found: install ${debian} (Debian, Ubuntu) or ${spack} (Spack), or point "
                        "CMAKE_PREFIX_PATH to where it is.")
  endif()
endfunction()

function(varve_say_fetched name url)
  string(TOUPPER ${name} upper)
  if(FETCHCONTENT_SOURCE_DIR_${upper})
    message(STATUS "${name}: from ${FETCHCONTENT_SOURCE_DIR_${upper}}")
  else()
    message(STATUS "${name} is not installed and FETCHCONTENT_SOURCE_DIR_${upper} is not set: downloading ${url}")
  endif()
endfunction()

# varve_header_library(PACKAGE TARGET URL SHA256 [definitions...]): the package of this name, or a target of the same name
# over the folder include/ of its release. varve_fetched_headers lists those folders, which are installed with Varve.
set(varve_fetched_headers)
function(varve_header_library package target url sha256)
  find_package(${package} CONFIG QUIET)
  if(${package}_FOUND)
    return()
  endif()
  varve_say_fetched(${package} ${url})
  FetchContent_Declare(${package} URL ${url} URL_HASH SHA256=${sha256} SOURCE_SUBDIR headers_only) # this folder does not exist, so nothing of the release is built
  FetchContent_MakeAvailable(${package})
  string(TOLOWER ${package} lower)
  set(headers ${${lower}_SOURCE_DIR}/include)
  if(NOT IS_DIRECTORY ${headers})
    message(FATAL_ERROR "${package}: there is no folder ${headers}, expected one with its headers.")
  endif()
  add_library(varve_${lower} INTERFACE)
  target_include_directories(varve_${lower} SYSTEM INTERFACE $<BUILD_INTERFACE:${headers}>
                                                             $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/varve/fetched>)
  target_compile_definitions(varve_${lower} INTERFACE ${ARGN})
  add_library(${target} ALIAS varve_${lower})
  set(varve_fetched_headers ${varve_fetched_headers} ${lower} PARENT_SCOPE)
  install(TARGETS varve_${lower} EXPORT varve)
  install(DIRECTORY ${headers}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/varve/fetched)
endfunction()

find_package(Threads QUIET)
varve_require(Threads libc6-dev gcc)
varve_header_library(fmt fmt::fmt https://github.com/fmtlib/fmt/releases/download/9.1.0/fmt-9.1.0.zip
                     cceb4cb9366e18a5742128cb3524ce5f50e88b476f1e54737a47ffdf4df4c996 FMT_HEADER_ONLY=1)
varve_header_library(nlohmann_json nlohmann_json::nlohmann_json https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
                     8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f)
varve_header_library(CLI11 CLI11::CLI11 https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz
                     26291377e892ba0e5b4972cdfd4a2ab3bf53af8dac1f4ea8fe0d1376b625c8cb)
find_package(ZLIB QUIET)
varve_require(ZLIB zlib1g-dev zlib)
find_package(Zstd QUIET)
varve_require(Zstd libzstd-dev zstd)

# xz reaches src/io/ only.
find_package(LibLZMA QUIET)
set(VARVE_HAVE_XZ ${LIBLZMA_FOUND})
if(VARVE_BUILD_TESTS)
  varve_require(LibLZMA liblzma-dev xz)
elseif(NOT VARVE_HAVE_XZ)
  message(STATUS "xz: not used, LibLZMA was not found (liblzma-dev, xz): files that end in .xz are refused")
endif()


if(VARVE_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    set(url https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz)
    varve_say_fetched(googletest ${url})
    set(INSTALL_GTEST OFF CACHE BOOL "The tests alone use it")
    FetchContent_Declare(googletest SYSTEM URL ${url}
                         URL_HASH SHA256=81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2)
    FetchContent_MakeAvailable(googletest)
  endif()
endif()

# MPI reaches src/distribute/ only.
set(VARVE_HAVE_MPI OFF)
if(VARVE_ENABLE_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS CXX)
elseif(VARVE_ENABLE_MPI)
  find_package(MPI QUIET COMPONENTS CXX)
  varve_require(MPI libopenmpi-dev openmpi)
endif()
if(VARVE_ENABLE_MPI AND MPI_CXX_FOUND)
  set(VARVE_HAVE_MPI ON)
  message(STATUS "MPI: ${MPI_CXX_LIBRARY_VERSION_STRING} ${MPIEXEC_EXECUTABLE}")
else()
  message(STATUS "MPI: not used (VARVE_ENABLE_MPI=${VARVE_ENABLE_MPI})")
endif()
