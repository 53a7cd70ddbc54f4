# Kokkos: an installed one wins (Kokkos_ROOT); else the sources in FETCHCONTENT_SOURCE_DIR_KOKKOS; else the pinned release.
# Kokkos Kernels, of the same version, is for an engine that serves comparison and for gemm (product=library): VARVE_ENABLE_KOKKOS_KERNELS=AUTO
# takes it if it is installed with Kokkos (KokkosKernels_ROOT) or FETCHCONTENT_SOURCE_DIR_KOKKOSKERNELS is set, ON
# downloads the pinned release otherwise.
#
#   -DKokkos_ENABLE_OPENMP=ON                            backends beside Serial: OpenMP, and CUDA or HIP
#   -DKokkos_ARCH_AMPERE80=ON, _AMD_GFX90A=ON            GPU to compile for (one a build)
#   -DKokkos_ARCH_NATIVE=OFF                             portable host code; ON unless a host architecture is given
#   -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON               from source although one is installed
include(CheckCXXSourceCompiles)
include(FetchContent)

set(VARVE_KOKKOS_OLDEST 4.5.1)
set(VARVE_KOKKOS_BEFORE 6)
set(kokkos_releases https://github.com/kokkos/kokkos/releases/download)
set(kokkos_kernels_releases https://github.com/kokkos/kokkos-kernels/releases/download)

# The backends asked for on the command line, before a found Kokkos says what it has.
set(VARVE_KNOWN_BACKENDS SERIAL OPENMP CUDA HIP)
set(varve_requested_backends)
foreach(backend IN LISTS VARVE_KNOWN_BACKENDS ITEMS SYCL THREADS HPX OPENMPTARGET OPENACC)
  if(Kokkos_ENABLE_${backend})
    list(APPEND varve_requested_backends ${backend})
  endif()
endforeach()

# Refuses a Kokkos with a backend that Varve lacks: Kokkos might run on it.
function(varve_require_known_backends whose)
  set(unknown ${ARGN})
  list(REMOVE_ITEM unknown ${VARVE_KNOWN_BACKENDS})
  list(JOIN unknown ", " unknown)
  if(unknown)
    message(FATAL_ERROR "${whose} the backend ${unknown}, which Varve lacks: it has Serial, OpenMP, CUDA and HIP. Point Kokkos_ROOT to "
                        "a Kokkos with these only, or build Kokkos from source with -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON.")
  endif()
endfunction()
varve_require_known_backends("The Kokkos_ENABLE options ask for" ${varve_requested_backends})

function(varve_check_version name version)
  if(version VERSION_LESS VARVE_KOKKOS_OLDEST OR version VERSION_GREATER_EQUAL VARVE_KOKKOS_BEFORE)
    message(FATAL_ERROR "${name} ${version} was found, but Varve takes ${VARVE_KOKKOS_OLDEST} or newer, before ${VARVE_KOKKOS_BEFORE}. "
                        "Point ${name}_ROOT to such a one, or build it from source with -DCMAKE_DISABLE_FIND_PACKAGE_${name}=ON.")
  endif()
endfunction()

# Native host code unless a host architecture was chosen.
function(varve_default_to_native)
  if(DEFINED Kokkos_ARCH_NATIVE OR CMAKE_CROSSCOMPILING)
    return()
  endif()
  get_cmake_property(names CACHE_VARIABLES)
  list(FILTER names INCLUDE REGEX "^Kokkos_ARCH_")
  list(FILTER names EXCLUDE REGEX "_((KEPLER|MAXWELL|PASCAL|VOLTA|TURING|AMPERE|ADA|HOPPER|BLACKWELL|VEGA|NAVI)[0-9A-F]+|AMD_GFX[0-9A-F]+(_APU)?)$")
  foreach(name IN LISTS names)
    if(${name})
      return()
    endif()
  endforeach()
  set(Kokkos_ARCH_NATIVE ON CACHE BOOL "Compile for the processor of this machine")
endfunction()

# Clang 19 reports avx10.1-256 where a virtual machine's processor says AVX10 without its width, and then warns in every file that the
# AVX-512 of the same processor contradicts it. Without AVX10 the same instructions are left, as AVX-512.
function(varve_mend_native_of_clang)
  if(NOT Kokkos_ARCH_NATIVE OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    return()
  endif()
  set(without_avx10 -mno-avx10.1-256)
  set(CMAKE_REQUIRED_QUIET ON)
  set(CMAKE_REQUIRED_FLAGS "-march=native -Werror")
  check_cxx_source_compiles("int main() {}" VARVE_CLANG_KNOWS_THIS_PROCESSOR)
  string(APPEND CMAKE_REQUIRED_FLAGS " ${without_avx10}")
  check_cxx_source_compiles("int main() {}" VARVE_CLANG_KNOWS_THIS_PROCESSOR_WITHOUT_AVX10)
  if(NOT VARVE_CLANG_KNOWS_THIS_PROCESSOR AND VARVE_CLANG_KNOWS_THIS_PROCESSOR_WITHOUT_AVX10)
    target_compile_options(kokkoscore PUBLIC $<$<COMPILE_LANG_AND_ID:CXX,Clang>:${without_avx10}>)
  endif()
endfunction()

# varve_bridge(NAME PUBLIC|INTERFACE): cmake/NAME is included before everything that sees Kokkos's headers (PUBLIC: in Kokkos
# itself, too), also after installation.
function(varve_bridge name reach)
  set(shim ${PROJECT_SOURCE_DIR}/cmake/${name})
  set(installed_shim $<INSTALL_PREFIX>/${CMAKE_INSTALL_INCLUDEDIR}/varve/${name})
  target_compile_options(kokkoscore ${reach} "$<BUILD_INTERFACE:SHELL:-include ${shim}>"
                                             "$<INSTALL_INTERFACE:SHELL:-include ${installed_shim}>")
  install(FILES ${shim} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/varve)
endfunction()

# --- Kokkos
find_package(Kokkos CONFIG QUIET)
if(Kokkos_FOUND)
  message(STATUS "Kokkos ${Kokkos_VERSION} installed in ${Kokkos_DIR}: ${Kokkos_DEVICES}")
  varve_check_version(Kokkos ${Kokkos_VERSION})
  varve_require_known_backends("The Kokkos installed in ${Kokkos_DIR} has" ${Kokkos_DEVICES})
  foreach(backend IN LISTS varve_requested_backends)
    if(NOT backend IN_LIST Kokkos_DEVICES)
      message(FATAL_ERROR "Kokkos_ENABLE_${backend}=ON was asked for, but the Kokkos installed in ${Kokkos_DIR} was built "
                          "with ${Kokkos_DEVICES} only. Point Kokkos_ROOT to one that has it, or build Kokkos from source "
                          "with -DCMAKE_DISABLE_FIND_PACKAGE_Kokkos=ON.")
    endif()
  endforeach()
  if(NOT SERIAL IN_LIST Kokkos_DEVICES)
    message(FATAL_ERROR "The Kokkos installed in ${Kokkos_DIR} lacks the Serial backend, which Varve always needs.")
  endif()
  set(VARVE_KOKKOS_VERSION ${Kokkos_VERSION})
  set(VARVE_KOKKOS_BACKENDS ${Kokkos_DEVICES})
else()
  set(Kokkos_ENABLE_SERIAL ON CACHE BOOL "Varve always has the Serial backend" FORCE)
  varve_default_to_native()
  if(NOT FETCHCONTENT_SOURCE_DIR_KOKKOS)
    message(STATUS "No Kokkos is installed and FETCHCONTENT_SOURCE_DIR_KOKKOS is not set: downloading the release from ${kokkos_releases}")
  endif()
  FetchContent_Declare(
    Kokkos SYSTEM
    URL ${kokkos_releases}/4.5.01/kokkos-4.5.01.tar.gz
    URL_HASH SHA256=52d003ffbbe05f30c89966e4009c017efb1662b02b2b73190670d3418719564c)
  FetchContent_MakeAvailable(Kokkos)
  if(VARVE_UNITY_BUILD AND NOT Kokkos_ENABLE_CUDA AND NOT Kokkos_ENABLE_HIP) # its headers take longer than its files
    set_target_properties(kokkoscore PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  endif()
  varve_mend_native_of_clang()
  get_directory_property(VARVE_KOKKOS_VERSION DIRECTORY ${kokkos_SOURCE_DIR} DEFINITION Kokkos_VERSION)
  message(STATUS "Kokkos ${VARVE_KOKKOS_VERSION} built from ${kokkos_SOURCE_DIR}")
  varve_check_version(Kokkos ${VARVE_KOKKOS_VERSION})
  set(VARVE_KOKKOS_BACKENDS)
  foreach(backend IN LISTS VARVE_KNOWN_BACKENDS)
    if(Kokkos_ENABLE_${backend})
      list(APPEND VARVE_KOKKOS_BACKENDS ${backend})
    endif()
  endforeach()
  if(Kokkos_ENABLE_CUDA AND VARVE_KOKKOS_VERSION VERSION_LESS 4.7.1)
    varve_bridge(cuda13_shim.hpp PUBLIC) # calls of the CUDA runtime that CUDA 13 changed and Kokkos before 4.7.01 makes
  endif()
  if(Kokkos_ENABLE_HIP AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 17)
    varve_bridge(hip5_shim.hpp INTERFACE)
  endif()
endif()
# The backends that kernels are compiled for: Serial is one thread of OpenMP where there is OpenMP.
set(VARVE_KERNEL_BACKENDS ${VARVE_KOKKOS_BACKENDS})
if("OPENMP" IN_LIST VARVE_KERNEL_BACKENDS)
  list(REMOVE_ITEM VARVE_KERNEL_BACKENDS SERIAL)
endif()
set(VARVE_DEVICE_BACKEND ${VARVE_KOKKOS_BACKENDS}) # empty in a build for CPUs
list(FILTER VARVE_DEVICE_BACKEND INCLUDE REGEX "^(CUDA|HIP)$")
if("CUDA" IN_LIST VARVE_DEVICE_BACKEND AND NOT VARVE_KOKKOS_VERSION MATCHES "^4\\.5\\.")
  message(STATUS "Kokkos ${VARVE_KOKKOS_VERSION}: teams have 48 KiB of scratch on CUDA, and wide layers no fused launches; core/large_scratch.hpp was "
                 "tried with 4.5 alone")
endif()

# --- Kokkos Kernels
set(VARVE_HAVE_KOKKOS_KERNELS OFF)
set(kokkos_kernels_version "")
if(VARVE_ENABLE_KOKKOS_KERNELS AND Kokkos_FOUND)
  find_package(KokkosKernels CONFIG QUIET)
endif()
if(KokkosKernels_FOUND)
  message(STATUS "Kokkos Kernels ${KokkosKernels_VERSION} installed in ${KokkosKernels_DIR}")
  set(kokkos_kernels_version ${KokkosKernels_VERSION})
elseif(FETCHCONTENT_SOURCE_DIR_KOKKOSKERNELS OR NOT VARVE_ENABLE_KOKKOS_KERNELS STREQUAL "AUTO")
  if(VARVE_ENABLE_KOKKOS_KERNELS)
    set(KokkosKernels_ENABLE_ALL_COMPONENTS OFF CACHE BOOL "Varve needs the sparse component, and that of BLAS, which it includes")
    set(KokkosKernels_ENABLE_COMPONENT_SPARSE ON CACHE BOOL "")
    set(KokkosKernels_ADD_DEFAULT_ETI OFF CACHE BOOL "Varve instantiates what it uses")
    FetchContent_Declare(
      KokkosKernels SYSTEM
      URL ${kokkos_kernels_releases}/4.5.01/kokkos-kernels-4.5.01.tar.gz
      URL_HASH SHA256=c111a6561f23a85af9850d1df1e9015f37a586f1da0be4b6fb1e98001d75e074)
    FetchContent_MakeAvailable(KokkosKernels)
    get_directory_property(kokkos_kernels_version DIRECTORY ${kokkoskernels_SOURCE_DIR} DEFINITION KokkosKernels_VERSION)
    message(STATUS "Kokkos Kernels ${kokkos_kernels_version} built from ${kokkoskernels_SOURCE_DIR}")
  endif()
endif()
if(NOT kokkos_kernels_version)
  message(STATUS "Kokkos Kernels: not used (VARVE_ENABLE_KOKKOS_KERNELS=${VARVE_ENABLE_KOKKOS_KERNELS}): varve infer lacks "
                 "the engine kokkos-kernels, a contender, and varve multiply --tuning product=library")
elseif(kokkos_kernels_version VERSION_EQUAL VARVE_KOKKOS_VERSION)
  set(VARVE_HAVE_KOKKOS_KERNELS ON)
elseif(VARVE_ENABLE_KOKKOS_KERNELS STREQUAL "AUTO" AND KokkosKernels_FOUND)
  message(STATUS "Kokkos Kernels: not used, version ${kokkos_kernels_version} is no pair with Kokkos ${VARVE_KOKKOS_VERSION}")
else()
  message(FATAL_ERROR "Kokkos ${VARVE_KOKKOS_VERSION} and Kokkos Kernels ${kokkos_kernels_version} are no pair: their versions must be "
                      "equal. Install matching ones, or leave the contender out with -DVARVE_ENABLE_KOKKOS_KERNELS=OFF.")
endif()
