# Flags of our own targets: varve_host_flags for code without Kokkos, varve_device_flags for code with it.
add_library(varve_host_flags INTERFACE)
add_library(varve_device_flags INTERFACE)
target_compile_features(varve_host_flags INTERFACE cxx_std_20)
target_compile_features(varve_device_flags INTERFACE cxx_std_20)
target_include_directories(varve_host_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/generated)
target_include_directories(varve_device_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)

target_compile_options(varve_host_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow)
target_compile_options(varve_device_flags INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT VARVE_DEVICE_BACKEND) # packs wider than the processor's vectors stay within this build
  target_compile_options(varve_device_flags INTERFACE -Wno-psabi)
endif()
if(VARVE_WARNINGS_AS_ERRORS)
  target_compile_options(varve_host_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang") # std::stable_sort of g++'s library uses a function that it marks as deprecated
  target_compile_options(varve_host_flags INTERFACE -Wno-deprecated-declarations)
  target_compile_options(varve_device_flags INTERFACE -Wno-deprecated-declarations)
endif()

# Every sum is a chain of fma, called by name (core/host_vector.hpp), so compilers must not fuse products and sums themselves.
set(VARVE_CONTRACTION -ffp-contract=off)
target_compile_options(varve_host_flags INTERFACE ${VARVE_CONTRACTION})
target_compile_options(varve_device_flags INTERFACE ${VARVE_CONTRACTION})

# Nobody reads errno after a square root, and loops in which sqrt() may set it are not vectorized. No result depends on it.
target_compile_options(varve_device_flags INTERFACE -fno-math-errno)

# Host code is compiled for the processor that Kokkos is compiled for.
if(TARGET kokkoscore)
  get_target_property(kokkos_options kokkoscore INTERFACE_COMPILE_OPTIONS)
else()
  get_target_property(kokkos_options Kokkos::kokkoscore INTERFACE_COMPILE_OPTIONS)
endif()
string(REGEX MATCHALL "-m((arch|cpu|tune)=|no-)[-+_.A-Za-z0-9]+" processor_flags "${kokkos_options}")
list(REMOVE_DUPLICATES processor_flags)
set(VARVE_PROCESSOR_FLAGS ${processor_flags})
target_compile_options(varve_host_flags INTERFACE ${VARVE_PROCESSOR_FLAGS})
message(STATUS "Host code for: ${processor_flags}")

# Eight files of a folder at a time, if wanted; call it when the target has all its files. Names within the files of a folder must
# differ then. g++ takes types of an included file that no other file can name for a mistake.
function(varve_unity_build target)
  if(NOT VARVE_UNITY_BUILD OR VARVE_BUILD_CONTENDERS) # contenders link the few object files that need no MPI
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  get_target_property(target_folder ${target} SOURCE_DIR)
  list(FILTER sources EXCLUDE REGEX "TARGET_OBJECTS")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${target_folder})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR}) # a cache of objects serves every checkout
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    math(EXPR group "0${num_${folder}}")
    math(EXPR num_${folder} "${group} + 1")
    math(EXPR group "${group} / 8")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${folder}_${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
