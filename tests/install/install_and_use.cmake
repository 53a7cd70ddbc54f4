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
run(${CMAKE_COMMAND} -S ${EXAMPLE_DIR} -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=${CONFIG}
    -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} ${packages})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/example)
run(${prefix}/bin/varve --version)
