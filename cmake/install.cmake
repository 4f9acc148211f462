# Where things go: the program, the library, its headers, and how others find them.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(libfast PROPERTIES EXPORT_NAME fast)
install(TARGETS libfast EXPORT fast-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/fast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY python/fast DESTINATION ${CMAKE_INSTALL_LIBDIR}/fast/python PATTERN "__pycache__" EXCLUDE)
install(EXPORT fast-targets NAMESPACE fast:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fast)

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/fast-config.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/fast-targets.cmake)\n")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/fast-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fast-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/fast-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/fast)

# Found from where the file lies, so that `cmake --install --prefix` and unpacked packages work too.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE FAST_PC_UP)
configure_file(cmake/fast.pc.in fast.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/fast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

if(TARGET fast)
  install(TARGETS fast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(TARGET fast-runtime)
    install(TARGETS fast-runtime RUNTIME DESTINATION lib/fast)
  endif()
  # The man page and the completions are made by the program, from the tables that it parses with.
  if(NOT CMAKE_CROSSCOMPILING)
    set(made "")
    foreach(pair "fast.1:--man" "fast.bash:--complete bash" "_fast:--complete zsh"
                 "fast.fish:--complete fish")
      string(REPLACE ":" ";" pair "${pair}")
      list(GET pair 0 file)
      list(GET pair 1 flags)
      separate_arguments(flags)
      add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/made/${file}
                         COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/made
                         COMMAND fast help ${flags} > ${CMAKE_CURRENT_BINARY_DIR}/made/${file}
                         DEPENDS fast VERBATIM)
      list(APPEND made ${CMAKE_CURRENT_BINARY_DIR}/made/${file})
    endforeach()
    add_custom_target(made ALL DEPENDS ${made})
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/made/fast.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/made/fast.bash RENAME fast
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/made/_fast
            DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/made/fast.fish
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()
