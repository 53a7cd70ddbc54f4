# Writes OUTPUT from INPUT with the commit of SOURCE_DIR, at build time and only if something changed. In a checkout git knows the
# commit; in an archive of `git archive`, archive_commit.txt holds it:
#   cmake -DINPUT= -DOUTPUT= -DSOURCE_DIR= -P version.cmake
set(COMMIT unknown)
find_package(Git QUIET)
if(Git_FOUND)
  set(git ${GIT_EXECUTABLE} -C ${SOURCE_DIR})
  execute_process(COMMAND ${git} rev-parse --show-toplevel OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${SOURCE_DIR}" source)
  if(top AND top STREQUAL source)
    execute_process(COMMAND ${git} describe --always --dirty --abbrev=12 --exclude=* OUTPUT_VARIABLE found RESULT_VARIABLE failed
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      set(COMMIT ${found})
    endif()
  endif()
endif()
if(COMMIT STREQUAL unknown)
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/archive_commit.txt archived LIMIT_COUNT 1)
  if(archived MATCHES "^[0-9a-f]+$")
    string(SUBSTRING ${archived} 0 12 COMMIT)
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
