# find_package(varve) in other projects: varve::varve, and varve::kokkos for code that includes varve/kokkos.hpp.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/varve)

install(TARGETS varve varve_kokkos EXPORT varve ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT varve NAMESPACE varve:: FILE varveTargets.cmake DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/varve DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/src/io/FORMAT.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
file(GLOB job_scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/env/slurm-*/job.sh)
foreach(script IN LISTS job_scripts)
  cmake_path(GET script PARENT_PATH folder)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}/varve USE_SOURCE_PERMISSIONS FILES_MATCHING PATTERN job.sh)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/env/slurm/common.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/varve/slurm)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/varveConfig.cmake.in ${PROJECT_BINARY_DIR}/varveConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/varveConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/varveConfig.cmake ${PROJECT_BINARY_DIR}/varveConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindZstd.cmake DESTINATION ${package_dir})
