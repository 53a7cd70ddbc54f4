# The tests fuzz_TARGET: the targets, all in one program without libFuzzer, over the corpus and over what Varve writes.
set(seeds ${CMAKE_CURRENT_BINARY_DIR}/seeds)
add_executable(fuzz_seeds seeds.cpp)
varve_configure_test_target(fuzz_seeds FALSE)
add_test(NAME fuzz_seeds COMMAND fuzz_seeds ${seeds})
set_tests_properties(fuzz_seeds PROPERTIES LABELS fuzz TIMEOUT 60 FIXTURES_SETUP fuzz_seeds ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)

list(TRANSFORM fuzz_targets APPEND .cpp OUTPUT_VARIABLE target_sources)
add_executable(tests_fuzz ${target_sources} replay.cpp one_input.cpp)
varve_configure_test_target(tests_fuzz FALSE)
target_link_libraries(tests_fuzz PRIVATE $<$<IN_LIST:command_line,${fuzz_targets}>:varve_apps$<SEMICOLON>CLI11::CLI11>)
add_dependencies(tests_fuzz fuzz_seeds)
foreach(name IN LISTS fuzz_targets)
  set(folders ${name})
  if(DEFINED fuzz_corpora_of_${name})
    set(folders ${fuzz_corpora_of_${name}})
  endif()
  list(TRANSFORM folders PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/corpus/ OUTPUT_VARIABLE corpora)
  list(TRANSFORM folders PREPEND ${seeds}/ OUTPUT_VARIABLE seed_folders)
  set(mutants)
  if(name IN_LIST fuzz_containers)
    set(corpora) # mutants instead
    set(mutants --mutants 2000)
  endif()
  add_test(NAME fuzz_${name} COMMAND tests_fuzz ${name} ${corpora} --seeds ${seed_folders} ${mutants})
  # Freed memory that the sanitizer keeps back must not look like that of an input.
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 120 FIXTURES_REQUIRED fuzz_seeds
                                               ENVIRONMENT "${VARVE_TEST_ENVIRONMENT};ASAN_OPTIONS=quarantine_size_mb=8")
endforeach()
