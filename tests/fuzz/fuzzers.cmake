# The fuzzers fuzz_TARGET_libfuzzer: the host library and a target under libFuzzer and sanitizers. They hold no kernel: the
# library is linked as archives, of which a target takes what it reads with, and no_backends.cpp stands in for backends.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "VARVE_BUILD_FUZZERS needs clang, whose libFuzzer drives the targets, found ${CMAKE_CXX_COMPILER_ID}: "
                      "add -DCMAKE_CXX_COMPILER=clang++-19, or use the preset fuzz")
endif()
set(sanitizers address,undefined)
get_target_property(host_libraries varve_host LINK_LIBRARIES)
get_target_property(host_sources varve_host SOURCES)
set(file_sources ${host_sources})
list(FILTER file_sources INCLUDE REGEX "/(core|network|io|receipts|distribute)/[^/]*$")
list(REMOVE_ITEM host_sources ${file_sources})
list(FILTER host_sources EXCLUDE REGEX "/library/") # behind the public headers, which no fuzzer uses
file(GLOB apps_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/apps/*.cpp)
list(FILTER apps_sources EXCLUDE REGEX "/main.cpp$")
set_source_files_properties(${PROJECT_BINARY_DIR}/generated/core/version.cpp PROPERTIES GENERATED TRUE)

# What reads files, and what only command lines need beside it.
add_library(varve_fuzzed_files STATIC EXCLUDE_FROM_ALL ${file_sources})
add_dependencies(varve_fuzzed_files varve_version)
target_link_libraries(varve_fuzzed_files PUBLIC ${host_libraries})
target_compile_options(varve_fuzzed_files PUBLIC -fsanitize=fuzzer-no-link,${sanitizers} -fno-sanitize-recover=undefined
                                                 -fno-omit-frame-pointer -O1 -g1)
target_link_options(varve_fuzzed_files PUBLIC -fsanitize=${sanitizers})
add_library(varve_fuzzed_apps STATIC EXCLUDE_FROM_ALL ${host_sources} ${apps_sources} ${PROJECT_SOURCE_DIR}/src/core/device_memory.cpp
            ${PROJECT_SOURCE_DIR}/src/core/runtime.cpp no_backends.cpp)
target_link_libraries(varve_fuzzed_apps PUBLIC varve_fuzzed_files CLI11::CLI11 Kokkos::kokkos)

add_custom_target(fuzzers)
foreach(name IN LISTS fuzz_targets)
  add_executable(fuzz_${name}_libfuzzer EXCLUDE_FROM_ALL ${name}.cpp one_input.cpp memory_limit.cpp)
  target_include_directories(fuzz_${name}_libfuzzer PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  if(name STREQUAL command_line) # what parses command lines needs the command's own files
    target_link_libraries(fuzz_${name}_libfuzzer PRIVATE $<LINK_GROUP:RESCAN,varve_fuzzed_apps,varve_fuzzed_files>)
  else()
    target_link_libraries(fuzz_${name}_libfuzzer PRIVATE varve_fuzzed_files)
  endif()
  target_link_options(fuzz_${name}_libfuzzer PRIVATE -fsanitize=fuzzer -Wl,--wrap=LLVMFuzzerTestOneInput)
  if(name IN_LIST fuzz_containers)
    target_sources(fuzz_${name}_libfuzzer PRIVATE container_mutator.cpp)
  endif()
  set(mebibytes 64)
  if(name MATCHES "compressed|text|categories|labels|idx|matrix_market")
    set(mebibytes 1100) # a decompressor reserves the window that a file names, and touches what it fills of it
  endif()
  target_compile_definitions(fuzz_${name}_libfuzzer PRIVATE VARVE_FUZZ_MEBIBYTES=${mebibytes})
  add_dependencies(fuzzers fuzz_${name}_libfuzzer)
endforeach()

if(NOT TARGET fuzz_seeds)
  add_executable(fuzz_seeds EXCLUDE_FROM_ALL seeds.cpp)
  target_include_directories(fuzz_seeds PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(fuzz_seeds PRIVATE varve_fuzzed_files)
endif()
add_dependencies(fuzzers fuzz_seeds)
