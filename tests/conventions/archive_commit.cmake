# A version that is made of the files of `git archive` has the commit of the archive:
#   cmake -DGIT= -DSOURCE_DIR= -P archive_commit.cmake
set(folder ${CMAKE_CURRENT_BINARY_DIR}/archive_commit)
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})
set(git ${GIT} -c safe.directory=* -C ${SOURCE_DIR})
execute_process(COMMAND ${git} rev-parse --short=12 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${git} archive --output=${folder}/archive.tar HEAD cmake COMMAND_ERROR_IS_FATAL ANY)
file(ARCHIVE_EXTRACT INPUT ${folder}/archive.tar DESTINATION ${folder})
file(WRITE ${folder}/version.in "@COMMIT@")
execute_process(COMMAND ${CMAKE_COMMAND} -DINPUT=${folder}/version.in -DOUTPUT=${folder}/version.txt -DSOURCE_DIR=${folder} -P ${folder}/cmake/version.cmake
                COMMAND_ERROR_IS_FATAL ANY)
file(STRINGS ${folder}/version.txt found LIMIT_COUNT 1)
string(SUBSTRING "${commit}" 0 12 commit)
if(NOT found STREQUAL commit)
  message(FATAL_ERROR "the version in an archive of commit ${commit} says \"${found}\"")
endif()
