# The dashboard's pages: built by npm from a copy of ui/ in the build tree, and embedded as constants.
# A build without npm, or one that npm cannot finish (no network), has no pages: `fast ui` says so.
# Gives the object in FAST_PAGES.
find_program(FAST_NPM npm)
find_program(FAST_NODE NAMES node nodejs)
set(FAST_PAGES "")
if(FAST_SERVER)
  set(pages ${CMAKE_BINARY_DIR}/ui/pages.c)
  set(npm "")
  file(GLOB_RECURSE page_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ui/*)
  list(FILTER page_sources EXCLUDE REGEX "/ui/(node_modules|dist|tests)/")
  if(NOT FAST_UI)
    message(STATUS "fast ui has no pages: FAST_UI is OFF")
  elseif(NOT FAST_NPM OR NOT FAST_NODE)
    message(STATUS "fast ui has no pages: npm is missing")
  elseif(NOT page_sources)
    message(STATUS "fast ui has no pages: there is no folder ui")
  else()
    set(npm ${FAST_NPM})
  endif()
  add_custom_command(
    OUTPUT ${pages}
    COMMAND ${CMAKE_COMMAND} -DNPM=${npm} -DNODE=${FAST_NODE} -DSOURCE=${PROJECT_SOURCE_DIR}/ui
            -DWORK=${CMAKE_BINARY_DIR}/ui -DEMBED=${PROJECT_SOURCE_DIR}/cmake/embed.mjs
            -DOUT=${pages} -P ${PROJECT_SOURCE_DIR}/cmake/ui_build.cmake
    DEPENDS ${page_sources} ${PROJECT_SOURCE_DIR}/cmake/ui_build.cmake
            ${PROJECT_SOURCE_DIR}/cmake/embed.mjs
    COMMENT "Building the dashboard" VERBATIM)
  add_library(fast_pages OBJECT ${pages})
  target_include_directories(fast_pages PRIVATE include src)
  set(FAST_PAGES $<TARGET_OBJECTS:fast_pages>)
endif()
