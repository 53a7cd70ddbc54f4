# Installs BUILD_DIR to a fresh prefix in WORK_DIR; configures, builds and runs the project in EXAMPLE_DIR against it.
# PREFIX_PATH: where the build found libraries, beside the system's folders.
cmake_minimum_required(VERSION 3.25)
set(prefix ${WORK_DIR}/prefix)
list(JOIN PREFIX_PATH ":" beside)
set(ENV{CMAKE_PREFIX_PATH} "${beside}:$ENV{CMAKE_PREFIX_PATH}")
file(REMOVE_RECURSE ${WORK_DIR})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT RESULT_VARIABLE failed)
  if(failed)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "This failed: ${command}")
  endif()
endfunction()

# An installed Kokkos is found where the build found it; one built in tree is in the prefix.
set(packages)
if(KOKKOS_DIR AND NOT KOKKOS_DIR MATCHES "NOTFOUND" AND NOT KOKKOS_DIR MATCHES "^${BUILD_DIR}")
  list(APPEND packages -DKokkos_DIR=${KOKKOS_DIR})
endif()
if(KOKKOS_KERNELS_DIR AND NOT KOKKOS_KERNELS_DIR MATCHES "NOTFOUND" AND NOT KOKKOS_KERNELS_DIR MATCHES "^${BUILD_DIR}")
  list(APPEND packages -DKokkosKernels_DIR=${KOKKOS_KERNELS_DIR})
endif()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --config ${CONFIG} --prefix ${prefix})

# Public headers, and no others of Varve's.
file(GLOB public_headers RELATIVE ${SOURCE_DIR}/include ${SOURCE_DIR}/include/varve/*.hpp)
file(GLOB_RECURSE installed_headers RELATIVE ${prefix}/include ${prefix}/include/varve/*.hpp)
list(FILTER installed_headers EXCLUDE REGEX "^varve/(fetched/|[a-z0-9]+_shim.hpp)") # of libraries without an installation
list(SORT public_headers)
list(SORT installed_headers)
if(NOT installed_headers STREQUAL public_headers)
  message(FATAL_ERROR "These headers are installed: ${installed_headers}, expected: ${public_headers}")
endif()

# Licence, formats, manual page, completion, job scripts.
execute_process(COMMAND ${prefix}/share/varve/slurm-cpu/job.sh OUTPUT_QUIET ERROR_VARIABLE said RESULT_VARIABLE failed)
if(NOT failed OR NOT said MATCHES "SLURM_JOB_ID: sbatch submits this script")
  message(FATAL_ERROR "The job script ends with ${failed}: ${said}")
endif()
foreach(file IN ITEMS share/varve/slurm/common.sh share/doc/varve/LICENSE share/doc/varve/FORMAT.md share/man/man1/varve.1 share/bash-completion/completions/varve)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} is not installed.")
  endif()
  file(SIZE ${prefix}/${file} size)
  if(size LESS 1000)
    message(FATAL_ERROR "${file} has ${size} bytes, expected at least 1000.")
  endif()
endforeach()

set(outside -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=${CONFIG} -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} ${packages})

# Before 1.0 a minor version may change interfaces: only the same one is compatible. One folder, in which the compiler is
# looked at once.
foreach(pair IN ITEMS "0.3;found" "0.3.0;found" "0.2;refused" "0.4;refused" "0.3.9;refused" "1;refused")
  list(POP_FRONT pair wanted)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${EXAMPLE_DIR}/../version -B ${WORK_DIR}/version -DWANTED=${wanted} ${outside}
                  OUTPUT_VARIABLE said RESULT_VARIABLE failed)
  if(failed OR NOT said MATCHES "varve ${wanted}: ${pair}")
    message(FATAL_ERROR "find_package(varve ${wanted}) is expected to be ${pair}: ${said}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${EXAMPLE_DIR} -B ${WORK_DIR}/build ${outside})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
foreach(example IN ITEMS example train views)
  run(${WORK_DIR}/build/${example})
endforeach()
run(${prefix}/bin/varve --version)
