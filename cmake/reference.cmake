# Target reference: the public headers by Doxygen, in reference/html of the build; a warning is an error.
find_package(Doxygen QUIET)
if(DOXYGEN_FOUND)
  configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
  add_custom_target(
    reference
    COMMAND Doxygen::doxygen ${PROJECT_BINARY_DIR}/Doxyfile
    COMMENT "Making the reference in ${PROJECT_BINARY_DIR}/reference/html"
    VERBATIM)
  if(VARVE_BUILD_TESTS)
    add_test(NAME readme_reference COMMAND Doxygen::doxygen ${PROJECT_BINARY_DIR}/Doxyfile)
    set_tests_properties(readme_reference PROPERTIES LABELS readme TIMEOUT 120)
  endif()
else()
  message(STATUS "Doxygen: not found (doxygen), so there is no target reference")
endif()
