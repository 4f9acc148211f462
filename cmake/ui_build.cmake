# Build the dashboard and write its files as C: cmake -DNPM= -DNODE= -DSOURCE= -DWORK= -DEMBED= -DOUT=
# -P ui_build.cmake. Without NPM, or where npm fails, the table is empty and the build goes on.
set(empty "/* No pages in this build. */\n#include \"serve/server.h\"\n\nconst fast_asset fast__assets[] = { { .path = NULL } };\n")

function(give_up why)
  if(why)
    message(STATUS "fast ui will have no pages: ${why}")
  endif()
  file(WRITE ${OUT} "${empty}")
endfunction()

if(NOT NPM)
  give_up("")
  return()
endif()

file(MAKE_DIRECTORY ${WORK})
file(COPY ${SOURCE}/ DESTINATION ${WORK}/source PATTERN node_modules EXCLUDE PATTERN dist EXCLUDE
     PATTERN tests EXCLUDE)
file(REMOVE_RECURSE ${WORK}/source/dist)

# The packages of an earlier build serve as long as the list of them is the same.
file(SHA256 ${SOURCE}/package-lock.json lock)
set(stamp ${WORK}/source/node_modules/.fast-lock)
set(known "")
if(EXISTS ${stamp})
  file(READ ${stamp} known)
endif()
if(NOT known STREQUAL lock)
  # A machine without a network says so soon.
  execute_process(COMMAND ${NPM} ci --no-audit --no-fund --prefer-offline --fetch-retries=1
                          --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=2000
                  WORKING_DIRECTORY ${WORK}/source RESULT_VARIABLE failed OUTPUT_VARIABLE said
                  ERROR_VARIABLE said TIMEOUT 600)
  if(failed)
    string(SUBSTRING "${said}" 0 400 said)
    give_up("npm ci failed: ${said}")
    return()
  endif()
  file(WRITE ${stamp} ${lock})
endif()
execute_process(COMMAND ${NPM} run --silent build WORKING_DIRECTORY ${WORK}/source
                RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 600)
if(failed)
  message(FATAL_ERROR "the dashboard does not build:\n${said}")
endif()
execute_process(COMMAND ${NODE} ${EMBED} ${WORK}/source/dist ${OUT} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "the dashboard cannot be embedded")
endif()
