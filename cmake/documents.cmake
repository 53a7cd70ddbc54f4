# Makes varve.1 and varve.bash in FOLDER by the command VARVE:
#   cmake -DVARVE= -DFOLDER= -P documents.cmake
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${FOLDER})
foreach(pair IN ITEMS "man;varve.1" "bash;varve.bash")
  list(POP_FRONT pair kind)
  execute_process(COMMAND ${VARVE} --document ${kind} OUTPUT_FILE ${FOLDER}/${pair} ERROR_VARIABLE why RESULT_VARIABLE failed)
  if(failed)
    file(REMOVE ${FOLDER}/${pair})
    message("Not made: ${pair}, because the command does not run here (${failed}). ${why}")
  endif()
endforeach()
file(TOUCH ${FOLDER}/made)
